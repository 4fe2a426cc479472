/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/size.h"

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
	    {"0", 0},
	    {"8519680", 8519680},
	    {"512B", 512},
	    {"24G", 25769803776},
	    {"24GiB", 25769803776},
	    {"24 gib", 25769803776},
	    {"80GB", 80000000000},
	    {"16000MiB", 16777216000},
	    {"1.5G", 1610612736},
	    {"0.5KiB", 512},
	    {".5k", 512},
	    {"1.", 1},
	    {"1kb", 1000},
	    {"2TB", 2000000000000},
	    {"16T", 17592186044416},
	    {"18446744073709551615", UINT64_MAX},
	    {"0.0009765625KiB", 1}, /* 1 / 1024 */
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 77;
		print_message("%s\n", cases[i].text);
		assert_int_equal(vs_size_parse(cases[i].text, &bytes), 0);
		assert_true(bytes == cases[i].bytes);
	}
}

static void test_parse_refuses(void **state)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
	    {"", -EINVAL},          {"G", -EINVAL},     {"-1G", -EINVAL},
	    {"+1G", -EINVAL},       {".", -EINVAL},     {"1Q", -EINVAL},
	    {"1GiBs", -EINVAL},     {"1  G", -EINVAL},  {"0x10", -EINVAL},
	    {"1e9", -EINVAL},       {"nan", -EINVAL},   {" 1", -EINVAL},
	    {"1,5G", -EINVAL},      {"1.5.5", -EINVAL}, {"18446744073709551616", -ERANGE},
	    {"16777216T", -ERANGE}, /* 2^64 */
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 77;
		print_message("'%s'\n", cases[i].text);
		assert_int_equal(vs_size_parse(cases[i].text, &bytes), cases[i].error);
		assert_true(bytes == 77);
	}
}

static void test_format(void **state)
{
	char text[VS_SIZE_MAX];
	(void)state;

	assert_string_equal(vs_size_format(0, text), "0 B");
	assert_string_equal(vs_size_format(1023, text), "1023 B");
	assert_string_equal(vs_size_format(1024, text), "1.00 KiB");
	assert_string_equal(vs_size_format(1023 * 1024, text), "1.00 MiB");
	assert_string_equal(vs_size_format(999 * 1024, text), "999.00 KiB");
	assert_string_equal(vs_size_format(1000 << 20, text), "0.98 GiB");
	assert_string_equal(vs_size_format(8519680, text), "8.12 MiB");
	assert_string_equal(vs_size_format((1ull << 30) - 1, text), "1.00 GiB"); /* never "1024.00 MiB" */
	assert_string_equal(vs_size_format(UINT64_MAX, text), "16.00 EiB");
	/* What the 16 bytes of 7 billion parameters are in either unit. */
	assert_string_equal(vs_size_format(112000000000, text), "104.31 GiB");
	assert_string_equal(vs_size_format_decimal(112000000000, text), "112.00 GB");
	assert_string_equal(vs_size_format_decimal(999, text), "999 B");
	assert_string_equal(vs_size_format_signed(0, text), "0 B");
	assert_string_equal(vs_size_format_signed(-1610612736, text), "-1.50 GiB");
	assert_string_equal(vs_size_format_signed(512, text), "+512 B");
	assert_string_equal(vs_size_format_signed(INT64_MIN, text), "-8.00 EiB");
}

static void test_count(void **state)
{
	char text[VS_SIZE_MAX];
	(void)state;

	assert_string_equal(vs_count_format(0, text), "0");
	assert_string_equal(vs_count_format(999, text), "999");
	assert_string_equal(vs_count_format(1000, text), "1,000");
	assert_string_equal(vs_count_format(159383552, text), "159,383,552");
	assert_string_equal(vs_count_format(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test(test_parse_refuses),
	    cmocka_unit_test(test_format),
	    cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
