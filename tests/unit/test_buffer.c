/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <base/buffer.h>

static void test_append(void **state)
{
	struct vs_buffer buffer = {0};

	(void)state;
	assert_int_equal(vs_buffer_append(&buffer, NULL, 0), 0);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(vs_buffer_append(&buffer, &i, sizeof(i)), 0);
	assert_int_equal(buffer.size, 100000 * sizeof(int));
	for (int i = 0; i < 100000; i++)
		assert_memory_equal(buffer.data + (size_t)i * sizeof(i), &i, sizeof(i));
	vs_buffer_free(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.size, 0);
}

static void test_printf(void **state)
{
	struct vs_buffer buffer = {0};
	char longest[1000];

	(void)state;
	memset(longest, 'z', sizeof(longest));
	assert_int_equal(vs_buffer_printf(&buffer, "%d-%s", 5, "five"), 0);
	assert_int_equal(vs_buffer_printf(&buffer, "%.*s", 999, longest), 0);
	assert_int_equal(buffer.size, 6 + 999);
	assert_memory_equal(buffer.data, "5-five", 6);
	assert_memory_equal(buffer.data + 6, longest, 999);
	assert_int_equal(buffer.data[buffer.size], 0);
	vs_buffer_free(&buffer);
}

static void test_too_large(void **state)
{
	struct vs_buffer buffer = {0};
	uint64_t *items = NULL;
	size_t capacity = 0;

	(void)state;
	assert_int_equal(vs_buffer_append(&buffer, "abc", 3), 0);
	assert_int_equal(vs_buffer_reserve(&buffer, SIZE_MAX), -ENOMEM);
	assert_int_equal(vs_buffer_reserve(&buffer, SIZE_MAX - 3), -ENOMEM);
	assert_int_equal(buffer.size, 3);
	assert_memory_equal(buffer.data, "abc", 3);
	assert_int_equal(vs_grow(&items, &capacity, SIZE_MAX / 2, sizeof(*items)), -ENOMEM);
	assert_null(items);
	assert_int_equal(capacity, 0);
	vs_buffer_free(&buffer);
}

static void test_grow(void **state)
{
	uint32_t *items = NULL;
	size_t capacity = 0, moves = 0;

	(void)state;
	for (size_t i = 0; i < 10000; i++) {
		size_t before = capacity;

		assert_int_equal(vs_grow(&items, &capacity, i + 1, sizeof(*items)), 0);
		moves += capacity != before;
		items[i] = (uint32_t)i;
	}
	for (size_t i = 0; i < 10000; i++)
		assert_int_equal(items[i], i);
	assert_true(moves < 16);
	free(items);
}

static void test_heap(void **state)
{
	struct vs_heap heap = {0};
	char *texts[2000], wanted[64];
	uint8_t *large;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		int size = snprintf(wanted, sizeof(wanted), "text %d", i);
		size_t room = (size_t)i * 20;
		uint8_t *bytes = vs_heap_take(&heap, room);

		assert_int_equal((uintptr_t)bytes % _Alignof(max_align_t), 0);
		for (size_t j = 0; j < room; j++)
			assert_int_equal(bytes[j], 0);
		memset(bytes, 0xaa, room);
		texts[i] = vs_heap_text(&heap, wanted, (size_t)size);
	}
	for (int i = 0; i < 2000; i++) {
		snprintf(wanted, sizeof(wanted), "text %d", i);
		assert_string_equal(texts[i], wanted);
	}
	large = vs_heap_take(&heap, 10 << 20);
	assert_non_null(large);
	large[(10 << 20) - 1] = 1;
	assert_null(vs_heap_take(&heap, SIZE_MAX));
	assert_null(vs_heap_text(&heap, NULL, SIZE_MAX));
	assert_string_equal(vs_heap_text(&heap, NULL, 0), "");
	vs_heap_free(&heap);
	vs_heap_free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_append), cmocka_unit_test(test_printf), cmocka_unit_test(test_too_large),
	    cmocka_unit_test(test_grow),   cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
