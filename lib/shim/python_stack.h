/* SPDX-License-Identifier: MIT
 *
 * Python stacks of the calling thread, read raw from the interpreter's frames: no API call that needs the GIL (an
 * allocation is reported without it), no reference counts. The thread is suspended in C under our feet, so
 * its own frames hold still and keep their code objects alive.
 */
#ifndef VS_SHIM_PYTHON_STACK_H
#define VS_SHIM_PYTHON_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/idmap.h"

#define VS_MAX_PYTHON 256
/* Line tables beyond this are left out: generated code with tens of thousands of lines in one function. */
#define VS_MAX_LINE_TABLE (32 * 1024)
/* Longer names and paths are cut. */
#define VS_MAX_TEXT 4096

/* Entries of a walk: where C calls Python, newer interpreters have a frame of their own between. */
#define VS_PYTHON_ENTRIES (2 * VS_MAX_PYTHON)
#define VS_PYTHON_PLACES  256 /* a power of 2 */

/* One frame of the interpreter, as it was found. */
struct vs_python_entry {
	const char *frame;
	uint64_t code;     /* the word that refers to its code object */
	uint64_t position; /* the word that says where in it */
	/* Of the code object: file, name and first line (struct vs_python_code_identity). */
	uint64_t file; /* 0: a frame that is none of Python's */
	uint64_t name;
	uint64_t first_line;
};

/* One thread's, zeroed. The thread's last stack is remembered, outermost first, with the hash of each frame and those
 * outside of it. Of the next one only the inner frames are walked, up to a frame that was there before. From there on
 * each frame is compared with what it was. */
struct vs_python {
	uint32_t depth;
	struct vs_python_entry entries[VS_PYTHON_ENTRIES];
	struct vs_chain chains[VS_PYTHON_ENTRIES];
	uint16_t counts[VS_PYTHON_ENTRIES]; /* Python's frames up to this one */

	/* Where in `entries` a frame may be, by its address. Checked against the entry. */
	uint16_t places[VS_PYTHON_PLACES];

	struct vs_python_entry fresh[VS_PYTHON_ENTRIES]; /* innermost first */
};

struct vs_python_stack {
	const struct vs_python_entry *entries; /* until the next walk */
	uint32_t entry_count, count;           /* Python's frames among them */
	bool outermost_first;
	bool truncated;
	struct vs_chain chain;
};

/* Of one of Python's frames, while it is suspended. */
struct vs_python_frame_at {
	const char *code; /* the code object */
	int32_t instruction;
};

/* What identifies a code object for as long as it lives, and a new one at the same address as another. */
struct vs_python_code_identity {
	uint64_t words[4];
};

struct vs_python_code {
	char file[VS_MAX_TEXT], function[VS_MAX_TEXT]; /* UTF-8 */
	size_t file_size, function_size;
	uint32_t first_line;
	const uint8_t *lines; /* the interpreter's bytes; NULL if too long or unreadable */
	size_t lines_size;
};

/* Look for an interpreter, as often as it may have been loaded since. Takes the loader's lock. */
void vs_python_prepare(void);
/* Forget the last stack. */
void vs_python_forget(struct vs_python *python);
/* The stack; count 0 without an interpreter, or with one we cannot read. */
void vs_python_walk(struct vs_python *python, struct vs_python_stack *ret_stack);
/* The frames of a stack, innermost first, VS_MAX_PYTHON at the most. Returns how many. */
uint32_t vs_python_frames(const struct vs_python_stack *stack, struct vs_python_frame_at frames[VS_MAX_PYTHON]);
struct vs_key vs_python_code_key(const char *code);
/* 0 or -EBADMSG: not a code object as we know it. */
int vs_python_code_read(const char *code, struct vs_python_code *ret_code);
/* "3.11.7"; "" without an interpreter. */
const char *vs_python_version(void);

#endif
