/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "model/paper.h"
#include "model/paper_config.h"

static const struct vs_paper_shape seven_billion = {
    .layers = 32, .hidden = 4096, .heads = 32, .batch = 1, .sequence = 2048};

static void test_fixed(void **state)
{
	uint64_t bytes = 77;
	(void)state;

	assert_int_equal(VS_PAPER_WEIGHTS + VS_PAPER_GRADIENTS + VS_PAPER_MASTER + VS_PAPER_MOMENTS, VS_PAPER_FIXED);
	assert_int_equal(vs_paper_fixed(7000000000, VS_PAPER_FIXED, &bytes), 0);
	assert_true(bytes == 112000000000); /* 112 GB, 104.3 GiB */
	assert_int_equal(vs_paper_fixed(13000000000, VS_PAPER_FIXED, &bytes), 0);
	assert_true(bytes == 208000000000);
	bytes = 77;
	assert_int_equal(vs_paper_fixed(UINT64_MAX / 2, 16, &bytes), -ERANGE);
	assert_true(bytes == 77);
}

static void test_activations(void **state)
{
	struct vs_paper_activations activations;
	struct vs_paper_shape shape = seven_billion;
	(void)state;

	assert_int_equal(vs_paper_activations(&shape, false, &activations), 0);
	assert_true(activations.linear_elements == 159383552);
	assert_true(activations.score_elements == 402653184);
	assert_true(activations.layer_bytes == 1124073472); /* about 1.12 GB */
	assert_true(activations.bytes == 35970351104);      /* about 36 GB */

	assert_int_equal(vs_paper_activations(&shape, true, &activations), 0);
	assert_true(activations.bytes == 1124073472);

	shape.batch = 4;
	assert_int_equal(vs_paper_activations(&shape, false, &activations), 0);
	assert_true(activations.bytes == 143881404416); /* about 144 GB */
}

static void test_activations_refuse(void **state)
{
	struct vs_paper_activations activations = {.bytes = 77};
	struct vs_paper_shape shape = seven_billion;
	(void)state;

	for (size_t i = 0; i < sizeof(shape) / sizeof(uint64_t); i++) {
		shape = seven_billion;
		((uint64_t *)&shape)[i] = 0;
		assert_int_equal(vs_paper_activations(&shape, false, &activations), -EINVAL);
		((uint64_t *)&shape)[i] = UINT64_MAX;
		assert_int_equal(vs_paper_activations(&shape, false, &activations), -ERANGE);
	}
	assert_true(activations.bytes == 77);
}

struct pair {
	const char *key;
	uint64_t value;
};

static int lookup(void *config, const char *key, uint64_t *ret_value)
{
	for (const struct pair *pair = config; pair->key; pair++) {
		if (!strcmp(pair->key, key)) {
			*ret_value = pair->value;
			return 1;
		}
	}
	return 0;
}

static void test_config(void **state)
{
	struct pair llama[] = {{"num_hidden_layers", 32}, {"hidden_size", 4096}, {"num_attention_heads", 32}, {0}};
	struct pair gpt2[] = {{"n_layer", 12}, {"n_embd", 768}, {"n_head", 12}, {"n_ctx", 1024}, {0}};
	struct pair opt[] = {{"num_hidden_layers", 24}, {"d_model", 2048}, {"num_attention_heads", 32}, {0}};
	struct pair headless[] = {{"n_layer", 12}, {"n_embd", 768}, {0}};
	struct pair zero[] = {{"n_layer", 0}, {"n_embd", 768}, {"n_head", 12}, {0}};
	struct pair absurd[] = {{"n_layer", 12}, {"n_embd", 1ull << 60}, {"n_head", 12}, {0}};
	struct vs_paper_shape shape = {.batch = 2, .sequence = 9};
	const char *missing = NULL;
	(void)state;

	assert_int_equal(vs_paper_shape_read(lookup, headless, &shape, &missing), -ENOENT);
	assert_string_equal(missing, "num_attention_heads");
	assert_int_equal(vs_paper_shape_read(lookup, zero, &shape, &missing), -ENOENT);
	assert_string_equal(missing, "num_hidden_layers");
	assert_int_equal(vs_paper_shape_read(lookup, absurd, &shape, &missing), -ENOENT);
	assert_string_equal(missing, "hidden_size");
	assert_true(shape.layers == 0 && shape.hidden == 0 && shape.heads == 0); /* untouched */

	assert_int_equal(vs_paper_shape_read(lookup, gpt2, &shape, &missing), 0);
	assert_true(shape.layers == 12 && shape.hidden == 768 && shape.heads == 12);
	assert_true(shape.batch == 2 && shape.sequence == 9);
	/* What was said by hand stays. */
	assert_int_equal(vs_paper_shape_read(lookup, llama, &shape, &missing), 0);
	assert_true(shape.layers == 12 && shape.hidden == 768);
	shape = (struct vs_paper_shape){0};
	assert_int_equal(vs_paper_shape_read(lookup, llama, &shape, &missing), 0);
	assert_true(shape.layers == 32 && shape.hidden == 4096 && shape.heads == 32);
	shape = (struct vs_paper_shape){.heads = 16};
	assert_int_equal(vs_paper_shape_read(lookup, opt, &shape, &missing), 0);
	assert_true(shape.layers == 24 && shape.hidden == 2048 && shape.heads == 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fixed),
	    cmocka_unit_test(test_activations),
	    cmocka_unit_test(test_activations_refuse),
	    cmocka_unit_test(test_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
