/* SPDX-License-Identifier: MIT
 *
 * The pickle reader: every kind of value, every refusal, every cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/pickle.h"

#define BYTES(text) text, sizeof(text) - 1

static struct vs_pickle *good(const char *data, size_t size)
{
	struct vs_pickle_error error = {""};
	struct vs_pickle *p = NULL;

	if (vs_pickle_parse(data, size, &p, &error) < 0)
		fail_msg("%s", error.text);
	return p;
}

static int bad(const char *data, size_t size, char *ret_why)
{
	struct vs_pickle_error error = {""};
	struct vs_pickle *p = NULL;
	int r = vs_pickle_parse(data, size, &p, &error);

	assert_null(p);
	assert_true(r < 0);
	assert_true(error.text[0]);
	if (ret_why)
		strcpy(ret_why, error.text);
	return r;
}

static void integer(const char *data, size_t size, bool fits_signed, int64_t as_signed, bool fits_unsigned,
                    uint64_t as_unsigned)
{
	struct vs_pickle *p = good(data, size);
	uint64_t u = 0;
	int64_t i = 0;

	assert_int_equal(vs_pickle_int(p, vs_pickle_root(p), &i), fits_signed);
	assert_int_equal(vs_pickle_uint(p, vs_pickle_root(p), &u), fits_unsigned);
	assert_true(!fits_signed || i == as_signed);
	assert_true(!fits_unsigned || u == as_unsigned);
	vs_pickle_free(p);
}

static void integers(void **state)
{
	(void)state;
	integer(BYTES("\x80\x02K\xff."), true, 255, true, 255);
	integer(BYTES("\x80\x02M\xff\xff."), true, 65535, true, 65535);
	integer(BYTES("\x80\x02J\xfe\xff\xff\xff."), true, -2, false, 0);
	integer(BYTES("\x80\x02\x8a\x00."), true, 0, true, 0);
	integer(BYTES("\x80\x02\x8a\x01\x80."), true, -128, false, 0);
	integer(BYTES("\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x7f."), true, 0x7f0000000000, true, 0x7f0000000000);
	/* 2^63 - 1, -2^63, 2^63, 2^64 - 1 */
	integer(BYTES("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), true, INT64_MAX, true, INT64_MAX);
	integer(BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), true, INT64_MIN, false, 0);
	integer(BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."), false, 0, true, UINT64_C(1) << 63);
	integer(BYTES("\x80\x02\x8b\x09\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00."), false, 0, true,
	        UINT64_MAX);
	/* 2^64, and what is below -2^63 */
	assert_int_equal(bad(BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), NULL), -EOVERFLOW);
	assert_int_equal(bad(BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff."), NULL), -EOVERFLOW);
	assert_int_equal(bad(BYTES("\x80\x02\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00."), NULL), -EOVERFLOW);
}

static void other_values(void **state)
{
	const vs_pickle_value *items;
	const char *text;
	struct vs_pickle *p;
	vs_pickle_value value;
	double real;
	size_t count;
	int64_t n;

	(void)state;
	p = good(BYTES("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}(\x8c\x01"
	               "aG\x3f\xe8\x00\x00\x00\x00\x00\x00\x8c\x01"
	               "b\x88\x8c\x01"
	               "cN\x8c\x01"
	               "d(K\x01K\x02K\x03t\x8c\x01"
	               "a\x89u."));
	assert_int_equal(vs_pickle_type(vs_pickle_root(p)), VS_PICKLE_DICT);
	/* The last of equal keys counts. */
	assert_true(vs_pickle_get(p, vs_pickle_root(p), "a", &value));
	assert_true(vs_pickle_int(p, value, &n) && n == 0);
	assert_true(vs_pickle_get(p, vs_pickle_root(p), "b", &value));
	assert_int_equal(vs_pickle_type(value), VS_PICKLE_BOOL);
	assert_true(vs_pickle_get(p, vs_pickle_root(p), "c", &value));
	assert_int_equal(vs_pickle_type(value), VS_PICKLE_NONE);
	assert_false(vs_pickle_int(p, value, &n));
	assert_true(vs_pickle_get(p, vs_pickle_root(p), "d", &value));
	assert_true(vs_pickle_items(p, value, &items, &count) && count == 3);
	assert_false(vs_pickle_get(p, vs_pickle_root(p), "e", &value));
	assert_true(vs_pickle_items(p, vs_pickle_root(p), &items, &count) && count == 10);
	assert_true(vs_pickle_float(p, items[1], &real) && real == 0.75);
	assert_true(vs_pickle_string(p, items[0], &text, &count) && count == 1 && *text == 'a');
	vs_pickle_free(p);
}

static void memo(void **state)
{
	const vs_pickle_value *items;
	struct vs_pickle *p;
	size_t count;

	(void)state;
	/* protocol 2 style, and a list that holds itself */
	p = good(BYTES("\x80\x02]q\x00(h\x00h\x00"
	               "e."));
	assert_true(vs_pickle_items(p, vs_pickle_root(p), &items, &count) && count == 2);
	assert_true(items[0] == vs_pickle_root(p) && items[1] == items[0]);
	assert_int_equal(*vs_pickle_visit(p, items[0]), 0);
	*vs_pickle_visit(p, items[0]) = 5;
	assert_int_equal(*vs_pickle_visit(p, vs_pickle_root(p)), 5);
	vs_pickle_free(p);
	/* protocol 4 style */
	p = good(BYTES("\x80\x04]\x94(\x8c\x01x\x94h\x01j\x01\x00\x00\x00"
	               "e."));
	assert_true(vs_pickle_items(p, vs_pickle_root(p), &items, &count) && count == 3);
	assert_true(items[0] == items[1] && items[1] == items[2]);
	vs_pickle_free(p);
	assert_int_equal(bad(BYTES("\x80\x02h\x00."), NULL), -EBADMSG);
	/* An index that would need 32 GiB. */
	assert_int_equal(bad(BYTES("\x80\x02]r\xff\xff\xff\xff."), NULL), -EOVERFLOW);
}

/* All that can run code, or lead outside the file. */
static void refused(void **state)
{
	static const struct {
		const char *data;
		size_t size;
		const char *name;
	} cases[] = {
	    {BYTES("\x80\x02"
	           "cos\nsystem\n."),
	     "GLOBAL"},
	    {BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "STACK_GLOBAL"},
	    {BYTES("\x80\x02])R."), "REDUCE"},
	    {BYTES("\x80\x02]}b."), "BUILD"},
	    {BYTES("\x80\x02(ios\nsystem\n."), "INST"},
	    {BYTES("\x80\x02(]o."), "OBJ"},
	    {BYTES("\x80\x02])\x81."), "NEWOBJ"},
	    {BYTES("\x80\x04])}\x92."), "NEWOBJ_EX"},
	    {BYTES("\x80\x02P1\n."), "PERSID"},
	    {BYTES("\x80\x02]Q."), "BINPERSID"},
	    {BYTES("\x80\x02\x82\x01."), "EXT1"},
	    {BYTES("\x80\x02\x83\x01\x00."), "EXT2"},
	    {BYTES("\x80\x02\x84\x01\x00\x00\x00."), "EXT4"},
	    {BYTES("\x80\x05\x97."), "NEXT_BUFFER"},
	    {BYTES("\x80\x05]\x98."), "READONLY_BUFFER"},
	};
	char why[160], wanted[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(bad(cases[i].data, cases[i].size, why), -EPERM);
		snprintf(wanted, sizeof(wanted), "opcode %s at byte", cases[i].name);
		assert_non_null(strstr(why, wanted));
	}
}

static void nonsense(void **state)
{
	char why[160];

	(void)state;
	assert_int_equal(bad(BYTES(""), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("I1\n."), NULL), -EBADMSG); /* protocol 0 */
	assert_int_equal(bad(BYTES("\x80\x01K\x01."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x06K\x01."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x02."), NULL), -EBADMSG);    /* nothing to return */
	assert_int_equal(bad(BYTES("\x80\x02K\x01"), why), -EBADMSG); /* no STOP */
	assert_non_null(strstr(why, "cut short"));
	assert_int_equal(bad(BYTES("\x80\x02]K\x01s."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x02K\x01K\x02"
	                           "a."),
	                     NULL),
	                 -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x02}(K\x01u."), NULL), -EBADMSG); /* a key without a value */
	assert_int_equal(bad(BYTES("\x80\x02"
	                           "e."),
	                     NULL),
	                 -EBADMSG); /* no mark */
	assert_int_equal(bad(BYTES("\x80\x02]("
	                           "a."),
	                     NULL),
	                 -EBADMSG); /* below the mark */
	assert_int_equal(bad(BYTES("\x80\x02\x85."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x02\xff."), NULL), -EBADMSG);
	/* Lengths beyond the file. */
	assert_int_equal(bad(BYTES("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), NULL), -EBADMSG);
	assert_int_equal(bad(BYTES("\x80\x04X\xff\xff\xff\xff."), NULL), -EBADMSG);
}

static void nesting(void **state)
{
	char deep[3000];

	(void)state;
	memset(deep, '(', sizeof(deep));
	memcpy(deep, "\x80\x02", 2);
	assert_int_equal(bad(deep, sizeof(deep), NULL), -EOVERFLOW);
	/* Without marks depth costs nothing: [[[...]]] by APPEND. */
	memset(deep, ']', 1502);
	memcpy(deep, "\x80\x02", 2);
	memset(deep + 1502, 'a', 1497);
	deep[2999] = '.';
	vs_pickle_free(good(deep, sizeof(deep)));
}

/* Every prefix of a sound pickle is cut short, and said so. */
static void cuts(void **state)
{
	static const char whole[] =
	    "\x80\x04\x95\x40\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94}\x94("
	    "\x8c\x07"
	    "address\x94\x8a\x06\x00\x00\x00\x00\x00\x7fh\x01G?\xf0\x00\x00\x00\x00\x00\x00u"
	    "a\x8c\x01xK\x01K\x02\x86u.";

	(void)state;
	vs_pickle_free(good(whole, sizeof(whole) - 1));
	for (size_t size = 0; size < sizeof(whole) - 1; size++) {
		char *copy = malloc(size ? size : 1); /* its own block, so that reading past it is noticed */

		memcpy(copy, whole, size);
		assert_int_equal(bad(copy, size, NULL), -EBADMSG);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers), cmocka_unit_test(other_values), cmocka_unit_test(memo),
	    cmocka_unit_test(refused),  cmocka_unit_test(nonsense),     cmocka_unit_test(nesting),
	    cmocka_unit_test(cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
