/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "shim/python_layout.h"

#define OBJECTS_UNTIL_3_11                                                                                           \
	.object_type = 8, .bytes_size = 16, .bytes_data = 32, .text_length = 16, .text_state = 32, .text_ascii = 48, \
	.text_compact = 72, .text_kind_shift = 2
#define OBJECTS_FROM_3_12                                                                                            \
	.object_type = 8, .bytes_size = 16, .bytes_data = 32, .text_length = 16, .text_state = 32, .text_ascii = 40, \
	.text_compact = 56, .text_kind_shift = 2

/* Measured with offsetof() on the headers of 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0. These structures do
 * not change within a minor release: extension modules are compiled against them. */
static const struct vs_python_layout layouts[] = {
    [8] = {.position = VS_POSITION_BYTES,
           .thread_frame = 24,
           .cframe_frame = -1,
           .frame_code = 32,
           .frame_previous = 24,
           .frame_position = 104,
           .code_file = 104,
           .code_name = 112,
           .code_first_line = 40,
           .code_lines = 120,
           OBJECTS_UNTIL_3_11},
    [9] = {.position = VS_POSITION_BYTES,
           .thread_frame = 24,
           .cframe_frame = -1,
           .frame_code = 32,
           .frame_previous = 24,
           .frame_position = 104,
           .code_file = 104,
           .code_name = 112,
           .code_first_line = 40,
           .code_lines = 120,
           OBJECTS_UNTIL_3_11},
    [10] = {.position = VS_POSITION_UNITS,
            .thread_frame = 24,
            .cframe_frame = -1,
            .frame_code = 32,
            .frame_previous = 24,
            .frame_position = 96,
            .code_file = 104,
            .code_name = 112,
            .code_first_line = 40,
            .code_lines = 120,
            OBJECTS_UNTIL_3_11},
    [11] = {.position = VS_POSITION_POINTER,
            .thread_frame = 56,
            .cframe_frame = 8,
            .frame_code = 32,
            .frame_previous = 48,
            .frame_position = 56,
            .frame_owner = 69,
            .code_file = 112,
            .code_name = 120,
            .code_qualified_name = 128,
            .code_first_line = 72,
            .code_lines = 136,
            .code_bytecode = 184,
            OBJECTS_UNTIL_3_11},
    [12] = {.position = VS_POSITION_POINTER,
            .thread_frame = 56,
            .cframe_frame = 0,
            .frame_code = 0,
            .frame_previous = 8,
            .frame_position = 56,
            .frame_owner = 70,
            .code_file = 112,
            .code_name = 120,
            .code_qualified_name = 128,
            .code_first_line = 68,
            .code_lines = 136,
            .code_bytecode = 192,
            OBJECTS_FROM_3_12},
    [13] = {.position = VS_POSITION_POINTER,
            .thread_frame = 72,
            .cframe_frame = -1,
            .frame_code = 0,
            .frame_previous = 8,
            .frame_position = 56,
            .frame_owner = 70,
            .code_file = 112,
            .code_name = 120,
            .code_qualified_name = 128,
            .code_first_line = 68,
            .code_lines = 136,
            .code_bytecode = 200,
            OBJECTS_FROM_3_12},
};

const struct vs_python_layout *vs_python_layout_of(unsigned int minor)
{
	if (minor >= sizeof(layouts) / sizeof(layouts[0]) || !layouts[minor].code_file)
		return NULL;
	return &layouts[minor];
}

/* _Py_DebugOffsets, which _PyRuntime begins with: 64-bit words after the cookie. The positions are those of
 * Include/internal/pycore_runtime.h (3.13) and pycore_debug_offsets.h (3.14). */
struct declared {
	uint8_t thread_frame;
	uint8_t frame_previous, frame_code, frame_position, frame_owner;
	uint8_t code_file, code_name, code_qualified_name, code_lines, code_first_line, code_bytecode;
	uint8_t object_type;
	uint8_t bytes_size, bytes_data;
	uint8_t text_state, text_length, text_ascii;
	uint8_t kind_shift; /* not a position: `interned` before it had 2 bits, and has 16 since 3.14 */
};

static const struct declared declared_13 = {
    .thread_frame = 23,
    .frame_previous = 29,
    .frame_code = 30,
    .frame_position = 31,
    .frame_owner = 33,
    .code_file = 35,
    .code_name = 36,
    .code_qualified_name = 37,
    .code_lines = 38,
    .code_first_line = 39,
    .code_bytecode = 43,
    .object_type = 45,
    .bytes_size = 65,
    .bytes_data = 66,
    .text_state = 68,
    .text_length = 69,
    .text_ascii = 70,
    .kind_shift = 2,
};

static const struct declared declared_14 = {
    .thread_frame = 26,
    .frame_previous = 32,
    .frame_code = 33,
    .frame_position = 34,
    .frame_owner = 36,
    .code_file = 40,
    .code_name = 41,
    .code_qualified_name = 42,
    .code_lines = 43,
    .code_first_line = 44,
    .code_bytecode = 48,
    .object_type = 51,
    .bytes_size = 75,
    .bytes_data = 76,
    .text_state = 78,
    .text_length = 79,
    .text_ascii = 80,
    .kind_shift = 16,
};

/* No structure the walk reads is larger. */
#define MAX_OFFSET 4096

static int take(const uint64_t *words, uint8_t position, uint16_t *ret_offset)
{
	if (words[position] > MAX_OFFSET)
		return -EBADMSG;
	*ret_offset = (uint16_t)words[position];
	return 0;
}

int vs_python_layout_declared(const void *runtime, size_t size, struct vs_python_layout *ret_layout)
{
	struct vs_python_layout layout = {.position = VS_POSITION_POINTER, .cframe_frame = -1};
	uint64_t words[VS_PYTHON_RUNTIME_SIZE / sizeof(uint64_t)];
	const struct declared *at;
	int r = 0;

	if (size < sizeof(words))
		return -ENOENT;
	memcpy(words, runtime, sizeof(words));
	if (memcmp(words, "xdebugpy", 8))
		return -ENOENT;
	/* PY_VERSION_HEX: 0xMMmmppRS. */
	switch (words[1] >> 16) {
	case 0x030d:
		at = &declared_13;
		break;
	case 0x030e:
		at = &declared_14;
		break;
	default:
		return -EPROTO;
	}
	r |= take(words, at->thread_frame, &layout.thread_frame);
	r |= take(words, at->frame_previous, &layout.frame_previous);
	r |= take(words, at->frame_code, &layout.frame_code);
	r |= take(words, at->frame_position, &layout.frame_position);
	r |= take(words, at->frame_owner, &layout.frame_owner);
	r |= take(words, at->code_file, &layout.code_file);
	r |= take(words, at->code_name, &layout.code_name);
	r |= take(words, at->code_qualified_name, &layout.code_qualified_name);
	r |= take(words, at->code_lines, &layout.code_lines);
	r |= take(words, at->code_first_line, &layout.code_first_line);
	r |= take(words, at->code_bytecode, &layout.code_bytecode);
	r |= take(words, at->object_type, &layout.object_type);
	r |= take(words, at->bytes_size, &layout.bytes_size);
	r |= take(words, at->bytes_data, &layout.bytes_data);
	r |= take(words, at->text_state, &layout.text_state);
	r |= take(words, at->text_length, &layout.text_length);
	r |= take(words, at->text_ascii, &layout.text_ascii);
	if (r)
		return -EBADMSG;
	/* After PyASCIIObject come utf8_length and utf8, 8 bytes each, then the characters. */
	layout.text_compact = layout.text_ascii + 16;
	layout.text_kind_shift = at->kind_shift;
	*ret_layout = layout;
	return 0;
}
