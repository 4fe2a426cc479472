/* SPDX-License-Identifier: MIT
 *
 * Tags' names, and what a stack alone says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <base/u64map.h>
#include <stdlib.h>
#include <tag/rules.h>
#include <tag/tagger.h>

#include "tag_site.h"

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(vs_tag_name(VS_TAG_WEIGHTS), "weights");
	assert_string_equal(vs_tag_name(VS_TAG_UNKNOWN), "unknown");
	assert_string_equal(vs_tag_name((enum vs_tag)99), "unknown");
	assert_string_equal(vs_phase_name(VS_PHASE_ZERO_GRAD), "zero_grad");
	assert_string_equal(vs_detail_path(VS_DETAIL_OPTIMIZER_MASTER), "optimizer/master");
	assert_string_equal(vs_detail_name(VS_DETAIL_OPTIMIZER_MASTER), "master");
	assert_string_equal(vs_detail_path(VS_DETAIL_NONE), "");
	for (int detail = 1; detail < VS_DETAIL_COUNT; detail++) { /* "tag/name", and no two alike */
		const char *path = vs_detail_path((enum vs_detail)detail);
		size_t tag = strlen(vs_tag_name(vs_detail_tag((enum vs_detail)detail)));

		assert_memory_equal(path, vs_tag_name(vs_detail_tag((enum vs_detail)detail)), tag);
		assert_int_equal(path[tag], '/');
		assert_string_equal(path + tag + 1, vs_detail_name((enum vs_detail)detail));
		for (int other = 1; other < detail; other++)
			assert_string_not_equal(path, vs_detail_path((enum vs_detail)other));
	}
}

/* Against a plain array: put, get, take of random keys, with homes that collide. */
static void test_map(void **state)
{
	enum { KEYS = 512 };
	static uint32_t wanted[KEYS + 1];
	struct vs_u64map map = {0};
	uint32_t value, random = 1;
	size_t used = 0;

	(void)state;
	assert_false(vs_u64map_get(&map, 1, &value));
	assert_false(vs_u64map_take(&map, 1, &value));
	assert_true(vs_u64map_put(&map, 0, 1) < 0);
	for (uint32_t i = 1; i < 200000; i++) {
		uint64_t key;

		random = random * 1664525 + 1013904223;
		key = (random >> 8) % KEYS + 1;
		if (random >> 31) {
			used += !wanted[key];
			wanted[key] = i;
			assert_int_equal(vs_u64map_put(&map, key << 9, i), 0);
		} else {
			bool there = vs_u64map_take(&map, key << 9, &value);

			assert_int_equal(there, wanted[key] != 0);
			if (there)
				assert_int_equal(value, wanted[key]);
			used -= there;
			wanted[key] = 0;
		}
		assert_int_equal(map.used, used);
	}
	for (uint64_t key = 1; key <= KEYS; key++) {
		assert_int_equal(vs_u64map_get(&map, key << 9, &value), wanted[key] != 0);
		if (wanted[key])
			assert_int_equal(value, wanted[key]);
	}
	vs_u64map_release(&map);
}

static void test_rules(void **state)
{
	const struct vs_rule *rule;

	(void)state;
	assert_int_equal(vs_rule_native("at::native::mm"), 0);
	assert_int_equal(vs_rule_python("/home/me/train.py", "forward"), 0);
	assert_null(vs_rule(0));
	assert_null(vs_rule(UINT16_MAX));

	rule = vs_rule(vs_rule_python("/x/torch/nn/modules/module.py", "Module._call_impl"));
	assert_int_equal(rule->context, VS_CONTEXT_FORWARD);
	/* Before 3.11 a code object has its plain name only. */
	assert_ptr_equal(vs_rule(vs_rule_python("/x/torch/nn/modules/module.py", "_call_impl")), rule);
	/* Whole path components: a user's folder may end alike. */
	assert_int_equal(vs_rule_python("/x/mytorch/nn/modules/module.py", "_call_impl"), 0);
	assert_int_equal(vs_rule_python("torch/nn/modules/module.py", "_call_impl"),
	                 vs_rule_python("/x/torch/nn/modules/module.py", "_call_impl"));
	rule = vs_rule(vs_rule_python("/x/torch/nn/modules/linear.py", "Linear.__init__"));
	assert_int_equal(rule->context, VS_CONTEXT_LOAD);
	/* A whole name, not a part of one. */
	assert_int_equal(vs_rule_python("/x/torch/nn/modules/linear.py", "reset_parameters_again"), 0);
	/* The scheduler's wrapper is no optimizer. */
	rule = vs_rule(vs_rule_python("/x/torch/optim/lr_scheduler.py", "wrapper"));
	assert_int_equal(rule->context, VS_CONTEXT_NONE);
}

static void assert_site(struct vs_site site, enum vs_context context, enum vs_role role)
{
	assert_int_equal(site.context, context);
	assert_int_equal(site.role, role);
}

static void test_sites(void **state)
{
	(void)state;
	assert_site(site_of(NULL, 0), VS_CONTEXT_EMPTY, VS_ROLE_NONE);
	assert_site(SITE(MM, USER), VS_CONTEXT_NONE, VS_ROLE_NONE);
	assert_site(SITE(MM, CALL, USER), VS_CONTEXT_FORWARD, VS_ROLE_NONE);
	assert_site(SITE(MM, ENGINE), VS_CONTEXT_BACKWARD, VS_ROLE_NONE);
	assert_site(SITE(MM, CALL, UNPACK, ENGINE), VS_CONTEXT_RECOMPUTE, VS_ROLE_NONE);
	assert_site(SITE(CALL, UNPACK), VS_CONTEXT_RECOMPUTE, VS_ROLE_NONE);    /* Python stacks only */
	assert_site(SITE(MM, CALL, ENGINE), VS_CONTEXT_BACKWARD, VS_ROLE_NONE); /* a custom backward calls a module */
	/* Reentrant: inside the recomputation a backward of its own. */
	assert_site(SITE(MM, ENGINE, RUN_BACKWARD, {"/x/torch/utils/checkpoint.py", "CheckpointFunction.backward"}),
	            VS_CONTEXT_BACKWARD, VS_ROLE_NONE);
	assert_site(SITE(STATE, STEP, USER), VS_CONTEXT_OPTIMIZER, VS_ROLE_STATE);
	assert_site(SITE(STEP, SCALER, USER), VS_CONTEXT_OPTIMIZER, VS_ROLE_NONE); /* not the scaler's */
	assert_site(SITE(SCALER, USER), VS_CONTEXT_NONE, VS_ROLE_SCALER);
	assert_site(SITE(CALL, USER, STEP), VS_CONTEXT_FORWARD, VS_ROLE_NONE); /* a closure */
	assert_site(SITE(TO, CONVERT, APPLY, USER), VS_CONTEXT_LOAD, VS_ROLE_CONVERTED);
	assert_site(SITE(NATIVE("at::cuda::getCUDABlasLtWorkspace"), MM, CALL), VS_CONTEXT_FORWARD, VS_ROLE_CUBLASLT);
	assert_site(SITE(ZERO_GRAD, USER), VS_CONTEXT_ZERO_GRAD, VS_ROLE_NONE);
	assert_site(SITE(FINALIZE), VS_CONTEXT_EXIT, VS_ROLE_NONE);
	assert_true(SITE(TO, USER).flags & VS_SITE_COPY);
	assert_true(SITE(NATIVE("at::autocast::cached_cast"), CALL).flags & VS_SITE_CAST);
}
int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_map),
	    cmocka_unit_test(test_rules),
	    cmocka_unit_test(test_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
