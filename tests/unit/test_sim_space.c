/* SPDX-License-Identifier: MIT
 *
 * The address policy: chunks of 32 MiB from the top, holes from the bottom.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/space.h"

#define MIB   (UINT64_C(1) << 20)
#define START (UINT64_C(1) << 40)
#define SIZE  (1024 * MIB)
#define TOP   (START + SIZE)

static struct vs_space space;

static int setup(void **state)
{
	(void)state;
	vs_space_init(&space, START, SIZE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vs_space_done(&space);
	return 0;
}

static uint64_t take(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(vs_space_take(&space, size, &address), 0);
	return address;
}

static void give(uint64_t address, uint64_t size)
{
	uint64_t given = 0;

	assert_int_equal(vs_space_give(&space, address, &given), 0);
	assert_int_equal(given, size);
}

static void chunks_come_from_the_top(void **state)
{
	(void)state;
	assert_int_equal(take(20 * MIB), TOP - 32 * MIB);
	assert_int_equal(take(20 * MIB), TOP - 64 * MIB);
	/* 70 MiB opens a chunk of 96 */
	assert_int_equal(take(70 * MIB), TOP - 160 * MIB);
	assert_int_equal(take(32 * MIB), TOP - 192 * MIB);
}

static void remains_serve_lowest_address_first(void **state)
{
	uint64_t high = take(20 * MIB), low = take(70 * MIB);

	(void)state;
	/* The lower chunk has 26 MiB left behind its 70, the upper one 12 behind its 20. */
	assert_int_equal(take(10 * MIB), low + 70 * MIB);
	assert_int_equal(take(2 * MIB), low + 80 * MIB);
	assert_int_equal(take(14 * MIB), low + 82 * MIB);
	assert_int_equal(take(12 * MIB), high + 20 * MIB);
	/* Both are full. */
	assert_int_equal(take(2 * MIB), low - 32 * MIB);
}

static void sizes_round_up_to_granules(void **state)
{
	uint64_t first = take(1), second = take(2 * MIB + 1);

	(void)state;
	assert_int_equal(second, first + 2 * MIB);
	give(second, 4 * MIB);
	give(first, 2 * MIB);
}

static void a_free_chunk_goes_back(void **state)
{
	uint64_t first = take(40 * MIB), second = take(32 * MIB);

	(void)state;
	give(first, 40 * MIB);
	assert_int_equal(space.count, 1);
	/* The gap above `second` is the highest that holds it again. */
	assert_int_equal(take(64 * MIB), TOP - 64 * MIB);
	give(second, 32 * MIB);
	assert_int_equal(take(32 * MIB), TOP - 96 * MIB);
}

static void a_gap_too_small_is_passed_over(void **state)
{
	uint64_t first = take(32 * MIB);

	(void)state;
	take(32 * MIB);
	give(first, 32 * MIB);
	assert_int_equal(take(64 * MIB), TOP - 128 * MIB);
	assert_int_equal(take(32 * MIB), TOP - 32 * MIB);
}

static void holes_merge(void **state)
{
	uint64_t at[16];

	(void)state;
	for (int i = 0; i < 16; i++)
		at[i] = take(2 * MIB);
	assert_int_equal(space.count, 1);
	give(at[3], 2 * MIB);
	give(at[5], 2 * MIB);
	/* Two holes of 2 MiB do not hold 6. */
	assert_int_equal(take(6 * MIB), TOP - 64 * MIB);
	give(at[4], 2 * MIB);
	assert_int_equal(take(6 * MIB), TOP - 64 * MIB + 6 * MIB);
	assert_int_equal(take(6 * MIB), TOP - 64 * MIB + 12 * MIB);
	give(at[6], 2 * MIB);
	assert_int_equal(take(8 * MIB), TOP - 64 * MIB + 18 * MIB);
	assert_int_equal(take(8 * MIB), at[3]);
}

static void the_range_ends(void **state)
{
	uint64_t address = 7;

	(void)state;
	assert_int_equal(vs_space_take(&space, SIZE + 1, &address), -ENOMEM);
	assert_int_equal(take(SIZE), START);
	assert_int_equal(vs_space_take(&space, 1, &address), -ENOMEM);
	assert_int_equal(vs_space_take(&space, 0, &address), -ENOMEM);
	assert_int_equal(address, 7);
}

static void only_first_addresses_are_given_back(void **state)
{
	uint64_t address = take(6 * MIB), size = 7;

	(void)state;
	assert_int_equal(vs_space_give(&space, address + 2 * MIB, &size), -ENOENT);
	assert_int_equal(vs_space_give(&space, address + 6 * MIB, &size), -ENOENT);
	assert_int_equal(vs_space_give(&space, START, &size), -ENOENT);
	assert_int_equal(vs_space_give(&space, 0, &size), -ENOENT);
	give(address, 6 * MIB);
	assert_int_equal(vs_space_give(&space, address, &size), -ENOENT);
	assert_int_equal(size, 7);
}

static void find_sees_inside(void **state)
{
	uint64_t address = take(6 * MIB);

	(void)state;
	assert_non_null(vs_space_find(&space, address + 6 * MIB - 1));
	assert_int_equal(vs_space_find(&space, address + 6 * MIB - 1)->address, address);
	assert_null(vs_space_find(&space, address + 6 * MIB));
	assert_null(vs_space_find(&space, address - 1));
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Any order of takes and gives: no overlap, and everything comes back. */
static void random_use(void **state)
{
	struct {
		uint64_t address, size;
	} live[200];
	uint64_t starts[200], ends[200];
	size_t count = 0;

	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		size_t at;

		if (count < 200 && (count == 0 || rand() % 2)) {
			uint64_t size = (uint64_t)(1 + rand() % 8) * 2 * MIB;

			if (vs_space_take(&space, size, &live[count].address) == 0)
				live[count++].size = size;
			continue;
		}
		at = (size_t)rand() % count;
		give(live[at].address, live[at].size);
		live[at] = live[--count];
		if (i % 100)
			continue;
		for (size_t j = 0; j < count; j++) {
			starts[j] = live[j].address;
			ends[j] = live[j].address + live[j].size;
		}
		qsort(starts, count, sizeof(*starts), by_address);
		qsort(ends, count, sizeof(*ends), by_address);
		for (size_t j = 1; j < count; j++)
			assert_true(ends[j - 1] <= starts[j]);
	}
	while (count)
		count--, give(live[count].address, live[count].size);
	assert_int_equal(space.count, 0);
	assert_int_equal(take(SIZE), START);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(chunks_come_from_the_top),
	    TEST(remains_serve_lowest_address_first),
	    TEST(sizes_round_up_to_granules),
	    TEST(a_free_chunk_goes_back),
	    TEST(a_gap_too_small_is_passed_over),
	    TEST(holes_merge),
	    TEST(the_range_ends),
	    TEST(only_first_addresses_are_given_back),
	    TEST(find_sees_inside),
	    TEST(random_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
