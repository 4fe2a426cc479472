/* SPDX-License-Identifier: MIT
 *
 * Guesses of native stacks: what of a stack must be as it was, and no memory to remember it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "shim/stack_shape.h"

enum { RECORD = 4, INNER = 5, SAVED = 9, OUTER = 11, WORDS = 16, ID = 7 };

static const uint64_t inner_pc = 0x7f0000001111, outer_pc = 0x7f0000002222;

/* Two frames: the inner one has saved the rbp that the outer one's end is reckoned from. */
static struct frames {
	uint64_t words[WORDS];
	struct vs_native native;
} frames;

static uint64_t at(int word)
{
	return (uint64_t)(uintptr_t)&frames.words[word];
}

static int setup(void **state)
{
	struct vs_native *native = &frames.native;

	(void)state;
	memset(&frames, 0, sizeof(frames));
	frames.words[INNER] = inner_pc;
	frames.words[OUTER] = outer_pc;
	frames.words[SAVED] = at(14);
	native->low = at(0);
	native->high = at(WORDS);
	native->depth = 2;
	native->pcs[0] = outer_pc;
	native->pcs[1] = inner_pc;
	native->sps[0] = at(OUTER + 1);
	native->sps[1] = at(INNER + 1);
	native->bps[0] = at(14);
	native->rbp_matters[0] = true;
	native->saved_count = 1;
	native->saved[0].slot = at(SAVED);
	native->saved[0].value = at(14);
	native->saved[0].by = 1;
	return 0;
}

static void all_that_the_walk_met(void **state)
{
	static const int words[] = {INNER, OUTER, SAVED};
	struct vs_shapes shapes = {0};
	struct vs_shape *shape = vs_shape_add(&shapes, &frames.native, at(RECORD), ID, vs_chain_start(2));

	(void)state;
	assert_non_null(shape);
	assert_ptr_equal(vs_shape_of(&shapes, ID), shape);
	assert_null(vs_shape_of(&shapes, ID + 1));
	assert_int_equal(shape->id, ID);
	assert_true(vs_shape_fits(shape, at(RECORD), at(WORDS)));
	for (int i = 0; i < 3; i++) {
		frames.words[words[i]] += 8;
		assert_false(vs_shape_fits(shape, at(RECORD), at(WORDS)));
		frames.words[words[i]] -= 8;
	}
	/* Nothing is read beyond the end of the thread's stack. */
	assert_true(vs_shape_fits(shape, at(RECORD), at(OUTER + 1)));
	assert_false(vs_shape_fits(shape, at(RECORD), at(OUTER)));
}

/* The same frames lie elsewhere in another call: what counts is where they lie from the innermost on. */
static void wherever_it_lies(void **state)
{
	struct vs_shapes shapes = {0};
	struct vs_shape *shape = vs_shape_add(&shapes, &frames.native, at(RECORD), ID, vs_chain_start(2));

	(void)state;
	assert_non_null(shape);
	memmove(&frames.words[RECORD - 2], &frames.words[RECORD], 10 * sizeof(*frames.words));
	assert_false(vs_shape_fits(shape, at(RECORD - 2), at(WORDS))); /* the saved rbp is still the old frame's */
	frames.words[SAVED - 2] = at(14 - 2);
	assert_true(vs_shape_fits(shape, at(RECORD - 2), at(WORDS)));
}

static void so_many_of_one_stack(void **state)
{
	struct vs_shapes shapes = {0};

	(void)state;
	for (int i = 0; i < VS_SHAPE_VARIANTS; i++)
		assert_non_null(vs_shape_add(&shapes, &frames.native, at(RECORD), ID, vs_chain_start(2)));
	assert_null(vs_shape_add(&shapes, &frames.native, at(RECORD), ID, vs_chain_start(2)));
	assert_non_null(vs_shape_add(&shapes, &frames.native, at(RECORD), ID + 1, vs_chain_start(2)));
	assert_null(vs_shape_add(&shapes, &frames.native, at(RECORD), 0, vs_chain_start(2)));
	frames.native.depth = 0;
	assert_null(vs_shape_add(&shapes, &frames.native, at(RECORD), ID + 2, vs_chain_start(2)));
}

/* One of the two mappings failed when memory was short, and still does. */
static void without_memory(void **state)
{
	static char memory[4096];
	struct rlimit before, none;
	struct vs_shapes shapes = {.memory = memory};

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	struct vs_shape *shape = vs_shape_add(&shapes, &frames.native, at(RECORD), ID, vs_chain_start(2));
	struct vs_shape *found = vs_shape_of(&shapes, ID);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_null(shape);
	assert_null(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(all_that_the_walk_met, setup),
	    cmocka_unit_test_setup(wherever_it_lies, setup),
	    cmocka_unit_test_setup(so_many_of_one_stack, setup),
	    cmocka_unit_test_setup(without_memory, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
