/* SPDX-License-Identifier: MIT
 *
 * Names for the addresses and code objects of a trace.
 *
 * One vs_symbols serves one trace and caches per module, address, Python frame
 * and stack, so the tables grow with what is distinct, not with events. It
 * belongs to one thread at a time, must not outlive its trace, and owns all
 * strings and frames that it hands out. Module files are read where they are
 * on this machine; one that is missing or has another build id costs only the
 * names: "libfoo.so+0x1234" stands for them.
 */
#ifndef VS_SYMBOL_SYMBOL_H
#define VS_SYMBOL_SYMBOL_H

#include <stddef.h>
#include <stdint.h>
#include <vramshim/trace.h>

enum vs_frame_kind {
	VS_FRAME_NATIVE,
	VS_FRAME_PYTHON,
};

struct vs_frame {
	enum vs_frame_kind kind;
	const char *function; /* readable, never NULL: "at::native::mm", "Linear.forward", "libc.so.6+0x2720b" */
	const char *file;     /* Python: the source file; native: "". Never NULL */
	const char *module;   /* native: path of the mapped file, "" if unknown; Python: "". Never NULL */
	uint32_t line;        /* Python: 1-based, 0 unknown; native: 0 */
	uint64_t address;     /* native: the return address; Python: 0 */
};

struct vs_symbols;

/* -ENOMEM. */
int vs_symbols_new(const struct vramshim_trace *trace, struct vs_symbols **ret_symbols);
/* Accepts NULL. */
void vs_symbols_free(struct vs_symbols *symbols);

/* A whole stack, native and Python merged, innermost first: Python frames stand where the interpreter's own
 * frames were. -ENOENT: no such stack (id 0 included). -ENOMEM. */
int vs_symbol_stack(struct vs_symbols *symbols, uint32_t stack, const struct vs_frame **ret_frames,
                    size_t *ret_count);

/* One native frame by its return address. Never NULL but when memory is out. */
const struct vs_frame *vs_symbol_native(struct vs_symbols *symbols, uint64_t return_address);
/* One Python frame by its id. NULL: no such frame, or memory is out. */
const struct vs_frame *vs_symbol_python(struct vs_symbols *symbols, uint32_t frame);

#endif
