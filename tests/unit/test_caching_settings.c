/* SPDX-License-Identifier: MIT
 *
 * PYTORCH_CUDA_ALLOC_CONF, and the sizes that follow from it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "caching/settings.h"

#define MIB (UINT64_C(1) << 20)

static struct vs_caching_settings parsed(const char *text)
{
	struct vs_caching_settings settings;
	const char *where;

	vs_caching_defaults(&settings, 215);
	if (vs_caching_parse_settings(text, &settings, &where) < 0)
		fail_msg("%s: at %s", text, where);
	return settings;
}

static void refused(const char *text, const char *at)
{
	struct vs_caching_settings settings;
	const char *where = NULL;

	vs_caching_defaults(&settings, 215);
	assert_int_equal(vs_caching_parse_settings(text, &settings, &where), -EINVAL);
	assert_int_equal(strncmp(where, at, strlen(at)), 0);
}

static void texts(void **state)
{
	struct vs_caching_settings s;

	(void)state;
	s = parsed("");
	assert_true(s.max_split_size == VS_CACHING_UNLIMITED && s.memory_fraction == 1 && !s.expandable_segments);
	s = parsed(" expandable_segments : True , max_split_size_mb:128,garbage_collection_threshold:0.8,"
	           "pinned_num_register_threads:8,per_process_memory_fraction:0.5,release_lock_on_cudamalloc:True,");
	assert_true(s.expandable_segments);
	assert_int_equal(s.max_split_size, 128 * MIB);
	assert_true(s.garbage_collection_threshold == 0.8 && s.memory_fraction == 0.5);
	s = parsed("expandable_segments:True,expandable_segments:False");
	assert_false(s.expandable_segments);
	s = parsed("large_segment_size_mb:40");
	assert_int_equal(s.large_segment_size, 40 * MIB);
	assert_int_equal(s.max_non_split_rounding, 40 * MIB);
	s = parsed("large_segment_size_mb:40,max_non_split_rounding_mb:64");
	assert_int_equal(s.max_non_split_rounding, 64 * MIB);
	s = parsed("roundup_power2_divisions:8");
	assert_true(s.roundup_power2_divisions[0] == 8 && s.roundup_power2_divisions[15] == 8);
	s = parsed("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
	assert_int_equal(s.roundup_power2_divisions[0], 1);
	assert_int_equal(s.roundup_power2_divisions[8], 1);
	assert_int_equal(s.roundup_power2_divisions[9], 2);
	assert_int_equal(s.roundup_power2_divisions[15], 8);
}

static void bad_texts(void **state)
{
	(void)state;
	refused("max_split_size_mb:20", "max_split_size_mb");
	refused("max_split_size_mb:x", "max_split_size_mb");
	refused("max_split_size_mb", "max_split_size_mb");
	refused("expandable_segments:true", "expandable");
	refused("expandable_segments:True,garbage_collection_threshold:1", "garbage");
	refused("roundup_power2_divisions:3", "roundup");
	refused("roundup_power2_divisions:[256:1", "roundup");
	refused("roundup_power2_divisions:[100:1]", "roundup");
	refused("backend:cudaMallocAsync", "backend");
	refused("no_such_key:1", "no_such_key");
	refused(":::", ":::");
}

static void printed(void **state)
{
	struct vs_caching_settings a, b;
	char text[512];
	static const char *const texts[] = {
	    "expandable_segments:True,roundup_power2_divisions:4",
	    "max_split_size_mb:64,garbage_collection_threshold:0.8,per_process_memory_fraction:0.5",
	    "roundup_power2_divisions:[1:2,16:8,>:4]",
	    "large_segment_size_mb:64,max_split_size_mb:128",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		a = parsed(texts[i]);
		vs_caching_print_settings(&a, text, sizeof(text));
		b = parsed(text);
		assert_memory_equal(&a, &b, sizeof(a));
	}
	a = parsed("");
	vs_caching_print_settings(&a, text, sizeof(text));
	assert_string_equal(text, "default");
}

static void rounding(void **state)
{
	struct vs_caching_settings s = parsed("");

	(void)state;
	assert_int_equal(vs_caching_round(&s, 0), 512);
	assert_int_equal(vs_caching_round(&s, 512), 512);
	assert_int_equal(vs_caching_round(&s, 513), 1024);
	assert_true(vs_caching_small(MIB) && !vs_caching_small(MIB + 512));
	assert_int_equal(vs_caching_segment_size(&s, 512), 2 * MIB);
	assert_int_equal(vs_caching_segment_size(&s, MIB + 512), 20 * MIB);
	assert_int_equal(vs_caching_segment_size(&s, 10 * MIB - 512), 20 * MIB);
	assert_int_equal(vs_caching_segment_size(&s, 10 * MIB), 10 * MIB);
	assert_int_equal(vs_caching_segment_size(&s, 10 * MIB + 512), 12 * MIB);
	/* The example in PyTorch's own documentation, and powers of two, which stay. */
	s = parsed("roundup_power2_divisions:4");
	assert_int_equal(vs_caching_round(&s, 1200 * MIB), 1280 * MIB);
	assert_int_equal(vs_caching_round(&s, 1024 * MIB), 1024 * MIB);
	assert_int_equal(vs_caching_round(&s, 2048), 2048);
	assert_int_equal(vs_caching_round(&s, 2049), 2560);
	assert_int_equal(vs_caching_round(&s, 1200), 1536); /* too small for divisions */
	/* Nothing wraps around. */
	assert_true(vs_caching_round(&s, UINT64_MAX) == 0 || vs_caching_round(&s, UINT64_MAX) >= UINT64_MAX / 2);
	s = parsed("");
	assert_true(vs_caching_round(&s, UINT64_MAX) == UINT64_MAX);
	assert_true(vs_caching_segment_size(&s, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts),
	    cmocka_unit_test(bad_texts),
	    cmocka_unit_test(printed),
	    cmocka_unit_test(rounding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
