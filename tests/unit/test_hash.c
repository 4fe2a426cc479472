/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/hash.h>

static int compare(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static void assert_distinct(uint64_t *hashes, size_t count)
{
	qsort(hashes, count, sizeof(*hashes), compare);
	for (size_t i = 1; i < count; i++)
		assert_true(hashes[i] != hashes[i - 1]);
}

static void test_lengths(void **state)
{
	enum { LONGEST = 300 };
	const uint8_t zeros[LONGEST] = {0};
	uint64_t hashes[2 * (LONGEST + 1)];

	(void)state;
	for (size_t size = 0; size <= LONGEST; size++) {
		hashes[2 * size] = vs_hash(zeros, size, 0);
		hashes[2 * size + 1] = vs_hash(zeros, size, 1);
		assert_true(vs_hash(zeros, size, 0) == hashes[2 * size]);
	}
	assert_distinct(hashes, sizeof(hashes) / sizeof(hashes[0]));
}

/* Every input bit must change about half of the output's bits. */
static void test_avalanche(void **state)
{
	uint8_t data[40];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37);
	for (size_t size = 1; size <= sizeof(data); size++) {
		uint64_t before = vs_hash(data, size, 7);

		for (size_t bit = 0; bit < size * 8; bit++) {
			int changed;

			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			changed = __builtin_popcountll(before ^ vs_hash(data, size, 7));
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_in_range(changed, 10, 54); /* 32 +- 5.5 standard deviations of 4 */
		}
	}
}

/* Call stacks: words that differ in few bits. The low bits pick a table's slot, so they must be even too. */
static void test_stacks(void **state)
{
	enum { COUNT = 1 << 16 };
	uint64_t *hashes = malloc(COUNT * sizeof(*hashes));
	uint32_t *slots = calloc(COUNT, sizeof(*slots));
	uint64_t stack[30];
	uint32_t fullest = 0;

	(void)state;
	for (size_t i = 0; i < 30; i++)
		stack[i] = UINT64_C(0x7f0012345000) + i * 64;
	for (uint32_t i = 0; i < COUNT; i++) {
		stack[i % 30] += 16;
		hashes[i] = vs_hash(stack, sizeof(stack), 0);
		if (++slots[hashes[i] % COUNT] > fullest)
			fullest = slots[hashes[i] % COUNT];
	}
	assert_true(fullest <= 12); /* 65536 balls in as many boxes: 8 or 9 in the fullest */
	assert_distinct(hashes, COUNT);
	free(hashes);
	free(slots);
}

static void test_word(void **state)
{
	enum { COUNT = 1 << 16 };
	uint64_t *hashes = malloc(COUNT * sizeof(*hashes));

	(void)state;
	for (uint64_t i = 0; i < COUNT; i++)
		hashes[i] = vs_hash_word(i << 9) & UINT32_MAX; /* even half of it tells 65536 words apart, nearly */
	qsort(hashes, COUNT, sizeof(*hashes), compare);
	size_t same = 0;

	for (size_t i = 1; i < COUNT; i++)
		same += hashes[i] == hashes[i - 1];
	assert_true(same <= 8); /* 0.5 expected */
	free(hashes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lengths),
	    cmocka_unit_test(test_avalanche),
	    cmocka_unit_test(test_stacks),
	    cmocka_unit_test(test_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
