/* SPDX-License-Identifier: MIT */
#include "estimate/config.h"
#include "model/preset.h"
#include "model/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Counted by transformers 5.24 on the meta device (tests/model/count_params.py), from the files in configs/. */
static const struct {
	const char *name;
	uint64_t count;
} golden[] = {
    {"bert-base-masked", 109514298}, {"bert-base", 109482240},
    {"bert-large", 335141888},       {"deepseek-v2-lite", 15706484224},
    {"deepseek-v3", 671026404352},   {"gemma-2-9b", 9241705984},
    {"gemma-2b", 2506172416},        {"gemma-7b", 8537680896},
    {"gpt2-xl", 1557611200},         {"gpt2", 124439808},
    {"llama-2-13b", 13015864320},    {"llama-2-70b", 68976648192},
    {"llama-2-7b", 6738415616},      {"llama-3.1-70b", 70553706496},
    {"llama-3.1-8b", 8030261248},    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},    {"mistral-7b", 7241732096},
    {"mixtral-8x7b", 46702792704},   {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-1.5b", 1543714304},    {"qwen2.5-7b", 7615616512},
    {"qwen3-0.6b", 596049920},       {"qwen3-30b-a3b", 30532122624},
    {"qwen3-8b", 8190735360},        {"t5-small", 60506624},
    {"tinyllama-1.1b", 1100048384},  {"vit-b-16", 86567656},
    {"vit-l-16", 304326632},
};

static void count_from_config(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		struct vs_config config;
		char path[512];

		snprintf(path, sizeof(path), CONFIG_DIR "/%s.json", golden[i].name);
		assert_int_equal(vs_config_read(path, &config), 0);
		if (vs_shape_count(&config.shape) != golden[i].count)
			print_error("%s\n", golden[i].name);
		assert_int_equal(vs_shape_count(&config.shape), golden[i].count);
	}
}

/* The same models from the table of presets; a name that has no preset is one with another head. */
static void count_from_preset(void **state)
{
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		struct vs_shape shape;

		if (vs_preset_find(golden[i].name, &shape))
			continue;
		found++;
		if (vs_shape_count(&shape) != golden[i].count)
			print_error("%s\n", golden[i].name);
		assert_int_equal(vs_shape_count(&shape), golden[i].count);
	}
	assert_true(found >= 27);
}

/* Published totals of models that are in the table alone: model cards and papers give these rounded. */
static void presets_near_published_sizes(void **state)
{
	static const struct {
		const char *name;
		double billions;
	} rows[] = {{"llama-3.1-405b", 405.9}, {"deepseek-v2", 235.7}, {"qwen2.5-72b", 72.7},
	            {"gemma-2-27b", 27.2},     {"t5-3b", 2.85},        {"smollm2-135m", 0.1345},
	            {"smollm2-360m", 0.3618},  {"qwen2.5-32b", 32.8}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vs_shape shape;
		double error;

		assert_int_equal(vs_preset_find(rows[i].name, &shape), 0);
		error = (double)vs_shape_count(&shape) / (rows[i].billions * 1e9) - 1;
		assert_true(error < 0.003 && error > -0.003);
	}
}

static void every_preset_is_possible(void **state)
{
	const char *why = "";

	(void)state;
	for (size_t i = 0; vs_preset_at(i, NULL); i++) {
		struct vs_shape shape;

		vs_preset_at(i, &shape);
		assert_int_equal(vs_shape_check(&shape, &why), 0);
		assert_true(vs_shape_count(&shape) > 0);
	}
}

static void names_ignore_case_and_punctuation(void **state)
{
	struct vs_shape shape = {0};

	(void)state;
	assert_int_equal(vs_preset_find("Llama 2 7B", &shape), 0);
	assert_int_equal(shape.hidden, 4096);
	assert_true(vs_preset_find("llama-2-7", &shape) < 0);
	assert_true(vs_preset_find("", &shape) < 0);
}

/* Mixtral: 12.9e9 parameters see a token; DeepSeek-V3: 37e9 (their papers). */
static void active_parameters(void **state)
{
	struct vs_shape shape;

	(void)state;
	vs_preset_find("mixtral-8x7b", &shape);
	assert_int_equal(vs_shape_active(&shape) / 100000000, 128);
	vs_preset_find("deepseek-v3", &shape);
	assert_int_equal(vs_shape_active(&shape) / 1000000000, 37);
}

static void impossible_shapes(void **state)
{
	struct vs_shape good, bad;
	const char *why = NULL;
	struct vs_params params = {.total = 7};

	(void)state;
	vs_preset_find("llama-2-7b", &good);
	bad = good, bad.kv_heads = 5;
	assert_true(vs_shape_check(&bad, &why) < 0 && strstr(why, "multiple"));
	bad = good, bad.layers = 0;
	assert_true(vs_shape_check(&bad, &why) < 0 && strstr(why, "layers"));
	bad = good, bad.hidden = UINT64_MAX;
	assert_true(vs_shape_check(&bad, &why) < 0);
	bad = good, bad.heads = 33, bad.kv_heads = 33, bad.head_dim = 4096 / 33;
	assert_true(vs_shape_check(&bad, &why) < 0);
	/* Each size in range, the product not. */
	bad = good, bad.layers = 100000, bad.hidden = 1 << 24, bad.ffn = 1 << 28, bad.head_dim = 1 << 19;
	assert_true(vs_shape_params(&bad, &params) < 0);
	assert_int_equal(params.total, 7);
}

#define BASE "\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,\"intermediate_size\":128"

static void bad_configs(void **state)
{
	static const char *const texts[] = {
	    "",
	    "[]",
	    "{",
	    "null",
	    "{}",
	    "\xef\xbb\xbf{\"model_type\":\"llama\"," BASE "}",
	    "{\"model_type\":\"llama\"," BASE ",\"hidden_size\":32}", /* twice */
	    "{\"model_type\":\"llama\", // comment\n" BASE "}",
	    "{\"model_type\":\"mamba\"," BASE "}",
	    "{\"model_type\":\"llama\",\"num_hidden_layers\":2}",
	    "{\"model_type\":\"llama\",\"num_key_value_heads\":3," BASE "}",
	    "{\"model_type\":\"llama\",\"vocab_size\":-1," BASE "}",
	    "{\"model_type\":\"llama\",\"vocab_size\":1e300," BASE "}",
	    "{\"model_type\":\"llama\",\"vocab_size\":99999999999999999999999999," BASE "}",
	    "{\"model_type\":\"llama\",\"vocab_size\":\"many\"," BASE "}",
	    "{\"model_type\":\"llama\",\"vocab_size\":3.5," BASE "}",
	    "{\"model_type\":\"llama\",\"tie_word_embeddings\":3," BASE "}",
	    "{\"model_type\":\"llama\",\"attention_dropout\":7," BASE "}",
	    "{\"model_type\":\"llama\",\"hidden_act\":\"snake\"," BASE "}",
	    "{\"model_type\":[]," BASE "}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct vs_config config = {.shape.hidden = 99};

		assert_true(vs_config_parse(texts[i], strlen(texts[i]), "test", &config) < 0);
		assert_int_equal(config.shape.hidden, 99);
	}
}

/* An absent tie_word_embeddings is the class's default: Llama unties, Gemma ties. */
static void tying_by_class(void **state)
{
	struct vs_config config;
	const char *llama = "{\"model_type\":\"llama\"," BASE "}",
	           *gemma = "{\"model_type\":\"gemma\",\"num_key_value_heads\":1," BASE "}";

	(void)state;
	assert_int_equal(vs_config_parse(llama, strlen(llama), "test", &config), 0);
	assert_false(config.shape.tied);
	assert_int_equal(vs_config_parse(gemma, strlen(gemma), "test", &config), 0);
	assert_true(config.shape.tied);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(count_from_config),
	    cmocka_unit_test(count_from_preset),
	    cmocka_unit_test(presets_near_published_sizes),
	    cmocka_unit_test(every_preset_is_possible),
	    cmocka_unit_test(names_ignore_case_and_punctuation),
	    cmocka_unit_test(active_parameters),
	    cmocka_unit_test(impossible_shapes),
	    cmocka_unit_test(bad_configs),
	    cmocka_unit_test(tying_by_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
