/* SPDX-License-Identifier: MIT
 *
 * The model of a training step against numbers found by other means: saved tensors counted by torch's own hooks,
 * closed forms of papers, bytes a parameter of known regimes.
 */
#include "model/optimizer.h"
#include "model/plan.h"
#include "model/preset.h"
#include "model/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

/* Bytes as papers count them: without what the allocator adds to a block. */
static uint64_t plain_bytes(void *context, uint64_t bytes, void **ret_handle)
{
	(void)context;
	*ret_handle = NULL;
	return bytes;
}

static void plain_release(void *context, void *handle)
{
	(void)context;
	(void)handle;
}

static const struct vs_tape_memory plain = {.allocate = plain_bytes, .release = plain_release};

static struct vs_forecast forecast(const struct vs_job *job)
{
	struct vs_forecast f;

	assert_int_equal(vs_forecast_job(job, &plain, &f), 0);
	return f;
}

/* Activations that one more layer keeps at the loss's backward, in units of B S H bytes. */
static double saved_per_layer(struct vs_job job)
{
	uint64_t bytes[2];

	for (int i = 0; i < 2; i++) {
		job.shape.layers = 4 + (uint64_t)i;
		struct vs_forecast f = forecast(&job);

		bytes[i] = f.instants[VS_INSTANT_LOSS_BACKWARD].live[VS_TAG_ACTIVATIONS];
	}
	return (double)(bytes[1] - bytes[0]) / (double)(job.batch * job.seq * job.shape.hidden);
}

static void about(double value, double expected, double share)
{
	if (fabs(value / expected - 1) > share)
		print_error("%g is not about %g\n", value, expected);
	assert_true(fabs(value / expected - 1) <= share);
}

/* Counted with saved_tensors_hooks on the real classes, sequence 2048. Under autocast the weights' copies are saved
 * tensors too. Grouped queries: the flash kernel takes K heads, where the count was made with keys repeated. */
static void saved_tensors_llama_2_7b(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);

	(void)state;
	about(saved_per_layer(job), 45.53, 0.002);
	job.attention = VS_ATTENTION_EAGER;
	about(saved_per_layer(job), 141.50, 0.002);
	job.attention = VS_ATTENTION_AUTO;
	job.precision = VS_PRECISION_AMP;
	about(saved_per_layer(job), 55.53 + 404.8e6 / (2048 * 4096), 0.002);
}

static void saved_tensors_grouped_queries(void **state)
{
	struct vs_job job = job_of("llama-3.1-8b", 1, 2048);

	(void)state;
	job.repeat_kv = true;
	about(saved_per_layer(job), 52.03, 0.002);
	job = job_of("qwen2.5-7b", 1, 2048);
	job.repeat_kv = true;
	about(saved_per_layer(job), 66.32, 0.002);
	job = job_of("qwen3-8b", 1, 2048);
	job.repeat_kv = true;
	about(saved_per_layer(job), 55.57, 0.01);
}

static void saved_tensors_gpt2_and_bert(void **state)
{
	struct vs_job job = job_of("gpt2-xl", 1, 1024);

	(void)state;
	about(saved_per_layer(job), 58.07, 0.01);
	job = job_of("bert-large", 1, 512);
	job.precision = VS_PRECISION_FP32;
	about(saved_per_layer(job), 66.08, 0.01);
	job.attention = VS_ATTENTION_EAGER;
	about(saved_per_layer(job), 138.02, 0.01);
}

/* Full checkpointing keeps each layer's input alone: 2 B S H. */
static void checkpoints_keep_inputs(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);

	(void)state;
	job.checkpointing = VS_CHECKPOINTING_FULL;
	about(saved_per_layer(job), 2, 0.0001);
}

/* Cross-entropy of a causal model in 16 bits: log-probabilities, their gradient and the logits' gradient in fp32;
 * with the logits held, 14 bytes an element. */
static void loss_takes_fourteen_bytes(void **state)
{
	struct vs_job job = job_of("llama-3.1-8b", 1, 8192);
	struct vs_forecast f;
	uint64_t logits = 8192ull * 128256;

	(void)state;
	job.shape.layers = 1;
	job.outputs_held = true;
	f = forecast(&job);
	const struct vs_peak *peak = &f.instants[VS_INSTANT_LOSS_BACKWARD];
	uint64_t other = (uint64_t)((16 + 8 + 8.0 * 3.5) * 8192 * 4096 + 2 * 4096 * 8192 * 2);

	about((double)(peak->live[VS_TAG_ACTIVATIONS] + peak->live[VS_TAG_TEMPORARIES] - other) / (double)logits, 14,
	      0.02);
}

/* A fused loss makes the head's gradients in the forward: its backward hands them on and takes nothing more. */
static void fused_loss_hands_its_gradients_on(void **state)
{
	struct vs_job job = job_of("llama-3.1-8b", 1, 8192);
	struct vs_forecast whole, pieces;
	uint64_t head = 2ull * 4096 * 128256;

	(void)state;
	job.shape.layers = 1;
	whole = forecast(&job);
	job.loss_chunks = 8;
	pieces = forecast(&job);
	assert_true(pieces.instants[VS_INSTANT_LOSS_BACKWARD].bytes <=
	            pieces.instants[VS_INSTANT_LOSS_FORWARD].bytes);
	assert_int_equal(pieces.instants[VS_INSTANT_LOSS_BACKWARD].live[VS_TAG_ACTIVATIONS] +
	                         pieces.instants[VS_INSTANT_LOSS_BACKWARD].live[VS_TAG_GRADIENTS] >=
	                     head,
	                 true);
	assert_true(whole.instants[VS_INSTANT_LOSS_BACKWARD].bytes >
	            pieces.instants[VS_INSTANT_LOSS_BACKWARD].bytes + 8ull * 8192 * 128256);
}

/* Weights, gradients and states at the end of a backward, bytes a parameter, where no activation is left. */
static double bytes_per_parameter(struct vs_job job)
{
	struct vs_forecast f = forecast(&job);
	const struct vs_peak *peak = &f.instants[VS_INSTANT_OPTIMIZER];
	uint64_t sum = peak->live[VS_TAG_WEIGHTS] + peak->live[VS_TAG_GRADIENTS] + peak->live[VS_TAG_OPTIMIZER];

	return (double)sum / (double)vs_shape_count(&job.shape);
}

static void regimes(void **state)
{
	static const struct {
		enum vs_precision precision;
		enum vs_optimizer optimizer;
		double bytes;
	} rows[] = {
	    {VS_PRECISION_FP32, VS_OPTIMIZER_ADAMW, 16},          {VS_PRECISION_AMP, VS_OPTIMIZER_ADAMW, 16},
	    {VS_PRECISION_PURE16, VS_OPTIMIZER_ADAMW, 8},         {VS_PRECISION_MASTER16, VS_OPTIMIZER_ADAMW, 16},
	    {VS_PRECISION_MEGATRON, VS_OPTIMIZER_ADAMW, 20},      {VS_PRECISION_FP32, VS_OPTIMIZER_SGD, 8},
	    {VS_PRECISION_FP32, VS_OPTIMIZER_MOMENTUM, 12},       {VS_PRECISION_PURE16, VS_OPTIMIZER_LION, 6},
	    {VS_PRECISION_PURE16, VS_OPTIMIZER_ADAMW_8BIT, 6.03}, {VS_PRECISION_FP32, VS_OPTIMIZER_ADAFACTOR, 8},
	    {VS_PRECISION_PURE16, VS_OPTIMIZER_ADAMW_4BIT, 5.06},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vs_job job = job_of("tinyllama-1.1b", 1, 64);

		job.precision = rows[i].precision;
		job.optimizer = rows[i].optimizer;
		about(bytes_per_parameter(job), rows[i].bytes, 0.003);
	}
	assert_true(fabs(vs_optimizer_bytes(VS_OPTIMIZER_ADAMW_8BIT, 2) - 2.03125) < 1e-9);
}

/* torch's foreach AdamW makes a list as large as the parameters; fused does not. */
static void foreach_list(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 64);
	struct vs_forecast f = forecast(&job);

	(void)state;
	about((double)f.instants[VS_INSTANT_OPTIMIZER].bytes / (double)vs_shape_count(&job.shape), 10, 0.01);
	assert_int_equal(f.winner, VS_INSTANT_OPTIMIZER);
	job.optimizer = VS_OPTIMIZER_ADAMW_FUSED;
	f = forecast(&job);
	about((double)f.instants[VS_INSTANT_OPTIMIZER].bytes / (double)vs_shape_count(&job.shape), 8, 0.01);
}

/* What the network lays out is what the shape counts. */
static void parameters_of_every_preset(void **state)
{
	struct vs_shape shape;
	const char *name;

	(void)state;
	for (size_t i = 0; (name = vs_preset_at(i, &shape)); i++) {
		struct vs_job job = vs_job_default(&shape);
		struct vs_forecast f;

		job.seq = 64;
		f = forecast(&job);
		if (f.parameters != vs_shape_count(&shape))
			print_error("%s\n", name);
		assert_int_equal(f.parameters, vs_shape_count(&shape));
		assert_int_equal(f.trainable, f.parameters);
	}
}

/* After a step, only what outlives it is left: a leak in a layer would show here. */
static void nothing_leaks(void **state)
{
	struct vs_shape shape;

	(void)state;
	for (size_t i = 0; vs_preset_at(i, &shape); i++) {
		for (int checkpointing = 0; checkpointing < VS_CHECKPOINTING_COUNT; checkpointing++) {
			for (int attention = VS_ATTENTION_AUTO; attention <= VS_ATTENTION_MATH; attention++) {
				struct vs_job job = vs_job_default(&shape);
				struct vs_forecast f;

				job.shape.layers = 2;
				job.shape.decoder_layers = job.shape.decoder_layers ? 2 : 0;
				job.seq = 64;
				job.batch = 2;
				job.checkpointing = checkpointing;
				job.attention = attention;
				job.precision = i % 2 ? VS_PRECISION_AMP : VS_PRECISION_PURE16;
				f = forecast(&job);
				assert_int_equal(f.between[VS_TAG_ACTIVATIONS], 0);
				assert_int_equal(f.between[VS_TAG_TEMPORARIES], 0);
				assert_int_equal(f.between[VS_TAG_GRADIENTS], 0);
			}
		}
	}
}

/* More batch, more sequence, fewer ranks: never less memory. */
static void monotonic(void **state)
{
	uint64_t before = 0;

	(void)state;
	for (uint64_t batch = 1; batch <= 64; batch *= 2) {
		struct vs_job job = job_of("llama-3.2-1b", batch, 512);
		uint64_t peak = vs_forecast_peak(&(struct vs_forecast[]){forecast(&job)}[0]);

		assert_true(peak >= before);
		before = peak;
	}
	before = UINT64_MAX;
	for (uint32_t ranks = 2; ranks <= 64; ranks *= 2) {
		struct vs_job job = job_of("llama-3.2-1b", 1, 512);

		job.sharding = VS_SHARDING_FSDP;
		job.ranks = ranks;
		struct vs_forecast f = forecast(&job);

		assert_true(vs_forecast_peak(&f) <= before);
		before = vs_forecast_peak(&f);
	}
}

/* The largest batch fits and one more does not. */
static void largest_is_tight(void **state)
{
	struct vs_job job = job_of("llama-3.2-1b", 1, 2048);
	struct vs_gpu_memory gpu;
	struct vs_room room;

	(void)state;
	assert_int_equal(vs_gpu_memory_find("A100 80", &gpu), 0);
	room = vs_room_on(&gpu);
	vs_job_on(&job, &gpu);
	job.batch = vs_plan_largest_batch(&job, &room);
	assert_true(job.batch > 1 && vs_plan_fits(&job, &room));
	job.batch++;
	assert_false(vs_plan_fits(&job, &room));
	job.batch = 1;
	job.seq = vs_plan_largest_seq(&job, &room);
	assert_true(vs_plan_fits(&job, &room));
	job.seq += 64;
	assert_false(vs_plan_fits(&job, &room));
}

/* Segments take more than blocks; a card of just that size does, one that the blocks fill does not. */
static void reserved_is_above_allocated(void **state)
{
	struct vs_job job = job_of("llama-3.2-1b", 2, 1024);
	struct vs_room room = {0};
	uint64_t allocated, reserved;

	(void)state;
	for (int checkpointing = 0; checkpointing < VS_CHECKPOINTING_COUNT; checkpointing++) {
		job.checkpointing = checkpointing;
		assert_int_equal(vs_plan_peak(&job, &allocated), 0);
		assert_int_equal(vs_plan_reserved(&job, &reserved), 0);
		assert_true(reserved > allocated && reserved < allocated + allocated / 2);
		assert_int_equal(reserved % (2 << 20), 0);
		room.total = reserved;
		assert_true(vs_plan_fits(&job, &room));
		room.total = allocated - allocated / 50;
		assert_false(vs_plan_fits(&job, &room));
		/* A pipeline's stages are two tapes: the second does not find the first one's segments. */
		job.pipeline_parallel = 2;
		assert_int_equal(vs_plan_peak(&job, &allocated), 0);
		assert_int_equal(vs_plan_reserved(&job, &reserved), 0);
		assert_true(reserved > allocated && reserved < allocated + allocated / 2);
		job.pipeline_parallel = 1;
	}
}

/* Every route that is offered is one that fits. */
static void routes_fit(void **state)
{
	struct vs_job job = job_of("llama-2-13b", 8, 2048);
	struct vs_route routes[VS_ROUTES_MAX];
	struct vs_gpu_memory gpu;
	struct vs_room room;
	size_t count;

	(void)state;
	assert_int_equal(vs_gpu_memory_find("rtx4090", &gpu), 0);
	room = vs_room_on(&gpu);
	vs_job_on(&job, &gpu);
	assert_false(vs_plan_fits(&job, &room));
	count = vs_plan_routes(&job, &room, routes);
	assert_true(count >= 2);
	for (size_t i = 0; i < count; i++)
		assert_true(routes[i].gpus >= 1 && routes[i].peak < room.total);
	room.total = 1 << 30;
	room.context = 0;
	assert_int_equal(vs_plan_routes(&job, &room, routes), 0);
}

/* Two 80 GB cards hold the 7B example of 148 GB only when its states are sharded. */
static void two_cards_need_sharding(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);
	struct vs_gpu_memory gpu;
	struct vs_room room;

	(void)state;
	vs_gpu_memory_find("a100-80", &gpu);
	room = vs_room_on(&gpu);
	job.precision = VS_PRECISION_MASTER16;
	assert_int_equal(vs_plan_ranks(&job, VS_SHARDING_DDP, &room), 0);
	assert_int_equal(vs_plan_ranks(&job, VS_SHARDING_FSDP, &room), 2);
}

/* One forward one backward: once the pipeline is full, its first stage holds as many micro-batches as there are
 * stages, and the gradients of those that are back. */
static void pipeline_of_four(void **state)
{
	struct vs_job one = job_of("llama-2-7b", 1, 1024), job = one;
	struct vs_forecast f, single;
	const struct vs_peak *peak;

	(void)state;
	one.shape.layers = 8; /* of 32 */
	one.optimizer = VS_OPTIMIZER_SGD;
	single = forecast(&one);
	job.optimizer = VS_OPTIMIZER_SGD;
	job.pipeline_parallel = 4;
	job.accumulation = 8;
	f = forecast(&job);
	peak = &f.instants[f.winner];
	about((double)peak->live[VS_TAG_ACTIVATIONS],
	      4.0 * (double)single.instants[VS_INSTANT_FORWARD].live[VS_TAG_ACTIVATIONS], 0.02);
	about((double)peak->live[VS_TAG_GRADIENTS], (double)peak->live[VS_TAG_WEIGHTS], 0.01);
	job.accumulation = 1; /* nothing to overlap */
	single = forecast(&job);
	assert_true(single.instants[single.winner].live[VS_TAG_ACTIVATIONS] < peak->live[VS_TAG_ACTIVATIONS] / 3);
}

/* FSDP's offload policy leaves nothing of the model on the device between steps; the host has it four times: shares,
 * their gradients, two moments. */
static void shares_on_the_host(void **state)
{
	struct vs_job job = job_of("llama-3.2-1b", 1, 512);
	struct vs_forecast f;

	(void)state;
	job.sharding = VS_SHARDING_FSDP;
	job.ranks = 4;
	job.offload = true;
	f = forecast(&job);
	assert_int_equal(f.between[VS_TAG_WEIGHTS] + f.between[VS_TAG_GRADIENTS] + f.between[VS_TAG_OPTIMIZER], 0);
	about((double)f.host, 4.0 * 2 * (double)f.parameters / 4, 0.001);
}

/* Tensor parallel leaves norms and their inputs whole; sequence parallel divides them too. */
static void sequence_divides_the_rest(void **state)
{
	struct vs_job job = job_of("llama-2-7b", 1, 2048);
	double whole = saved_per_layer(job), tensor, sequence;

	(void)state;
	job.tensor_parallel = 8;
	tensor = saved_per_layer(job);
	job.sequence_parallel = true;
	sequence = saved_per_layer(job);
	assert_true(whole / 8 < sequence && sequence < tensor && tensor < whole);
}

static void impossible_jobs(void **state)
{
	struct vs_job good = job_of("gpt2", 1, 512), bad;
	struct vs_forecast f = {.loaded = 7};
	const char *why = NULL;

	(void)state;
	bad = good, bad.seq = 4096;
	assert_true(vs_job_check(&bad, &why) < 0 && strstr(why, "position"));
	bad = good, bad.batch = UINT64_MAX;
	assert_true(vs_job_check(&bad, &why) < 0);
	bad = good, bad.tensor_parallel = 5;
	assert_true(vs_job_check(&bad, &why) < 0);
	bad = good, bad.quantization = VS_QUANTIZATION_NF4;
	assert_true(vs_job_check(&bad, &why) < 0);
	bad = good, bad.ranks = 0;
	assert_true(vs_forecast_job(&bad, NULL, &f) < 0);
	assert_int_equal(f.loaded, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(saved_tensors_llama_2_7b),
	    cmocka_unit_test(saved_tensors_grouped_queries),
	    cmocka_unit_test(saved_tensors_gpt2_and_bert),
	    cmocka_unit_test(checkpoints_keep_inputs),
	    cmocka_unit_test(loss_takes_fourteen_bytes),
	    cmocka_unit_test(fused_loss_hands_its_gradients_on),
	    cmocka_unit_test(regimes),
	    cmocka_unit_test(foreach_list),
	    cmocka_unit_test(parameters_of_every_preset),
	    cmocka_unit_test(nothing_leaks),
	    cmocka_unit_test(monotonic),
	    cmocka_unit_test(largest_is_tight),
	    cmocka_unit_test(reserved_is_above_allocated),
	    cmocka_unit_test(routes_fit),
	    cmocka_unit_test(two_cards_need_sharding),
	    cmocka_unit_test(pipeline_of_four),
	    cmocka_unit_test(shares_on_the_host),
	    cmocka_unit_test(sequence_divides_the_rest),
	    cmocka_unit_test(impossible_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
