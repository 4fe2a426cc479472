/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <base/varint.h>

static const uint64_t numbers[] = {
    0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_C(1) << 62, UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX};

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint8_t bytes[VS_VARINT_MAX];
		uint8_t *end = vs_varint_put(bytes, numbers[i]);
		struct vs_cursor cursor = {bytes, end, false};

		assert_true(end - bytes <= VS_VARINT_MAX);
		assert_true(vs_cursor_varint(&cursor) == numbers[i]);
		assert_false(cursor.bad);
		assert_ptr_equal(cursor.at, end);
		/* Cut anywhere, it is no number. */
		for (const uint8_t *cut = bytes; cut < end; cut++) {
			cursor = (struct vs_cursor){bytes, cut, false};
			assert_int_equal(vs_cursor_varint(&cursor), 0);
			assert_true(cursor.bad);
		}
	}
}

static void test_lengths(void **state)
{
	uint8_t bytes[VS_VARINT_MAX];

	(void)state;
	assert_int_equal(vs_varint_put(bytes, 127) - bytes, 1);
	assert_int_equal(vs_varint_put(bytes, 128) - bytes, 2);
	assert_int_equal(vs_varint_put(bytes, UINT64_MAX) - bytes, 10);
}

static void test_overlong(void **state)
{
	const uint8_t more_than_64_bits[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
	struct vs_cursor cursor = {more_than_64_bits, more_than_64_bits + sizeof(more_than_64_bits), false};

	(void)state;
	assert_int_equal(vs_cursor_varint(&cursor), 0);
	assert_true(cursor.bad);
	cursor = (struct vs_cursor){endless, endless + sizeof(endless), false};
	assert_int_equal(vs_cursor_varint(&cursor), 0);
	assert_true(cursor.bad);
}

static void test_zigzag(void **state)
{
	const int64_t values[] = {0, -1, 1, -2, 2, INT32_MIN, INT64_MAX, INT64_MIN};

	(void)state;
	assert_int_equal(vs_zigzag(-1), 1);
	assert_int_equal(vs_zigzag(1), 2);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_true(vs_unzigzag(vs_zigzag(values[i])) == values[i]);
}

static void test_cursor(void **state)
{
	const uint8_t bytes[] = {5, 'a', 'b', 0x90, 0x01};
	struct vs_cursor cursor = {bytes, bytes + sizeof(bytes), false};

	(void)state;
	assert_int_equal(vs_cursor_limited(&cursor, 5), 5);
	assert_int_equal(vs_cursor_left(&cursor), 4);
	assert_memory_equal(vs_cursor_bytes(&cursor, 2), "ab", 2);
	assert_int_equal(vs_cursor_limited(&cursor, 143), 0); /* it is 144 */
	assert_true(cursor.bad);
	assert_null(vs_cursor_bytes(&cursor, 0));
	assert_int_equal(vs_cursor_left(&cursor), 0);

	cursor = (struct vs_cursor){bytes, bytes + sizeof(bytes), false};
	assert_null(vs_cursor_bytes(&cursor, UINT64_MAX));
	assert_true(cursor.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip), cmocka_unit_test(test_lengths), cmocka_unit_test(test_overlong),
	    cmocka_unit_test(test_zigzag),     cmocka_unit_test(test_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
