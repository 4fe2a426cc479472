/* SPDX-License-Identifier: MIT
 *
 * Guesses of stacks: what of a native stack must be as it was, how many there are, and no memory to remember them.
 * Python's part is held against real interpreters by tests/shim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "shim/stack_guess.h"

enum { RECORD = 4, INNER = 5, SAVED = 9, OUTER = 11, TOP = 8, WORDS = 16, ID = 7, FRAMES = 3, EPOCH = 5 };

static const uint64_t inner_pc = 0x7f0000001111, outer_pc = 0x7f0000002222;

/* Two frames: the inner one has saved the rbp that the outer one's end is reckoned from. */
static struct frames {
	uint64_t words[WORDS];
	struct vs_native native;
	struct vs_python_entry entries[FRAMES];
	struct vs_python_stack python;
	struct vs_guesses *guesses;
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
	for (int i = 0; i < FRAMES; i++)
		frames.entries[i] = (struct vs_python_entry){.code = (uint64_t)i + 1};
	/* As a walk leaves them: the outermost first, seen from the innermost. */
	frames.python = (struct vs_python_stack){.innermost = (const char *)&frames.entries[FRAMES - 1],
	                                         .step = -(ptrdiff_t)sizeof(frames.entries[0]),
	                                         .entry_count = FRAMES,
	                                         .count = FRAMES,
	                                         .chain = vs_chain_start(2),
	                                         .top = &frames.words[TOP]};
	frames.guesses = calloc(1, sizeof(*frames.guesses));
	return frames.guesses ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	vs_guesses_release(frames.guesses);
	free(frames.guesses);
	return 0;
}

static struct vs_guess *add(uint32_t id)
{
	return vs_guess_add(frames.guesses, &frames.native, &frames.words[RECORD], &frames.python, id, EPOCH);
}

static void all_that_the_walk_met(void **state)
{
	static const int words[] = {INNER, OUTER, SAVED};
	struct vs_guess *guess = add(ID);

	(void)state;
	assert_non_null(guess);
	assert_ptr_equal(vs_guess_of(frames.guesses, ID), guess);
	assert_null(vs_guess_of(frames.guesses, ID + 1));
	assert_null(vs_guess_of(frames.guesses, ID + VS_GUESSES_KNOWN));
	assert_int_equal(guess->id, ID);
	assert_true(vs_guess_fits(guess, &frames.words[RECORD]));
	for (int i = 0; i < 3; i++) {
		frames.words[words[i]] += 8;
		assert_false(vs_guess_fits(guess, &frames.words[RECORD]));
		frames.words[words[i]] -= 8;
	}
	assert_true(vs_guess_fits(guess, &frames.words[RECORD]));
	/* Elsewhere it is another guess: what lies behind it may be the end of the stack. */
	assert_false(vs_guess_fits(guess, &frames.words[RECORD - 2]));
	/* Whatever else lies there is no part of it. */
	frames.words[TOP] = frames.words[OUTER + 1] = 99;
	assert_true(vs_guess_fits(guess, &frames.words[RECORD]));
}

static void the_innermost_frame_may_need_its_rbp(void **state)
{
	struct vs_guess *guess;

	(void)state;
	frames.native.rbp_matters[1] = true;
	frames.native.bps[1] = frames.words[RECORD] = at(13);
	guess = add(ID);
	assert_true(vs_guess_fits(guess, &frames.words[RECORD]));
	frames.words[RECORD] += 8;
	assert_false(vs_guess_fits(guess, &frames.words[RECORD]));
}

static void python_beside_it(void **state)
{
	struct vs_guess *guess = add(ID);

	(void)state;
	assert_int_equal(guess->python_count, FRAMES);
	assert_memory_equal(guess->entries, frames.entries, sizeof(frames.entries));
	assert_int_equal(guess->top, TOP - RECORD);
	assert_int_equal(guess->epoch, EPOCH);
	frames.entries[1].code = 77;
	vs_guess_move(guess, &frames.python, EPOCH + 1);
	assert_memory_equal(guess->entries, frames.entries, sizeof(frames.entries));
	assert_int_equal(guess->epoch, EPOCH + 1);
	/* More frames have no room there. */
	frames.python.entry_count = FRAMES - 1;
	frames.entries[1].code = 78;
	vs_guess_move(guess, &frames.python, EPOCH + 2);
	assert_int_equal(guess->entries[1].code, 77);
	assert_int_equal(guess->epoch, EPOCH + 1);
	/* The thread's state is not on the stack, nor is another thread's. */
	frames.python.top = &frames.words[RECORD];
	assert_int_equal(add(ID)->top, 0);
	frames.python.top = &frames.words[OUTER + 1];
	assert_int_equal(add(ID)->top, 0);
	frames.python.top = NULL;
	assert_int_equal(add(ID)->top, 0);
}

static void what_is_no_guess(void **state)
{
	(void)state;
	assert_null(add(0));
	frames.python.truncated = true;
	assert_null(add(ID));
	frames.python.truncated = false;
	frames.native.depth = 0;
	assert_null(add(ID));
}

/* The oldest makes room for the newest. */
static void so_many_of_one_stack(void **state)
{
	struct vs_guess *first = add(ID), *guess = NULL;
	uint64_t used;

	(void)state;
	for (int i = 1; i < VS_GUESS_VARIANTS; i++) {
		frames.words[INNER] = frames.native.pcs[1] = inner_pc + (uint64_t)i;
		guess = add(ID);
		assert_ptr_not_equal(guess, first);
	}
	used = frames.guesses->used;
	frames.words[INNER] = frames.native.pcs[1] = inner_pc + 99;
	assert_ptr_equal(add(ID), first);
	assert_ptr_equal(first->older, guess);
	assert_int_equal(frames.guesses->used, used);
	assert_true(vs_guess_fits(first, &frames.words[RECORD]));
	assert_ptr_not_equal(add(ID), first);
	assert_ptr_not_equal(add(ID + 1), first);
	/* One that has become larger has no room there. */
	frames.python.entry_count = 1;
	frames.python.innermost = (const char *)&frames.entries[0];
	assert_int_equal(add(ID)->python_count, 1);
	frames.python.entry_count = FRAMES;
	frames.python.innermost = (const char *)&frames.entries[FRAMES - 1];
	for (int i = 0; i < 3 * VS_GUESS_VARIANTS; i++)
		assert_memory_equal(add(ID)->entries, frames.entries, sizeof(frames.entries));
}

/* More than there is room for: all are forgotten, also where they were expected. */
static void all_there_is_room_for(void **state)
{
	struct vs_guess **next = vs_guess_next(frames.guesses, true);
	uint32_t id = 0, piece = 0;

	(void)state;
	while (frames.guesses->piece >= piece) {
		piece = frames.guesses->piece;
		assert_true(id < VS_GUESS_PIECES * VS_GUESS_PIECE / sizeof(struct vs_guess));
		*next = add(++id);
		assert_non_null(*next);
	}
	assert_int_equal(piece, VS_GUESS_PIECES - 1);
	assert_null(vs_guess_of(frames.guesses, id - 1));
	assert_non_null(vs_guess_of(frames.guesses, id));
	assert_true(vs_guess_fits(vs_guess_of(frames.guesses, id), &frames.words[RECORD]));
	*next = NULL;
	for (uint32_t i = 0; i < 1u << VS_GUESS_PLACES_BITS; i++) {
		assert_null(frames.guesses->next[i][0]);
		assert_null(frames.guesses->next[i][1]);
	}
}

static void without_memory(void **state)
{
	struct rlimit before, none;
	struct vs_guess *guess;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	guess = add(ID);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_null(guess);
	assert_null(vs_guess_of(frames.guesses, ID));
}

/* The oldest one is too small for what a stack has become, and there is no room for another, time and again. */
static void without_memory_for_larger_ones(void **state)
{
	struct rlimit before, none;
	struct vs_guess *guess = NULL;

	(void)state;
	frames.python.entry_count = 1;
	for (int i = 0; i < VS_GUESS_VARIANTS; i++)
		assert_non_null(add(ID));
	frames.python.entry_count = FRAMES;
	frames.guesses->used = VS_GUESS_PIECE;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (int i = 0; i < 2 * VS_GUESS_VARIANTS && !guess; i++)
		guess = add(ID);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_null(guess);
	for (int i = 0; i < 2 * VS_GUESS_VARIANTS; i++)
		assert_memory_equal(add(ID)->entries, frames.entries, sizeof(frames.entries));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(all_that_the_walk_met, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_innermost_frame_may_need_its_rbp, setup, teardown),
	    cmocka_unit_test_setup_teardown(python_beside_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_no_guess, setup, teardown),
	    cmocka_unit_test_setup_teardown(so_many_of_one_stack, setup, teardown),
	    cmocka_unit_test_setup_teardown(all_there_is_room_for, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_memory, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_memory_for_larger_ones, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
