/* SPDX-License-Identifier: MIT
 *
 * Where a CPython interpreter keeps what a stack walk reads.
 */
#ifndef VS_SHIM_PYTHON_LAYOUT_H
#define VS_SHIM_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum vs_python_position {
	VS_POSITION_BYTES,   /* an int: byte offset in co_code */
	VS_POSITION_UNITS,   /* an int: offset in 2-byte code units */
	VS_POSITION_POINTER, /* the address of the instruction */
};

/* Byte offsets in the interpreter's structures. */
struct vs_python_layout {
	enum vs_python_position position;
	uint16_t thread_frame; /* PyThreadState: the current frame, or the _PyCFrame that has it */
	int16_t cframe_frame;  /* in _PyCFrame; -1 where there is none */
	uint16_t frame_code, frame_previous, frame_position;
	uint16_t frame_owner;                                /* a char; 0: none */
	uint16_t code_file, code_name, code_qualified_name;  /* the last 0: none */
	uint16_t code_first_line, code_lines, code_bytecode; /* the last 0: unused */
	uint16_t object_type;
	uint16_t bytes_size, bytes_data;
	uint16_t text_length, text_state;
	uint16_t text_ascii, text_compact; /* where the characters start */
	uint8_t text_kind_shift;           /* position of `kind` in the state word */
};

/* The layout of version 3.`minor`, x86-64 and aarch64 release builds; NULL if unknown. */
const struct vs_python_layout *vs_python_layout_of(unsigned int minor);
/* The layout that an interpreter declares itself (3.13 on): `runtime` is the address of its _PyRuntime, `size` how
 * much may be read there. 0, or -ENOENT without the cookie, -EPROTO for a version not known, -EBADMSG for nonsense.
 */
int vs_python_layout_declared(const void *runtime, size_t size, struct vs_python_layout *ret_layout);

/* How much of _PyRuntime vs_python_layout_declared() reads. */
#define VS_PYTHON_RUNTIME_SIZE (81 * sizeof(uint64_t))

#endif
