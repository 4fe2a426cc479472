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

/* One frame of the interpreter, as it was found: two to a cache line. */
struct vs_python_entry {
	const char *frame;
	uint64_t code;     /* the word that refers to its code object */
	uint64_t position; /* the word that says where in it */
	uint64_t
	    identity; /* of the code object: its file and first line, hashed; 0: a frame that is none of Python's */
};

/* Of a frame and those outside of it. */
struct vs_python_total {
	struct vs_chain chain;
	uint32_t count; /* Python's frames */
};

/* One thread's, zeroed. The thread's last stack is remembered, outermost first. Of the next one only the inner frames
 * are walked, up to a frame that was there before. From there on each frame is compared with what it was. */
struct vs_python {
	uint32_t depth;
	struct vs_python_entry entries[VS_PYTHON_ENTRIES];
	struct vs_python_total totals[VS_PYTHON_ENTRIES];

	/* Where in `entries` a frame may be, by its address. Checked against the entry. */
	uint16_t places[VS_PYTHON_PLACES];

	struct vs_python_fresh {
		struct vs_python_entry entry;
		uint64_t words[2];  /* what its hash takes in */
	} fresh[VS_PYTHON_ENTRIES]; /* innermost first */
};

struct vs_python_stack {
	/* Until the next walk. Each lies `step` bytes behind the one that is further in. */
	const char *innermost;
	ptrdiff_t step;
	uint32_t entry_count, count; /* Python's frames among them */
	bool truncated;
	struct vs_chain chain;
	/* The word by which the thread's state finds the innermost frame, where that is a variable of the evaluator
	 * (3.11 and 3.12): it lies in the evaluator's frame on the thread's stack. Else NULL. */
	const uint64_t *top;
};

/* Counted from the innermost. */
static inline const struct vs_python_entry *vs_python_entry_at(const struct vs_python_stack *stack, uint32_t i)
{
	return (const void *)(stack->innermost + (ptrdiff_t)i * stack->step);
}

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
/* Whether there is an interpreter whose frames can be read, for all that is known. Any thread. */
bool vs_python_known(void);
/* Forget the last stack. */
void vs_python_forget(struct vs_python *python);
/* The stack; count 0 without an interpreter, or with one we cannot read. */
void vs_python_walk(struct vs_python *python, struct vs_python_stack *ret_stack);
/* Whether the calling thread's stack is still this one, outermost first. `top` as above, or NULL: the thread's state
 * is asked. `same_epoch`: its code objects were seen in this epoch (python_codes.h). */
bool vs_python_is(const struct vs_python_entry *entries, uint32_t count, const uint64_t *top, bool same_epoch);

/* The frames of a stack, innermost first, VS_MAX_PYTHON at the most. Returns how many. */
uint32_t vs_python_frames(const struct vs_python_stack *stack, struct vs_python_frame_at frames[VS_MAX_PYTHON]);
struct vs_key vs_python_code_key(const char *code);
/* 0 or -EBADMSG: not a code object as we know it. */
int vs_python_code_read(const char *code, struct vs_python_code *ret_code);
/* "3.11.7"; "" without an interpreter. */
const char *vs_python_version(void);

#endif
