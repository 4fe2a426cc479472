/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/arena.h>

static void test_objects(void **state)
{
	struct vs_arena arena = {0};
	uint8_t *objects[3000];

	(void)state;
	for (size_t i = 0; i < 3000; i++) {
		size_t size = 1 + i % 500;

		objects[i] = vs_arena_take(&arena, size);
		assert_non_null(objects[i]);
		assert_int_equal((uintptr_t)objects[i] % 64, 0);
		for (size_t j = 0; j < size; j++)
			assert_int_equal(objects[i][j], 0);
		memset(objects[i], (int)(i & 0xff), size);
	}
	for (size_t i = 0; i < 3000; i++)
		for (size_t j = 0; j < 1 + i % 500; j++)
			assert_int_equal(objects[i][j], i & 0xff);
	/* 3000 objects of 256 bytes in the mean: not a mapping each. */
	assert_true(arena.mapped < 2 << 20);
}

static void test_large(void **state)
{
	struct vs_arena arena = {0};
	uint8_t *small = vs_arena_take(&arena, 1);
	uint8_t *large = vs_arena_take(&arena, 8 << 20);

	(void)state;
	assert_non_null(large);
	large[(8 << 20) - 1] = 1;
	assert_ptr_equal(vs_arena_take(&arena, 1), small + 64); /* the step in use goes on */
}

static void test_refused(void **state)
{
	struct vs_arena arena = {0};

	(void)state;
	errno = 42;
	assert_null(vs_arena_take(&arena, 0));
	assert_null(vs_arena_take(&arena, SIZE_MAX));
	assert_null(vs_arena_take(&arena, SIZE_MAX / 2 - 100));
	assert_int_equal(errno, 42);
	assert_int_equal(arena.mapped, 0);
	assert_non_null(vs_arena_take(&arena, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_objects),
	    cmocka_unit_test(test_large),
	    cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
