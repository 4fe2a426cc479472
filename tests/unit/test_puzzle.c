/* SPDX-License-Identifier: MIT
 *
 * Puzzles with answers found by trying everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "caching/puzzle.h"

#define STEPS UINT64_C(1000000)

/* A ring of an odd number takes three colours. */
static void rings(void **state)
{
	(void)state;
	for (uint32_t size = 3; size <= 9; size++) {
		for (uint32_t colours = 2; colours <= 3; colours++) {
			struct vs_puzzle puzzle;
			int r;

			assert_int_equal(vs_puzzle_open(&puzzle, size, (1U << colours) - 1), 0);
			for (uint32_t i = 0; i < size; i++)
				assert_int_equal(vs_puzzle_differ(&puzzle, i, (i + 1) % size), 0);
			r = vs_puzzle_solve(&puzzle, STEPS);
			assert_int_equal(r, size % 2 && colours == 2 ? -ENOENT : 0);
			for (uint32_t i = 0; r == 0 && i < size; i++) {
				assert_true(vs_puzzle_is_known(&puzzle, i));
				assert_true(puzzle.values[i] != puzzle.values[(i + 1) % size]);
			}
			vs_puzzle_done(&puzzle);
		}
	}
}

static void lowest_first(void **state)
{
	struct vs_puzzle puzzle;

	(void)state;
	assert_int_equal(vs_puzzle_open(&puzzle, 3, UINT32_MAX), 0);
	assert_int_equal(vs_puzzle_differ(&puzzle, 0, 1), 0);
	assert_int_equal(vs_puzzle_solve(&puzzle, STEPS), 0);
	assert_int_equal(puzzle.values[0] + puzzle.values[1], 3);
	assert_int_equal(puzzle.values[2], 1);
	vs_puzzle_done(&puzzle);
}

static void impossible_alternatives_are_dropped(void **state)
{
	struct vs_puzzle puzzle;

	(void)state;
	assert_int_equal(vs_puzzle_open(&puzzle, 2, 3), 0);
	puzzle.values[0] = 1;
	assert_int_equal(vs_puzzle_choice(&puzzle), 0);
	assert_int_equal(vs_puzzle_alternative(&puzzle), 0);
	assert_int_equal(vs_puzzle_claim(&puzzle, VS_CLAIM_IN, 0, 2), 0);
	vs_puzzle_settle(&puzzle);
	assert_int_equal(puzzle.choice_count, 0);

	assert_int_equal(vs_puzzle_choice(&puzzle), 0);
	assert_int_equal(vs_puzzle_alternative(&puzzle), 0);
	assert_int_equal(vs_puzzle_claim(&puzzle, VS_CLAIM_IN, 0, 2), 0);
	assert_int_equal(vs_puzzle_alternative(&puzzle), 0);
	assert_int_equal(vs_puzzle_claim(&puzzle, VS_CLAIM_DIFFERENT, 1, 0), 0);
	vs_puzzle_settle(&puzzle);
	assert_int_equal(puzzle.choices[0].count, 1);
	assert_int_equal(vs_puzzle_solve(&puzzle, STEPS), 0);
	assert_int_equal(puzzle.values[1], 2);
	vs_puzzle_done(&puzzle);
}

#define UNKNOWNS 7
#define COLOURS  3

static bool holds(const struct vs_puzzle *puzzle, const struct vs_claim *claim, const uint32_t *values)
{
	(void)puzzle;
	switch (claim->kind) {
	case VS_CLAIM_IN:
		return values[claim->a] & claim->b;
	case VS_CLAIM_SAME:
		return values[claim->a] == values[claim->b];
	default:
		return values[claim->a] != values[claim->b];
	}
}

static bool fits(const struct vs_puzzle *puzzle, const uint32_t *values)
{
	for (size_t i = 0; i < puzzle->count; i++) {
		if (!(puzzle->values[i] & values[i]))
			return false;
	}
	for (size_t i = 0; i < puzzle->pair_count; i++) {
		if (values[puzzle->pairs[i].a] == values[puzzle->pairs[i].b])
			return false;
	}
	for (size_t i = 0; i < puzzle->choice_count; i++) {
		const struct vs_span *choice = &puzzle->choices[i];
		bool any = false;

		for (size_t j = choice->first; j < choice->first + choice->count; j++) {
			const struct vs_span *alternative = &puzzle->alternatives[j];
			bool all = true;

			for (size_t k = 0; k < alternative->count; k++)
				all &= holds(puzzle, &puzzle->claims[alternative->first + k], values);
			any |= all;
		}
		if (!any)
			return false;
	}
	return true;
}

static bool has_answer(const struct vs_puzzle *puzzle)
{
	uint32_t values[UNKNOWNS], cases = 1;

	for (int i = 0; i < UNKNOWNS; i++)
		cases *= COLOURS;
	for (uint32_t i = 0; i < cases; i++) {
		for (uint32_t j = 0, rest = i; j < UNKNOWNS; j++, rest /= COLOURS)
			values[j] = 1U << rest % COLOURS;
		if (fits(puzzle, values))
			return true;
	}
	return false;
}

static uint32_t random_below(uint32_t *seed, uint32_t limit)
{
	*seed = *seed * 1664525 + 1013904223; /* Numerical Recipes */
	return (uint32_t)((uint64_t)*seed * limit >> 32);
}

static void make(struct vs_puzzle *puzzle, uint32_t *seed)
{
	assert_int_equal(vs_puzzle_open(puzzle, UNKNOWNS, (1U << COLOURS) - 1), 0);
	for (uint32_t i = random_below(seed, 9); i > 0; i--) {
		uint32_t a = random_below(seed, UNKNOWNS), b = (a + 1 + random_below(seed, UNKNOWNS - 1)) % UNKNOWNS;

		assert_int_equal(vs_puzzle_differ(puzzle, a, b), 0);
	}
	for (uint32_t i = random_below(seed, 8); i > 0; i--) {
		assert_int_equal(vs_puzzle_choice(puzzle), 0);
		for (uint32_t j = random_below(seed, 3) + 1; j > 0; j--) {
			assert_int_equal(vs_puzzle_alternative(puzzle), 0);
			for (uint32_t k = random_below(seed, 4); k > 0; k--) {
				enum vs_claim_kind kind = (enum vs_claim_kind)random_below(seed, 3);
				uint32_t a = random_below(seed, UNKNOWNS);
				uint32_t b = (a + 1 + random_below(seed, UNKNOWNS - 1)) % UNKNOWNS;

				if (kind == VS_CLAIM_IN)
					b = 1 + random_below(seed, (1U << COLOURS) - 1);
				assert_int_equal(vs_puzzle_claim(puzzle, kind, a, b), 0);
			}
		}
	}
}

static void as_by_trying_everything(void **state)
{
	uint32_t seed = 1, with = 0, without = 0;

	(void)state;
	for (int i = 0; i < 1500; i++) {
		struct vs_puzzle puzzle;
		bool expected;
		int r;

		make(&puzzle, &seed);
		expected = has_answer(&puzzle);
		r = vs_puzzle_solve(&puzzle, STEPS);
		assert_int_equal(r, expected ? 0 : -ENOENT);
		if (r == 0)
			assert_true(fits(&puzzle, puzzle.values));
		with += expected;
		without += !expected;
		vs_puzzle_done(&puzzle);
	}
	assert_true(with > 100 && without > 100);
}

/* Pigeons: more unknowns that all differ than values. Nothing but trying tells, so it gives up. */
static void gives_up(void **state)
{
	struct vs_puzzle puzzle;

	(void)state;
	assert_int_equal(vs_puzzle_open(&puzzle, 14, (1U << 13) - 1), 0);
	for (uint32_t i = 0; i < 14; i++) {
		for (uint32_t j = i + 1; j < 14; j++)
			assert_int_equal(vs_puzzle_differ(&puzzle, i, j), 0);
	}
	assert_int_equal(vs_puzzle_solve(&puzzle, STEPS), -EDQUOT);
	vs_puzzle_done(&puzzle);
}

/* Neither many that nothing is known of, nor many pairs, take time that is not accounted for. */
static void all_work_is_counted(void **state)
{
	struct vs_puzzle puzzle;

	(void)state;
	assert_int_equal(vs_puzzle_open(&puzzle, 100000, 6), 0);
	assert_int_equal(vs_puzzle_solve(&puzzle, 0), 0);
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(puzzle.values[i], 2);
	vs_puzzle_done(&puzzle);

	for (int enough = 0; enough <= 1; enough++) {
		assert_int_equal(vs_puzzle_open(&puzzle, 400, 7), 0);
		for (uint32_t i = 0; i < 200; i++) {
			puzzle.values[i] = 1;
			for (uint32_t j = 200; j < 400; j++)
				assert_int_equal(vs_puzzle_differ(&puzzle, i, j), 0);
		}
		/* 40000 pairs. */
		assert_int_equal(vs_puzzle_solve(&puzzle, enough ? STEPS : 20000), enough ? 0 : -EDQUOT);
		vs_puzzle_done(&puzzle);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rings),
	    cmocka_unit_test(lowest_first),
	    cmocka_unit_test(impossible_alternatives_are_dropped),
	    cmocka_unit_test(as_by_trying_everything),
	    cmocka_unit_test(gives_up),
	    cmocka_unit_test(all_work_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
