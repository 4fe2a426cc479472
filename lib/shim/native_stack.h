/* SPDX-License-Identifier: MIT
 *
 * Native stacks of the calling thread.
 *
 * A thread's last stack is remembered. Of the next one only the inner frames are walked, by rules (unwind_rule.h), up
 * to a frame that was there before in the same state, if everything that led outwards from there is as it was: the
 * return addresses, and the saved rbp where one matters. A walk is determined by these, so the rest is the same.
 * What the rules do not cover is walked by libunwind, the whole stack.
 */
#ifndef VS_SHIM_NATIVE_STACK_H
#define VS_SHIM_NATIVE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/idmap.h"

/* Deep enough for Python 3.8-3.10, where 40 Python frames are about 98 native ones. */
#define VS_MAX_NATIVE 256
/* Beside them this library's own frames, and the end of the stack. */
#define VS_NATIVE_ENTRIES (VS_MAX_NATIVE + 16)

/* One thread's; zeroed, then vs_native_begin(). */
struct vs_native {
	uint64_t low, high; /* the thread's own stack, where its memory may be read; empty: not known */

	/* The last stack, outermost first. sps and bps are rsp and rbp in that frame, at the call. */
	uint32_t depth;
	uint32_t root; /* entries before the outermost frame: 1 where what ended the walk is kept */
	uint64_t pcs[VS_NATIVE_ENTRIES], sps[VS_NATIVE_ENTRIES], bps[VS_NATIVE_ENTRIES];
	struct vs_chain chains[VS_NATIVE_ENTRIES]; /* of this frame and those outside of it */
	bool rbp_matters[VS_NATIVE_ENTRIES];       /* the walk outwards depends on it */

	/* Saved rbps that the walk depends on, by the frame that saved them, outermost first. */
	uint32_t saved_count;
	struct {
		uint64_t slot, value;
		uint32_t by;
	} saved[VS_NATIVE_ENTRIES];

	/* The frames of this walk, innermost first. */
	struct vs_native_fresh {
		uint64_t pc, sp, bp;
		bool cfa_from_rbp, rbp_saved;
		int16_t rbp_offset;
	} fresh[VS_NATIVE_ENTRIES];
};

struct vs_native_stack {
	const uint64_t *frames; /* return addresses, outermost first, the hook's caller last; until the next walk */
	uint32_t count;
	bool truncated; /* frames further out are missing */
	struct vs_chain chain;
};

/* Find libunwind and the unwind tables, once a process; at a later call where another thread is loading a library at
 * this moment. May load one itself: hold no lock, in a section. */
void vs_native_prepare(void);
/* Whether that is still to be done. */
bool vs_native_unprepared(void);
/* NULL, or why there are no native stacks and never will be. */
const char *vs_native_missing(void);
/* The calling thread will use `native`. May allocate. */
void vs_native_begin(struct vs_native *native);
/* Forget the last stack. */
void vs_native_forget(struct vs_native *native);
/* The stack of the function whose frame record (saved rbp, return address: __builtin_frame_address(0)) is at
 * `record`; count 0 without libunwind. Never allocates on the fast path; may take the loader's lock for code it sees
 * first: hold no lock. */
void vs_native_walk(struct vs_native *native, const uint64_t *record, struct vs_native_stack *ret_stack);

#endif
