/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/screen.h"
#include "common/table.h"

static const struct vs_screen utf8 = {.width = 40, .utf8 = true}, ascii = {.width = 40};

static void expect_fit(const struct vs_screen *screen, const char *text, unsigned columns, enum vs_cut cut,
                       const char *want)
{
	char got[256];

	vs_text_fit(screen, text, columns, cut, got, sizeof(got));
	assert_string_equal(got, want);
	assert_true(vs_text_columns(got) <= columns);
}

static void test_columns(void **state)
{
	(void)state;

	assert_int_equal(vs_text_columns(""), 0);
	assert_int_equal(vs_text_columns("train.py"), 8);
	assert_int_equal(vs_text_columns("é"), 1);
	assert_int_equal(vs_text_columns("e\xcc\x81"), 1); /* a combining accent takes none */
	assert_int_equal(vs_text_columns("显存"), 4);
	assert_int_equal(vs_text_columns("\x1b[31m"), 5); /* the escape is shown as '?' */
	assert_int_equal(vs_text_columns("\xff\xfe"), 2);
}

static void test_fit(void **state)
{
	(void)state;

	expect_fit(&utf8, "train.py", 8, VS_CUT_END, "train.py");
	expect_fit(&utf8, "train.py", 7, VS_CUT_END, "train.…");
	expect_fit(&ascii, "train.py", 7, VS_CUT_END, "train.~");
	expect_fit(&utf8, "/home/me/train.py", 9, VS_CUT_START, "…train.py");
	expect_fit(&utf8, "显存显存", 5, VS_CUT_END, "显存…");
	expect_fit(&utf8, "显存显存", 4, VS_CUT_END, "显…"); /* half a wide character is none */
	expect_fit(&utf8, "显存显存", 4, VS_CUT_START, "…存");
	expect_fit(&ascii, "显a", 9, VS_CUT_END, "?a");
	expect_fit(&utf8, "a\x1b[0m\n", 9, VS_CUT_END, "a?[0m?");
	expect_fit(&utf8, "abc", 0, VS_CUT_END, "");
	expect_fit(&utf8, "abc", 1, VS_CUT_END, "…");
}

/* Whatever room there is, no character is split and the end is there. */
static void test_fit_any_size(void **state)
{
	static const char text[] = "a显é🚀b存";
	char got[32];
	(void)state;

	for (size_t size = 1; size < sizeof(got); size++) {
		memset(got, '#', sizeof(got));
		vs_text_fit(&utf8, text, 30, VS_CUT_END, got, size);
		assert_true(strlen(got) < size);
		assert_memory_equal(got, text, strlen(got));
		assert_true((text[strlen(got)] & 0xc0) != 0x80);
	}
}

static void test_bar(void **state)
{
	char got[64];
	(void)state;

	vs_text_bar(&ascii, 1, 2, 10, got, sizeof(got));
	assert_string_equal(got, "#####");
	vs_text_bar(&utf8, 9, 16, 4, got, sizeof(got));
	assert_string_equal(got, "██▎");
	vs_text_bar(&utf8, 5, 0, 4, got, sizeof(got));
	assert_string_equal(got, "");
	vs_text_bar(&utf8, 9, 3, 2, got, sizeof(got)); /* more than all is all */
	assert_string_equal(got, "██");
	vs_text_bar(&utf8, 1, 1, 30, got, 8); /* no room: as much as fits */
	assert_string_equal(got, "██");
}

static char *printed(struct vs_table *table, unsigned width)
{
	struct vs_screen screen = {.width = width, .utf8 = true};
	char *text = NULL;
	size_t size;

	screen.out = open_memstream(&text, &size);
	assert_non_null(screen.out);
	vs_table_print(table, &screen, 2);
	assert_int_equal(fclose(screen.out), 0);
	return text;
}

static struct vs_table *sample(void)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_FLEX_START};
	struct vs_table *table = vs_table_new("tag,size,where", kinds);

	vs_table_cell(table, "weights");
	vs_table_cell(table, "1.00 GiB");
	vs_table_cell(table, "/a/long/path/to/model.py");
	vs_table_cell(table, "显存");
	vs_table_cellf(table, "%d B", 5);
	vs_table_cell(table, NULL);
	return table;
}

static void test_table(void **state)
{
	char *text = printed(sample(), 80);
	(void)state;

	assert_string_equal(text, "  tag          size  where\n"
	                          "  weights  1.00 GiB  /a/long/path/to/model.py\n"
	                          "  显存          5 B\n");
	free(text);
	text = printed(sample(), 35);
	assert_string_equal(text, "  tag          size  where\n"
	                          "  weights  1.00 GiB  …h/to/model.py\n"
	                          "  显存          5 B\n");
	free(text);
	vs_table_cell(NULL, "x");
	vs_table_print(NULL, &ascii, 0);
}

static void test_text(void **state)
{
	struct vs_screen screen = {.width = 20};
	char *text = NULL;
	size_t size;
	(void)state;

	screen.out = open_memstream(&text, &size);
	assert_non_null(screen.out);
	vs_screen_text(&screen, 4, "  %s and then some more of it", "One");
	assert_int_equal(fclose(screen.out), 0);
	assert_string_equal(text, "  One and then some\n    more of it\n");
	free(text);
}

/* Colour only where it can be seen and is wanted; width by COLUMNS. */
static void test_screen_on(void **state)
{
	FILE *file = tmpfile();
	(void)state;

	assert_non_null(file);
	setenv("COLUMNS", "132", 1);
	setenv("LC_ALL", "en_US.UTF-8", 1);
	struct vs_screen screen = vs_screen_on(file);
	assert_int_equal(screen.width, 132);
	assert_true(screen.utf8);
	assert_false(screen.color);
	assert_string_equal(vs_screen_style(&screen, VS_RED), "");
	setenv("COLUMNS", "3", 1);
	setenv("LC_ALL", "C", 1);
	screen = vs_screen_on(file);
	assert_int_equal(screen.width, 40);
	assert_false(screen.utf8);
	unsetenv("COLUMNS");
	assert_int_equal(vs_screen_on(file).width, 100);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_columns),   cmocka_unit_test(test_fit),   cmocka_unit_test(test_fit_any_size),
	    cmocka_unit_test(test_bar),       cmocka_unit_test(test_table), cmocka_unit_test(test_text),
	    cmocka_unit_test(test_screen_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
