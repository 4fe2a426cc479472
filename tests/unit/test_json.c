/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/json.h"

struct output {
	char *text;
	size_t size;
	FILE *file;
};

static void begin(struct output *output)
{
	output->file = open_memstream(&output->text, &output->size);
	assert_non_null(output->file);
}

static void expect(struct output *output, const char *text)
{
	assert_int_equal(fclose(output->file), 0);
	assert_string_equal(output->text, text);
	free(output->text);
}

static void expect_json_string(const char *text, const char *quoted)
{
	struct output output;

	begin(&output);
	struct vs_json json = vs_json_on(output.file);

	vs_json_string(&json, NULL, text);
	expect(&output, quoted);
}

static void test_strings(void **state)
{
	(void)state;

	expect_json_string(NULL, "null");
	expect_json_string("", "\"\"");
	expect_json_string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	expect_json_string("\n\t\r\001\x7f", "\"\\n\\t\\u000d\\u0001\\u007f\"");
	expect_json_string("显存 é 🚀", "\"显存 é 🚀\"");
	/* A lone continuation, a cut character, an overlong slash, a surrogate, above U+10FFFF. */
	expect_json_string("a\x80"
	                   "b",
	                   "\"a\\ufffdb\"");
	expect_json_string("\xe6\x98", "\"\\ufffd\\ufffd\"");
	expect_json_string("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	expect_json_string("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	expect_json_string("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void test_document(void **state)
{
	struct output output;

	begin(&output);
	struct vs_json json = vs_json_on(output.file);
	(void)state;

	vs_json_object(&json, NULL);
	vs_json_unsigned(&json, "most", UINT64_MAX);
	vs_json_signed(&json, "least", INT64_MIN);
	vs_json_array(&json, "empty");
	vs_json_end(&json);
	vs_json_array(&json, "list");
	vs_json_object_line(&json, NULL);
	vs_json_number(&json, "half", 0.5);
	vs_json_number(&json, "none", NAN);
	vs_json_array(&json, "inner");
	vs_json_bool(&json, NULL, true);
	vs_json_null(&json, NULL);
	vs_json_end(&json);
	vs_json_end(&json);
	vs_json_object(&json, NULL);
	vs_json_bool(&json, "again", false);
	vs_json_end(&json);
	vs_json_end(&json);
	vs_json_end(&json);
	expect(&output, "{\n"
	                "  \"most\": 18446744073709551615,\n"
	                "  \"least\": -9223372036854775808,\n"
	                "  \"empty\": [],\n"
	                "  \"list\": [\n"
	                "    {\"half\": 0.5, \"none\": null, \"inner\": [true, null]},\n"
	                "    {\n"
	                "      \"again\": false\n"
	                "    }\n"
	                "  ]\n"
	                "}\n");
}

static void expect_field(const char *text, const char *field)
{
	struct output output;

	begin(&output);

	vs_csv_field(output.file, text);
	expect(&output, field);
}

static void test_csv(void **state)
{
	(void)state;

	expect_field(NULL, "");
	expect_field("weights", "weights");
	expect_field("a b", "a b");
	expect_field("a,b", "\"a,b\"");
	expect_field("say \"no\"", "\"say \"\"no\"\"\"");
	expect_field("two\nlines", "\"two\nlines\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_strings),
	    cmocka_unit_test(test_document),
	    cmocka_unit_test(test_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
