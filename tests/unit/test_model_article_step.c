/* SPDX-License-Identifier: MIT
 *
 * What the two articles say of whole training jobs, remedies and cards, held against the refined model: one test a
 * passage, named after the article. Where the passage is only roughly true, the test says what is.
 */
#include "model/plan.h"
#include "model/preset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GB 1e9

static struct vs_job job_of(const char *preset, uint64_t batch, uint64_t seq)
{
	struct vs_shape shape;
	struct vs_job job;

	assert_int_equal(vs_preset_find(preset, &shape), 0);
	job = vs_job_default(&shape);
	job.batch = batch;
	job.seq = seq;
	return job;
}

static struct vs_forecast forecast(const struct vs_job *job)
{
	struct vs_forecast f;

	assert_int_equal(vs_forecast_job(job, NULL, &f), 0);
	return f;
}

static uint64_t peak_of(const struct vs_job *job)
{
	struct vs_forecast f = forecast(job);

	return vs_forecast_peak(&f);
}

/* What the forward keeps, at the loss's backward. */
static double activations(const struct vs_job *job)
{
	struct vs_forecast f = forecast(job);

	return (double)f.instants[VS_INSTANT_LOSS_BACKWARD].live[VS_TAG_ACTIVATIONS];
}

static struct vs_room room_on(const char *card, struct vs_job *job)
{
	struct vs_gpu_memory gpu;

	assert_int_equal(vs_gpu_memory_find(card, &gpu), 0);
	vs_job_on(job, &gpu);
	return vs_room_on(&gpu);
}

static bool between(double value, double least, double most)
{
	if (value < least || value > most)
		print_error("%g is not in %g to %g\n", value, least, most);
	return value >= least && value <= most;
}

/* "With torch.cuda.amp and fp32 parameters the gradients are fp32 too: the memory does not fall." Autocast's copies
 * of the weights even add 2 bytes a parameter of the products while the graph lives. */
static void article_000_amp_gradients(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 64);
	struct vs_forecast full, amp;

	(void)state;
	job.precision = VS_PRECISION_FP32;
	full = forecast(&job);
	job.precision = VS_PRECISION_AMP;
	amp = forecast(&job);
	for (int tag = VS_TAG_WEIGHTS; tag <= VS_TAG_OPTIMIZER; tag++)
		assert_int_equal(amp.instants[VS_INSTANT_OPTIMIZER].live[tag],
		                 full.instants[VS_INSTANT_OPTIMIZER].live[tag]);
	assert_true(amp.instants[VS_INSTANT_LOSS_BACKWARD].bytes > full.instants[VS_INSTANT_LOSS_BACKWARD].bytes);
}

/* "Two schools, AMP and half precision with an fp32 master: 16 bytes a parameter either way." */
static void article_000_two_schools(void **state)
{
	static const enum vs_precision schools[] = {VS_PRECISION_AMP, VS_PRECISION_MASTER16};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct vs_job job = job_of("llama-2-7b", 1, 64);
		struct vs_forecast f;
		uint64_t fixed = 0;

		job.precision = schools[i];
		f = forecast(&job);
		for (int tag = VS_TAG_WEIGHTS; tag <= VS_TAG_OPTIMIZER; tag++)
			fixed += f.instants[VS_INSTANT_OPTIMIZER].live[tag];
		assert_true(between((double)fixed / (double)vs_shape_count(&job.shape), 15.99, 16.05));
	}
}

/* "Checkpointing takes activations from tens of GB to a few." */
static void article_000_checkpointing_few_gb(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 2, 2048);

	(void)state;
	assert_true(between(activations(&job) / GB, 20, 99));
	job.checkpointing = VS_CHECKPOINTING_FULL;
	assert_true(between(activations(&job) / GB, 1, 9));
}

/* "Gradient accumulation saves no memory": four micro-batches take as much as one, and no more than that. */
static void article_000_accumulation(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);
	uint64_t one = peak_of(&job);

	(void)state;
	job.accumulation = 4;
	assert_true(peak_of(&job) >= one);
	job.accumulation = 64;
	assert_int_equal(peak_of(&job), (job.accumulation = 4, peak_of(&job)));
}

/* "ZeRO-1 spreads the optimizer's states, 2 the gradients too, 3 the parameters too; a single card can move the
 * states to the CPU." By its paper 4 + 12 / N, 2 + 14 / N, 16 / N bytes a parameter. */
static void article_000_zero_stages(void **state)
{
	static const struct {
		enum vs_sharding sharding;
		double weights, gradients, optimizer;
	} rows[] = {{VS_SHARDING_ZERO1, 2, 2, 12.0 / 8},
	            {VS_SHARDING_ZERO2, 2, 2.0 / 8, 12.0 / 8},
	            {VS_SHARDING_ZERO3, 2.0 / 8, 2.0 / 8, 12.0 / 8}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct vs_job job = job_of("llama-2-7b", 1, 64);
		double count = (double)vs_shape_count(&job.shape);
		const struct vs_peak *step;
		struct vs_forecast f;

		job.precision = VS_PRECISION_MASTER16;
		job.sharding = rows[i].sharding;
		job.ranks = 8;
		/* Over several micro-batches, for gradients that come all at once are reduced as they come. */
		job.accumulation = 2;
		f = forecast(&job);
		step = &f.instants[VS_INSTANT_OPTIMIZER];
		assert_true(between((double)step->live[VS_TAG_WEIGHTS] / count / rows[i].weights, 0.95, 1.05));
		assert_true(between((double)step->live[VS_TAG_GRADIENTS] / count / rows[i].gradients, 0.99, 1.01));
		/* Shares are blocks, rounded up. */
		assert_true(between((double)step->live[VS_TAG_OPTIMIZER] / count / rows[i].optimizer, 1, 1.02));
	}
}

static void article_000_offload(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 64);
	struct vs_forecast f;

	(void)state;
	job.precision = VS_PRECISION_MASTER16;
	job.offload = true;
	f = forecast(&job);
	assert_int_equal(f.instants[VS_INSTANT_OPTIMIZER].live[VS_TAG_OPTIMIZER], 0);
	assert_true(between((double)f.host / (double)vs_shape_count(&job.shape), 11.99, 12.05));
}

/* "Full fine-tuning of 7B does not fit one 80 GB card; LoRA and QLoRA bring it down to a consumer's card." */
static void article_000_consumer_card(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);
	struct vs_room room = room_on("a100-80", &job);

	(void)state;
	job.precision = VS_PRECISION_MASTER16;
	assert_false(vs_plan_fits(&job, &room));
	room = room_on("rtx4090", &job);
	assert_false(vs_plan_fits(&job, &room));
	job.precision = VS_PRECISION_PURE16;
	job.lora_rank = 8;
	job.input_grads = true;
	job.checkpointing = VS_CHECKPOINTING_FULL;
	assert_true(vs_plan_fits(&job, &room));
	job.quantization = VS_QUANTIZATION_NF4;
	job.checkpointing = VS_CHECKPOINTING_NONE;
	job.seq = 1024;
	assert_true(vs_plan_fits(&job, &room));
}

/* "70B on a single card takes LoRA, ZeRO and recomputation together." */
static void article_000_seventy_billion(void **state)
{
	struct vs_job job = job_of("llama-2-70b", 1, 2048);
	struct vs_room room = room_on("a100-80", &job);

	(void)state;
	job.checkpointing = VS_CHECKPOINTING_FULL;
	job.lora_rank = 16;
	job.input_grads = true;
	assert_false(vs_plan_fits(&job, &room));
	job.quantization = VS_QUANTIZATION_NF4;
	assert_true(vs_plan_fits(&job, &room));
}

/* "The CUDA context takes some tens of MB to some GB." */
static void article_000_context(void **state)
{
	struct vs_gpu_memory gpu;

	(void)state;
	for (size_t i = 0; vs_gpu_memory_at(i, &gpu); i++)
		assert_true(between((double)gpu.context / GB, 0.02, 4));
}

/* "A100, H100, 4090, 3090 have BF16; V100 and T4 do not": compute capability 8.0 and up. */
static void article_000_bf16_cards(void **state)
{
	static const char *const yes[] = {"a100-80", "h100-80", "rtx4090", "rtx3090"}, *const no[] = {"v100-16",
	                                                                                              "t4"};
	struct vs_gpu_memory gpu;

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(!vs_gpu_memory_find(yes[i], &gpu) && gpu.compute_capability >= 80);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_true(!vs_gpu_memory_find(no[i], &gpu) && gpu.compute_capability < 80);
}

/* "Batch and hidden size act linearly on the activations, the sequence by its square" - where scores are kept. */
static void article_000_growth(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 4096), flash;
	double one, two;

	(void)state;
	job.attention = VS_ATTENTION_EAGER;
	one = activations(&job);
	job.batch = 2;
	assert_true(between(activations(&job) / one, 1.9, 2.05));
	job.batch = 1;
	job.seq = 8192;
	assert_true(between(activations(&job) / one, 3, 4));
	flash = job_of("llama-2-7b", 1, 4096);
	two = activations(&flash);
	flash.seq = 8192;
	assert_true(between(activations(&flash) / two, 1.95, 2.05));
}

/* "16-bit activations are half of fp32's" - nearly: norms and softmax keep fp32 all the same. */
static void article_004_half_activations(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);
	double half = activations(&job);

	(void)state;
	job.precision = VS_PRECISION_FP32;
	assert_true(between(half / activations(&job), 0.5, 0.6));
}

/* "Checkpointing saves 70 % of the activations" - at least that. */
static void article_004_checkpointing_seventy_percent(void **state)
{
	static const char *const presets[] = {"llama-2-7b", "llama-3.1-8b", "gpt2-xl", "bert-large"};

	(void)state;
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
		struct vs_job job = job_of(presets[i], 4, 512);
		struct vs_forecast none = forecast(&job), full;

		job.checkpointing = VS_CHECKPOINTING_FULL;
		full = forecast(&job);
		/* At the end of the forward: later the logits' copies come on top in both. */
		assert_true(full.instants[VS_INSTANT_FORWARD].live[VS_TAG_ACTIVATIONS] <
		            0.3 * (double)none.instants[VS_INSTANT_FORWARD].live[VS_TAG_ACTIVATIONS]);
	}
}

/* "FlashAttention: a huge difference at long sequences; recomputation: a factor of 2 to 5." */
static void article_004_not_by_formula(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 32768);
	double flash = activations(&job);

	(void)state;
	job.attention = VS_ATTENTION_EAGER;
	assert_true(activations(&job) > 20 * flash);
	job = job_of("llama-2-7b", 8, 2048);
	double none = (double)peak_of(&job);

	job.checkpointing = VS_CHECKPOINTING_FULL;
	assert_true(between(none / (double)peak_of(&job), 2, 5));
}

/* "Small: 8-bit states take 6 bytes instead of 12 where the master stays fp32." */
static void article_004_8bit_with_master(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 64);
	struct vs_forecast f;

	(void)state;
	job.precision = VS_PRECISION_MASTER16;
	f = forecast(&job);
	assert_true(between((double)f.between[VS_TAG_OPTIMIZER] / (double)vs_shape_count(&job.shape), 11.99, 12.05));
	job.optimizer = VS_OPTIMIZER_ADAMW_8BIT;
	f = forecast(&job);
	assert_true(between((double)f.between[VS_TAG_OPTIMIZER] / (double)vs_shape_count(&job.shape), 6, 6.1));
}

/* "LoRA trains 0.1 to 1 % of the parameters; the states are almost nothing." */
static void article_004_lora_share(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 64);
	struct vs_forecast f;

	(void)state;
	job.lora_rank = 16;
	f = forecast(&job);
	assert_true(between((double)f.trainable / (double)f.parameters, 0.001, 0.01));
	assert_true(f.between[VS_TAG_OPTIMIZER] < f.between[VS_TAG_WEIGHTS] / 100);
	job.lora_targets = VS_LORA_ALL;
	f = forecast(&job);
	assert_true(between((double)f.trainable / (double)f.parameters, 0.001, 0.01));
}

/* "With more parameters the hidden size and the layers grow too, so the activations do, only slower." */
static void article_004_activations_grow_slower(void **state)
{
	static const char *const presets[] = {"llama-2-7b", "llama-2-13b", "llama-2-70b"};
	double before = 0, before_each = INFINITY;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct vs_job job = job_of(presets[i], 1, 4096);
		double bytes = activations(&job), each = bytes / (double)vs_shape_count(&job.shape);

		assert_true(bytes > before && each < before_each);
		before = bytes;
		before_each = each;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(article_000_amp_gradients),
	    cmocka_unit_test(article_000_two_schools),
	    cmocka_unit_test(article_000_checkpointing_few_gb),
	    cmocka_unit_test(article_000_accumulation),
	    cmocka_unit_test(article_000_zero_stages),
	    cmocka_unit_test(article_000_offload),
	    cmocka_unit_test(article_000_consumer_card),
	    cmocka_unit_test(article_000_seventy_billion),
	    cmocka_unit_test(article_000_context),
	    cmocka_unit_test(article_000_bf16_cards),
	    cmocka_unit_test(article_000_growth),
	    cmocka_unit_test(article_004_half_activations),
	    cmocka_unit_test(article_004_checkpointing_seventy_percent),
	    cmocka_unit_test(article_004_not_by_formula),
	    cmocka_unit_test(article_004_8bit_with_master),
	    cmocka_unit_test(article_004_lora_share),
	    cmocka_unit_test(article_004_activations_grow_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
