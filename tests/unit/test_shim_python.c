/* SPDX-License-Identifier: MIT
 *
 * The parts of the Python walk that need no interpreter: text, and the layouts that interpreters declare. What real
 * interpreters have is tested in tests/shim/test_python_stacks.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "shim/python_layout.h"
#include "shim/python_text.h"

static void test_text_of_all_kinds(void **state)
{
	static const uint8_t latin[] = {'g', 'r', 0xf6, 0xdf, 'e'};
	static const uint16_t bmp[] = {0x5185, 0x5b58, 'x', 0xd800};
	static const uint32_t wide[] = {0x1f9e0, 'y', 0x10ffff, 0x110000};
	char buffer[64];
	size_t size;

	(void)state;
	size = vs_python_text("plain", 5, 1, buffer, sizeof(buffer));
	assert_int_equal(size, 5);
	assert_memory_equal(buffer, "plain", 5);
	size = vs_python_text(latin, 5, 1, buffer, sizeof(buffer));
	assert_int_equal(size, 7);
	assert_memory_equal(buffer,
	                    "gr\xc3\xb6\xc3\x9f"
	                    "e",
	                    7);
	size = vs_python_text(bmp, 4, 2, buffer, sizeof(buffer));
	assert_int_equal(size, 8);
	assert_memory_equal(buffer, "\xe5\x86\x85\xe5\xad\x98x?", 8);
	size = vs_python_text(wide, 4, 4, buffer, sizeof(buffer));
	assert_int_equal(size, 10);
	assert_memory_equal(buffer, "\xf0\x9f\xa7\xa0y\xf4\x8f\xbf\xbf?", 10);
}

static void test_text_is_cut_between_characters(void **state)
{
	static const uint8_t latin[] = {0xf6, 0xf6, 0xf6};
	char buffer[8];

	(void)state;
	for (size_t size = 0; size <= 8; size++) {
		memset(buffer, 'z', sizeof(buffer));
		assert_int_equal(vs_python_text(latin, 3, 1, buffer, size), size >= 6 ? 6 : size / 2 * 2);
		for (size_t i = size; i < sizeof(buffer); i++)
			assert_int_equal(buffer[i], 'z');
	}
}

static void test_known_versions(void **state)
{
	(void)state;
	for (unsigned int minor = 8; minor <= 13; minor++)
		assert_non_null(vs_python_layout_of(minor));
	assert_null(vs_python_layout_of(7));
	assert_null(vs_python_layout_of(14));
	assert_null(vs_python_layout_of(4000000000));
}

/* _Py_DebugOffsets as 3.14 lays it out, member by member, with a release build's offsets. */
struct debug_offsets_3_14 {
	char cookie[8];
	uint64_t version, free_threaded;
	uint64_t runtime_state[3], interpreter_state[16];
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk,
		    status;
	} thread_state;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
	} interpreter_frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
		    localspluskinds, co_code_adaptive, co_tlbc;
	} code_object;
	struct {
		uint64_t size, ob_type;
	} pyobject;
	uint64_t type_object[4], tuple_object[3], list_object[3], set_object[4], dict_object[3], float_object[2],
	    long_object[3];
	struct {
		uint64_t size, ob_size, ob_sval;
	} bytes_object;
	struct {
		uint64_t size, state, length, asciiobject_size;
	} unicode_object;
};

static struct debug_offsets_3_14 declared(void)
{
	struct debug_offsets_3_14 offsets;

	memset(&offsets, 0xff, sizeof(offsets)); /* what is not read is no offset at all */
	memcpy(offsets.cookie, "xdebugpy", 8);
	offsets.version = 0x030e01f0;
	offsets.free_threaded = 0;
	offsets.thread_state.current_frame = 72;
	offsets.interpreter_frame.previous = 8;
	offsets.interpreter_frame.executable = 0;
	offsets.interpreter_frame.instr_ptr = 56;
	offsets.interpreter_frame.owner = 74;
	offsets.code_object.filename = 112;
	offsets.code_object.name = 120;
	offsets.code_object.qualname = 128;
	offsets.code_object.linetable = 136;
	offsets.code_object.firstlineno = 68;
	offsets.code_object.co_code_adaptive = 208;
	offsets.pyobject.ob_type = 8;
	offsets.bytes_object.ob_size = 16;
	offsets.bytes_object.ob_sval = 32;
	offsets.unicode_object.state = 32;
	offsets.unicode_object.length = 16;
	offsets.unicode_object.asciiobject_size = 40;
	return offsets;
}

static void test_declared_layout(void **state)
{
	struct debug_offsets_3_14 offsets = declared();
	struct vs_python_layout layout;

	(void)state;
	assert_int_equal(sizeof(offsets), VS_PYTHON_RUNTIME_SIZE);
	assert_int_equal(vs_python_layout_declared(&offsets, sizeof(offsets), &layout), 0);
	assert_int_equal(layout.position, VS_POSITION_POINTER);
	assert_int_equal(layout.cframe_frame, -1);
	assert_int_equal(layout.thread_frame, 72);
	assert_int_equal(layout.frame_previous, 8);
	assert_int_equal(layout.frame_code, 0);
	assert_int_equal(layout.frame_position, 56);
	assert_int_equal(layout.frame_owner, 74);
	assert_int_equal(layout.code_file, 112);
	assert_int_equal(layout.code_name, 120);
	assert_int_equal(layout.code_qualified_name, 128);
	assert_int_equal(layout.code_lines, 136);
	assert_int_equal(layout.code_first_line, 68);
	assert_int_equal(layout.code_bytecode, 208);
	assert_int_equal(layout.object_type, 8);
	assert_int_equal(layout.bytes_size, 16);
	assert_int_equal(layout.bytes_data, 32);
	assert_int_equal(layout.text_length, 16);
	assert_int_equal(layout.text_state, 32);
	assert_int_equal(layout.text_ascii, 40);
	assert_int_equal(layout.text_compact, 56);
	assert_int_equal(layout.text_kind_shift, 16);
}

static void test_declared_nonsense(void **state)
{
	struct debug_offsets_3_14 offsets = declared();
	struct vs_python_layout layout = {.code_file = 1234};

	(void)state;
	assert_int_equal(vs_python_layout_declared(&offsets, sizeof(offsets) - 1, &layout), -ENOENT);
	offsets.code_object.filename = 1 << 20;
	assert_int_equal(vs_python_layout_declared(&offsets, sizeof(offsets), &layout), -EBADMSG);
	offsets = declared();
	offsets.version = 0x031000f0;
	assert_int_equal(vs_python_layout_declared(&offsets, sizeof(offsets), &layout), -EPROTO);
	offsets = declared();
	offsets.cookie[3] = 'x';
	assert_int_equal(vs_python_layout_declared(&offsets, sizeof(offsets), &layout), -ENOENT);
	assert_int_equal(layout.code_file, 1234);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text_of_all_kinds), cmocka_unit_test(test_text_is_cut_between_characters),
	    cmocka_unit_test(test_known_versions),    cmocka_unit_test(test_declared_layout),
	    cmocka_unit_test(test_declared_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
