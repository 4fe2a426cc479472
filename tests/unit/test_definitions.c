/* SPDX-License-Identifier: MIT
 *
 * The tables of a trace: what is defined is found, in every size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_helper.h"

static char *folder, *path;
static struct vs_writer *writer;

static int setup(void **state)
{
	(void)state;
	folder = scratch_make();
	path = scratch_path(folder, "a.vst");
	return vs_writer_open(path, 0, &writer);
}

static int teardown(void **state)
{
	(void)state;
	scratch_remove(folder);
	free(path);
	return 0;
}

static struct vramshim_trace *open_trace(void)
{
	struct vramshim_trace *trace;

	assert_int_equal(vramshim_trace_open(path, &trace), 0);
	assert_int_equal(vramshim_trace_info(trace)->damaged, 0);
	return trace;
}

static void test_strings(void **state)
{
	enum { MANY = 20000, LONG = 200000 };
	char *longest = malloc(LONG + 1), text[32];
	struct vramshim_trace *trace;

	(void)state;
	memset(longest, 'x', LONG);
	longest[LONG] = 0;
	for (uint32_t i = 1; i <= MANY; i++) {
		int size = snprintf(text, sizeof(text), "string %u", i);

		assert_int_equal(vs_writer_string(writer, text, (size_t)size), i);
	}
	assert_int_equal(vs_writer_string(writer, longest, LONG), MANY + 1); /* over several chunks */
	assert_int_equal(vs_writer_string(writer, "", 0), MANY + 2);

	trace = open_trace();
	for (uint32_t i = 1; i <= MANY; i++) {
		snprintf(text, sizeof(text), "string %u", i);
		assert_string_equal(vramshim_trace_string(trace, i), text);
	}
	assert_string_equal(vramshim_trace_string(trace, MANY + 1), longest);
	assert_string_equal(vramshim_trace_string(trace, MANY + 2), "");
	assert_null(vramshim_trace_string(trace, MANY + 3));
	assert_null(vramshim_trace_string(trace, 0));
	vramshim_trace_close(trace);
	free(longest);
}

static void test_too_long_is_cut(void **state)
{
	enum { LIMIT = 1 << 20, TOO_LONG = LIMIT + 5 };
	char *text = malloc(TOO_LONG);
	struct vramshim_trace *trace;

	(void)state;
	memset(text, 'y', TOO_LONG);
	assert_int_equal(vs_writer_string(writer, text, TOO_LONG), 1);
	assert_int_equal(vs_writer_code(writer, 1, 1, 1, (const uint8_t *)text, TOO_LONG), 1);
	trace = open_trace();
	assert_int_equal(strlen(vramshim_trace_string(trace, 1)), LIMIT);
	assert_null(vramshim_trace_code(trace, 1)->line_table);
	assert_int_equal(vramshim_trace_code(trace, 1)->first_line, 1);
	vramshim_trace_close(trace);
	free(text);
}

static void test_code(void **state)
{
	const uint8_t lines[] = {0x80, 0, 1, 0xff, 0};
	struct vramshim_python_frame frame;
	const struct vramshim_code *code;
	struct vramshim_trace *trace;
	uint32_t file, function, first, second;

	(void)state;
	file = vs_writer_string(writer, "/a/train.py", 11);
	function = vs_writer_string(writer, "Model.forward", 13);
	first = vs_writer_code(writer, file, function, UINT32_MAX, lines, sizeof(lines));
	second = vs_writer_code(writer, 999, 0, 7, NULL, 0); /* unknown strings */
	assert_int_equal(vs_writer_python_frame(writer, first, INT32_MAX), 1);
	assert_int_equal(vs_writer_python_frame(writer, second, -1), 2);
	assert_int_equal(vs_writer_python_frame(writer, 999, INT32_MIN), 3);

	trace = open_trace();
	code = vramshim_trace_code(trace, first);
	assert_string_equal(code->file, "/a/train.py");
	assert_string_equal(code->function, "Model.forward");
	assert_int_equal(code->first_line, UINT32_MAX);
	assert_int_equal(code->line_table_size, sizeof(lines));
	assert_memory_equal(code->line_table, lines, sizeof(lines));
	code = vramshim_trace_code(trace, second);
	assert_string_equal(code->file, "");
	assert_string_equal(code->function, "");
	assert_null(code->line_table);
	assert_null(vramshim_trace_code(trace, 3));
	assert_true(vramshim_trace_python_frame(trace, 1, &frame));
	assert_int_equal(frame.code, first);
	assert_int_equal(frame.instruction, INT32_MAX);
	assert_true(vramshim_trace_python_frame(trace, 2, &frame));
	assert_int_equal(frame.instruction, -1);
	assert_true(vramshim_trace_python_frame(trace, 3, &frame));
	assert_int_equal(frame.code, 0);
	assert_int_equal(frame.instruction, INT32_MIN);
	assert_false(vramshim_trace_python_frame(trace, 4, &frame));
	assert_false(vramshim_trace_python_frame(trace, 0, &frame));
	vramshim_trace_close(trace);
}

/* Stacks that share their outer ends with the one before, or nothing, or all. */
static struct vramshim_stack make_stack(uint64_t *seed, uint64_t *native, uint32_t *python)
{
	static uint64_t outer_native[300];
	static uint32_t outer_python[300];
	struct vramshim_stack stack = {native, python, (uint32_t)random_below(seed, 257),
	                               (uint32_t)random_below(seed, 257), random_below(seed, 2)};

	for (unsigned i = 0; i < 300 && !outer_native[i]; i++) {
		outer_native[i] = UINT64_C(0x7f1234000000) + i * 4242;
		outer_python[i] = 1 + i;
	}
	for (uint32_t i = 0; i < stack.native_count; i++)
		native[i] = random_below(seed, 10) || i > 40 ? outer_native[300 - stack.native_count + i]
		                                             : random_below(seed, UINT64_MAX);
	for (uint32_t i = 0; i < stack.python_count; i++)
		python[i] = random_below(seed, 10) || i > 40 ? outer_python[300 - stack.python_count + i]
		                                             : 1 + (uint32_t)random_below(seed, 300);
	return stack;
}

static void test_stacks(void **state)
{
	enum { STACKS = 3000 };
	uint64_t native[256], seed = 5;
	uint32_t python[256];
	struct vramshim_trace *trace;

	(void)state;
	vs_writer_code(writer, 0, 0, 0, NULL, 0);
	for (int i = 0; i < 300; i++)
		vs_writer_python_frame(writer, 1, 2 * i);
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct vramshim_stack stack = make_stack(&seed, native, python);

		assert_int_equal(vs_writer_stack(writer, &stack), i);
	}
	trace = open_trace();
	assert_int_equal(vramshim_trace_stack_count(trace), STACKS);
	seed = 5;
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct vramshim_stack wanted = make_stack(&seed, native, python);
		const struct vramshim_stack *stack = vramshim_trace_stack(trace, i);

		assert_int_equal(stack->native_count, wanted.native_count);
		assert_int_equal(stack->python_count, wanted.python_count);
		assert_int_equal(stack->truncated, wanted.truncated);
		if (wanted.native_count)
			assert_memory_equal(stack->native, native, wanted.native_count * sizeof(*native));
		if (wanted.python_count)
			assert_memory_equal(stack->python, python, wanted.python_count * sizeof(*python));
	}
	assert_null(vramshim_trace_stack(trace, 0));
	assert_null(vramshim_trace_stack(trace, STACKS + 1));
	vramshim_trace_close(trace);
}

static void test_deep_stack_is_cut(void **state)
{
	uint64_t native[400];
	struct vramshim_stack stack = {native, NULL, 400, 0, false};
	struct vramshim_trace *trace;

	(void)state;
	for (unsigned i = 0; i < 400; i++)
		native[i] = i * 16;
	vs_writer_stack(writer, &stack);
	trace = open_trace();
	assert_int_equal(vramshim_trace_stack(trace, 1)->native_count, 256);
	assert_true(vramshim_trace_stack(trace, 1)->truncated);
	assert_memory_equal(vramshim_trace_stack(trace, 1)->native, native, 256 * sizeof(*native));
	vramshim_trace_close(trace);
}

static void test_modules(void **state)
{
	const struct vramshim_module modules[] = {
	    {0x7000, 0x7000, 0x9000, "/lib/b.so", "ff00"},
	    {0x1000, 0x1000, 0x2000, "/lib/a.so", ""},
	    {0x7000, 0x7000, 0x8000, "/lib/c.so", "01"}, /* took the place of b */
	    {0, UINT64_MAX - 1, UINT64_MAX, NULL, NULL},
	};
	struct vramshim_trace *trace;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		vs_writer_module(writer, &modules[i]);
	trace = open_trace();
	assert_null(vramshim_trace_module(trace, 0xfff));
	assert_string_equal(vramshim_trace_module(trace, 0x1000)->path, "/lib/a.so");
	assert_string_equal(vramshim_trace_module(trace, 0x1fff)->path, "/lib/a.so");
	assert_null(vramshim_trace_module(trace, 0x2000));
	assert_string_equal(vramshim_trace_module(trace, 0x7000)->path, "/lib/c.so");
	assert_string_equal(vramshim_trace_module(trace, 0x8000)->path, "/lib/b.so");
	assert_string_equal(vramshim_trace_module(trace, 0x8000)->build_id, "ff00");
	assert_int_equal(vramshim_trace_module(trace, 0x8000)->base, 0x7000);
	assert_string_equal(vramshim_trace_module(trace, UINT64_MAX - 1)->path, "");
	assert_null(vramshim_trace_module(trace, UINT64_MAX));
	vramshim_trace_close(trace);
}

static void test_facts(void **state)
{
	const struct vramshim_fact *facts;
	struct vramshim_trace *trace;
	char *value = malloc(300001);
	size_t count;

	(void)state;
	memset(value, 'v', 300000);
	value[300000] = 0;
	vs_writer_fact(writer, "rank", "0");
	vs_writer_fact(writer, "command:2", value);
	vs_writer_fact(writer, "rank", "3");
	vs_writer_fact(writer, "empty", "");
	trace = open_trace();
	facts = vramshim_trace_facts(trace, &count);
	assert_int_equal(count, 4);
	assert_string_equal(facts[0].key, "rank");
	assert_string_equal(facts[0].value, "0");
	assert_string_equal(vramshim_trace_fact(trace, "rank"), "3");
	assert_string_equal(vramshim_trace_fact(trace, "command:2"), value);
	assert_string_equal(vramshim_trace_fact(trace, "empty"), "");
	assert_null(vramshim_trace_fact(trace, "none"));
	vramshim_trace_close(trace);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_too_long_is_cut, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_code, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_stacks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_deep_stack_is_cut, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_modules, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_facts, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
