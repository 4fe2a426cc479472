/* SPDX-License-Identifier: MIT
 *
 * Every number of the two articles, one test a passage, named after the article (000: "how to compute the memory of
 * training by hand", 004: "the ledger of a 7B model"). GB is 10^9 bytes, as they print it.
 */
#include "model/article.h"
#include "model/paper.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GB 1e9

static struct vs_article_model seven_billion(uint64_t batch, uint64_t seq)
{
	return (struct vs_article_model){
	    .parameters = 7000000000, .layers = 32, .hidden = 4096, .heads = 32, .batch = batch, .seq = seq};
}

static struct vs_article_estimate estimate(enum vs_article article, enum vs_article_regime regime,
                                           const struct vs_article_model *model)
{
	struct vs_article_estimate e;

	assert_int_equal(vs_article_estimate(article, regime, model, &e), 0);
	return e;
}

static void near(double value, double printed, double tolerance)
{
	if (fabs(value - printed) > tolerance)
		print_error("%g is not %g\n", value, printed);
	assert_true(fabs(value - printed) <= tolerance);
}

/* "FP32 weights of 7B: 7e9 x 4 B = 28 GB; FP16 about 14 GB." */
static void article_000_weights(void **state)
{
	struct vs_article_model m = seven_billion(1, 2048);

	(void)state;
	near(estimate(VS_ARTICLE_SCORES, VS_REGIME_FP32, &m).weights / GB, 28, 0);
	near(estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m).weights / GB, 14, 0);
}

/* "2 + 2 + 4 + 4 + 4 = 16 bytes; pure FP32 4 + 4 + 8 is 16 as well." */
static void article_000_sixteen_bytes(void **state)
{
	struct vs_article_bytes mixed = vs_article_regime(VS_REGIME_MIXED), full = vs_article_regime(VS_REGIME_FP32);

	(void)state;
	near(mixed.weights + mixed.gradients + mixed.master + mixed.states, 16, 0);
	near(full.weights + full.gradients + full.master + full.states, 16, 0);
	assert_int_equal(VS_PAPER_FIXED, 16);
}

/* "7e9 x 16 / 1024^3 = 112 GB": 112 is 10^9 bytes; the written division gives 104.3. */
static void article_000_fixed_112(void **state)
{
	struct vs_article_model m = seven_billion(1, 2048);
	struct vs_article_estimate e = estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m);
	double fixed = (double)(e.weights + e.gradients + e.master + e.states);

	(void)state;
	near(fixed / GB, 112, 0);
	near(fixed / (1024.0 * 1024 * 1024), 104.3, 0.05);
	near(fixed / 80e9, 1.4, 0.001); /* "1.5 cards of 80G" */
}

/* "19 x 1 x 2048 x 4096 = 159,383,552; 3 x 1 x 32 x 2048^2 = 402,653,184; about 562 million elements, 1.12 GB a
 * layer, about 36 GB in 32 layers." */
static void article_000_layer(void **state)
{
	struct vs_paper_shape shape = {.layers = 32, .hidden = 4096, .heads = 32, .batch = 1, .sequence = 2048};
	struct vs_article_model m = seven_billion(1, 2048);
	struct vs_paper_activations a;

	(void)state;
	assert_int_equal(vs_paper_activations(&shape, false, &a), 0);
	assert_int_equal(a.linear_elements, 159383552);
	assert_int_equal(a.score_elements, 402653184);
	near((a.linear_elements + a.score_elements) / 1e8, 5.62, 0.005);
	near(a.layer_bytes / GB, 1.12, 0.005);
	near(estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m).activations / GB, 36, 0.05);
}

/* "112 + 36 = 148 GB, two 80G cards hold it": by division, which sharding has to make true. */
static void article_000_total_148(void **state)
{
	struct vs_article_model m = seven_billion(1, 2048);
	struct vs_article_estimate e = estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m);

	(void)state;
	near(e.total / GB, 148, 0.05);
	assert_int_equal(vs_article_cards(e.total, 80000000000), 2);
}

/* "Batch 4: activations 144 GB, 256 GB in all, two cards are not enough, at least 4." */
static void article_000_batch_4(void **state)
{
	struct vs_article_model m = seven_billion(4, 2048);
	struct vs_article_estimate e = estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m);

	(void)state;
	near(e.activations / GB, 144, 0.2);
	near(e.total / GB, 256, 0.2);
	assert_int_equal(vs_article_cards(e.total, 80000000000), 4);
}

/* "13B: 13e9 x 16 B = 208 GB; 4 cards of 80G to begin with, 5 are safer": 3 hold the fixed part by division, the
 * activations of one sequence of 2048 make it 4. */
static void article_000_thirteen_billion(void **state)
{
	struct vs_article_model m = {
	    .parameters = 13000000000, .layers = 40, .hidden = 5120, .heads = 40, .batch = 1, .seq = 2048};
	struct vs_article_estimate e = estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m);

	(void)state;
	near((e.weights + e.gradients + e.master + e.states) / GB, 208, 0);
	assert_int_equal(vs_article_cards(e.total, 80000000000), 4);
}

/* "With checkpointing, times 1 instead of times L." */
static void article_000_checkpointing(void **state)
{
	struct vs_article_model m = seven_billion(1, 2048);
	struct vs_article_estimate e;

	(void)state;
	m.checkpointing = true;
	e = estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m);
	assert_int_equal(e.activations, e.activations_layer);
}

/* "Weights 2 x 7 = 14, gradients 14, master 28, moments 28 + 28 = 56: 112 GB; inference 14 GB, 1 to 8." */
static void article_004_ledger(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096);
	struct vs_article_estimate e = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);

	(void)state;
	near(e.weights / GB, 14, 0);
	near(e.gradients / GB, 14, 0);
	near(e.master / GB, 28, 0);
	near(e.states / GB, 56, 0);
	near(estimate(VS_ARTICLE_TWELVE, VS_REGIME_INFERENCE, &m).total / GB, 14, 0);
}

/* "12 of 16 bytes, three quarters, are optimizer state (master and moments); weights are one eighth." */
static void article_004_shares(void **state)
{
	struct vs_article_bytes b = vs_article_regime(VS_REGIME_MIXED);

	(void)state;
	near((b.master + b.states) / 16, 0.75, 0);
	near(b.weights / 16, 0.125, 0);
}

/* "2 x 4096 x 4096 x 32 x 12 = 12.9 GB at B = 1, L = 4096; about 103 GB at 32K", "125 GB for full fine-tuning". */
static void article_004_activations(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096), longer = seven_billion(1, 32768);
	struct vs_article_estimate e = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);

	(void)state;
	near(e.activations / GB, 12.9, 0.05);
	near(estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &longer).activations / GB, 103, 0.5);
	near(e.total / GB, 125, 0.5);
}

/* "SGD with momentum has no second moment: 16 bytes become 12." */
static void article_004_momentum(void **state)
{
	struct vs_article_bytes b = vs_article_regime(VS_REGIME_MOMENTUM);

	(void)state;
	near(b.weights + b.gradients + b.master + b.states, 12, 0);
}

/* "8-bit optimizer states: 12 to 6 bytes a parameter (the master stays FP32)." */
static void article_004_8bit(void **state)
{
	struct vs_article_bytes b = vs_article_regime(VS_REGIME_8BIT);

	(void)state;
	near(b.master + b.states, 6, 0);
}

/* "LoRA: about 27 GB": weights and activations. */
static void article_004_lora(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096);

	(void)state;
	near(estimate(VS_ARTICLE_TWELVE, VS_REGIME_LORA, &m).total / GB, 27, 0.15);
}

/* "A 24 GB card: 24 / 16 = 1.5B parameters at most." */
static void article_004_card_24(void **state)
{
	(void)state;
	assert_int_equal(vs_article_largest(24000000000, VS_REGIME_MIXED), 1500000000);
}

/* The slider: only the sixth bar moves with the sequence, all move with the parameters. */
static void article_004_sliders(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096), twice = seven_billion(1, 8192);
	struct vs_article_estimate a = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);
	struct vs_article_estimate b = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &twice);

	(void)state;
	assert_int_equal(a.weights, b.weights);
	assert_int_equal(a.states, b.states);
	assert_int_equal(2 * a.activations, b.activations);
	m.parameters *= 2;
	b = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);
	assert_int_equal(2 * a.master, b.master);
	assert_int_equal(a.activations, b.activations);
}

/* "Gradients: 4 bytes a parameter in FP32, 2 in FP16"; moments 4 + 4, and a master of 4 beside 16-bit weights. */
static void article_000_gradients_and_states(void **state)
{
	struct vs_article_bytes mixed = vs_article_regime(VS_REGIME_MIXED), full = vs_article_regime(VS_REGIME_FP32);

	(void)state;
	near(full.gradients, 4, 0);
	near(mixed.gradients, 2, 0);
	near(mixed.master, 4, 0);
	near(full.master, 0, 0);
	near(mixed.states, 4 + 4, 0);
	near(full.states, 4 + 4, 0);
}

/* "Batch 4: 144 GB of activations ... S x 2: four times the scores' part": what the two terms do. */
static void article_000_terms(void **state)
{
	struct vs_paper_shape shape = {.layers = 32, .hidden = 4096, .heads = 32, .batch = 1, .sequence = 2048};
	struct vs_paper_activations a, b;

	(void)state;
	assert_int_equal(vs_paper_activations(&shape, false, &a), 0);
	shape.sequence *= 2;
	assert_int_equal(vs_paper_activations(&shape, false, &b), 0);
	assert_int_equal(b.linear_elements, 2 * a.linear_elements);
	assert_int_equal(b.score_elements, 4 * a.score_elements);
	shape.sequence /= 2;
	shape.batch = 4;
	assert_int_equal(vs_paper_activations(&shape, false, &b), 0);
	assert_int_equal(b.layer_bytes, 4 * a.layer_bytes);
	shape.batch = 1;
	shape.hidden *= 2;
	assert_int_equal(vs_paper_activations(&shape, false, &b), 0);
	assert_int_equal(b.linear_elements, 2 * a.linear_elements);
	assert_int_equal(b.score_elements, a.score_elements);
}

/* "LoRA: the main model is frozen, gradients and states are saved." */
static void article_000_lora(void **state)
{
	struct vs_article_bytes b = vs_article_regime(VS_REGIME_LORA);

	(void)state;
	near(b.gradients + b.master + b.states, 0, 0);
}

/* "Inference to training is 1 to 8: 2 bytes to 16; 112 GB do not fit one 80 GB card." */
static void article_004_one_to_eight(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096);
	struct vs_article_estimate e = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);
	uint64_t fixed = e.weights + e.gradients + e.master + e.states;

	(void)state;
	near((double)fixed / (double)estimate(VS_ARTICLE_TWELVE, VS_REGIME_INFERENCE, &m).total, 8, 0);
	near((double)fixed / GB, 112, 0);
	assert_int_equal(vs_article_cards(fixed, 80000000000), 2);
}

/* "All FP32: weights 4, gradients 4, moments 4 and 4, no master: the 12 bytes that go with the update are 3/4." */
static void article_004_all_fp32(void **state)
{
	struct vs_article_bytes b = vs_article_regime(VS_REGIME_FP32);

	(void)state;
	near((b.weights + b.states) / 16, 0.75, 0);
	near(b.master, 0, 0);
}

/* "16-bit weights and gradients are half, the master brings 4 back: nothing saved on the parameters' side." */
static void article_004_no_saving(void **state)
{
	struct vs_article_bytes mixed = vs_article_regime(VS_REGIME_MIXED), full = vs_article_regime(VS_REGIME_FP32);

	(void)state;
	near(mixed.weights / full.weights, 0.5, 0);
	near(mixed.gradients / full.gradients, 0.5, 0);
	near(mixed.weights + mixed.gradients + mixed.master, full.weights + full.gradients, 0);
}

/* "At 32K the activations cost far more than the model itself": 103 GB to 14. */
static void article_004_dearer_than_the_model(void **state)
{
	struct vs_article_model m = seven_billion(1, 32768);
	struct vs_article_estimate e = estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m);

	(void)state;
	assert_true(e.activations > 7 * e.weights);
	m.seq = 4096;
	assert_int_equal(e.activations, 8 * estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m).activations);
}

/* "Some say 80 GB for 7B, some 160, and both can be right": 8-bit states or a sequence four times as long. */
static void article_004_both_right(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096), longer = seven_billion(1, 16384);

	(void)state;
	near(estimate(VS_ARTICLE_TWELVE, VS_REGIME_8BIT, &m).total / GB, 80, 5);
	near(estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &longer).total / GB, 160, 5);
}

static void bad_sizes(void **state)
{
	struct vs_article_model m = seven_billion(1, 4096);
	struct vs_article_estimate e = {.total = 7};

	(void)state;
	m.seq = UINT64_MAX / 2;
	assert_true(vs_article_estimate(VS_ARTICLE_TWELVE, VS_REGIME_MIXED, &m, &e) < 0);
	m.seq = 0;
	assert_true(vs_article_estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m, &e) < 0);
	m.parameters = 0;
	assert_true(vs_article_estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m, &e) < 0);
	m.parameters = UINT64_MAX;
	assert_true(vs_article_estimate(VS_ARTICLE_SCORES, VS_REGIME_MIXED, &m, &e) < 0);
	assert_int_equal(e.total, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(article_000_weights),
	    cmocka_unit_test(article_000_sixteen_bytes),
	    cmocka_unit_test(article_000_fixed_112),
	    cmocka_unit_test(article_000_layer),
	    cmocka_unit_test(article_000_total_148),
	    cmocka_unit_test(article_000_batch_4),
	    cmocka_unit_test(article_000_thirteen_billion),
	    cmocka_unit_test(article_000_checkpointing),
	    cmocka_unit_test(article_004_ledger),
	    cmocka_unit_test(article_004_shares),
	    cmocka_unit_test(article_004_activations),
	    cmocka_unit_test(article_004_momentum),
	    cmocka_unit_test(article_004_8bit),
	    cmocka_unit_test(article_004_lora),
	    cmocka_unit_test(article_004_card_24),
	    cmocka_unit_test(article_004_sliders),
	    cmocka_unit_test(article_000_gradients_and_states),
	    cmocka_unit_test(article_000_terms),
	    cmocka_unit_test(article_000_lora),
	    cmocka_unit_test(article_004_one_to_eight),
	    cmocka_unit_test(article_004_all_fp32),
	    cmocka_unit_test(article_004_no_saving),
	    cmocka_unit_test(article_004_dearer_than_the_model),
	    cmocka_unit_test(article_004_both_right),
	    cmocka_unit_test(bad_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
