/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "shim/unwind_rule.h"

/* A CIE as gcc writes it ("zR", code 1, data -8, rsp + 8, return address at cfa - 8), then an FDE at 24 whose
 * pointers are absolute: 0x1000, 0x100 bytes. */
static const uint8_t common[] = {0x14, 0,    0,    0,    0, 0,    0,    0,    1,    'z', 'R', 0,
                                 1,    0x78, 0x10, 0x01, 0, 0x0c, 0x07, 0x08, 0x90, 1,   0,   0};

enum { ENTRY = sizeof(common), BEGIN = 0x1000, SIZE = 0x100 };

static struct vs_unwind_rule rule_at(const uint8_t *instructions, size_t count, uint64_t target)
{
	_Alignas(8) uint8_t table[256] = {0};
	uint32_t length = (uint32_t)(4 + 8 + 8 + 1 + count), back = ENTRY + 4;
	uint64_t begin = BEGIN, size = SIZE;

	memcpy(table, common, sizeof(common));
	memcpy(table + ENTRY, &length, 4);
	memcpy(table + ENTRY + 4, &back, 4);
	memcpy(table + ENTRY + 8, &begin, 8);
	memcpy(table + ENTRY + 16, &size, 8);
	memcpy(table + ENTRY + 25, instructions, count);
	return vs_unwind_read(table + ENTRY, table, table + sizeof(table), target);
}

/* push %rbp; mov %rsp, %rbp; ...; leave */
static const uint8_t framed[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x50, 0x0c, 7, 8};

static void test_rules_of_a_function(void **state)
{
	static const struct {
		unsigned int at;
		bool from_rbp, saved;
		int32_t cfa;
	} rows[] = {{0, false, false, 8},
	            {1, false, true, 16},
	            {3, false, true, 16},
	            {4, true, true, 16},
	            {0x14, false, true, 8}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vs_unwind_rule rule = rule_at(framed, sizeof(framed), BEGIN + rows[i].at);

		assert_int_equal(rule.kind, VS_UNWIND_PLAIN);
		assert_int_equal(rule.cfa_from_rbp, rows[i].from_rbp);
		assert_int_equal(rule.cfa_offset, rows[i].cfa);
		assert_int_equal(rule.rbp_saved, rows[i].saved);
		assert_int_equal(rule.rbp_offset, rows[i].saved ? -16 : 0);
	}
}

static void test_what_has_no_rule(void **state)
{
	static const struct {
		uint8_t instructions[8], count, kind;
	} rows[] = {
	    {{0x0c, 3, 16}, 3, VS_UNWIND_FOREIGN},                        /* the frame's end by rbx */
	    {{0x0f, 2, 0x77, 8}, 4, VS_UNWIND_FOREIGN},                   /* by an expression */
	    {{0x10, 6, 2, 0x76, 0}, 5, VS_UNWIND_FOREIGN},                /* rbp by one */
	    {{0x09, 6, 3}, 3, VS_UNWIND_FOREIGN},                         /* rbp in another register */
	    {{0x90, 2}, 2, VS_UNWIND_FOREIGN},                            /* the return address elsewhere */
	    {{0x07, 16}, 2, VS_UNWIND_END},                               /* no caller */
	    {{0x0b}, 1, VS_UNWIND_FOREIGN},                               /* a state that was never remembered */
	    {{0x3f}, 1, VS_UNWIND_FOREIGN},                               /* no instruction */
	    {{0x0e, 0xff, 0xff, 0xff, 0xff, 0xff}, 6, VS_UNWIND_FOREIGN}, /* a number without end */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(rule_at(rows[i].instructions, rows[i].count, BEGIN).kind, rows[i].kind);
	assert_int_equal(rule_at(framed, sizeof(framed), BEGIN - 1).kind, VS_UNWIND_FOREIGN);
	assert_int_equal(rule_at(framed, sizeof(framed), BEGIN + SIZE).kind, VS_UNWIND_FOREIGN);
}

/* Any bytes: some answer, and nothing outside of the table is read (the sanitizers see to that). */
static void test_any_bytes(void **state)
{
	uint64_t random = 88172645463325252;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		uint8_t table[96];
		uint32_t length = sizeof(table) - ENTRY - 4, back = ENTRY + 4;

		for (size_t i = 0; i < sizeof(table); i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			table[i] = (uint8_t)(random >> 32);
		}
		/* More and more of it is as it should be. */
		if (round % 4 > 0)
			memcpy(table, common, sizeof(common));
		if (round % 4 > 1) {
			memcpy(table + ENTRY, &length, 4);
			memcpy(table + ENTRY + 4, &back, 4);
		}
		if (round % 4 > 2) {
			uint64_t begin = BEGIN, size = SIZE;

			memcpy(table + ENTRY + 8, &begin, 8);
			memcpy(table + ENTRY + 16, &size, 8);
			table[ENTRY + 24] = 0;
		}
		assert_in_range(vs_unwind_read(table + ENTRY, table, table + sizeof(table), BEGIN + 0x80).kind,
		                VS_UNWIND_FOREIGN, VS_UNWIND_PLAIN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rules_of_a_function),
	    cmocka_unit_test(test_what_has_no_rule),
	    cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
