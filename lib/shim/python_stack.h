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

struct vs_python_walk {
	unsigned int count;
	bool truncated;
	struct {
		const char *code; /* the code object */
		int32_t instruction;
	} frames[VS_MAX_PYTHON]; /* innermost first */
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
/* Fill in `walk` and take its frames into `hash`. No interpreter, or none we can read: count 0. `walk->frames` beyond
 * `count` is left as it was: zeroing it would cost more than the walk. */
void vs_python_walk(struct vs_python_walk *walk, struct vs_hash *hash);
struct vs_key vs_python_code_key(const char *code);
/* 0 or -EBADMSG: not a code object as we know it. */
int vs_python_code_read(const char *code, struct vs_python_code *ret_code);
/* "3.11.7"; "" without an interpreter. */
const char *vs_python_version(void);

#endif
