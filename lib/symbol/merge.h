/* SPDX-License-Identifier: MIT
 *
 * Where Python frames go in a native stack.
 */
#ifndef VS_SYMBOL_MERGE_H
#define VS_SYMBOL_MERGE_H

#include "symbol/symbol.h"

/* What a native frame is to a reader. */
enum vs_native_role {
	VS_NATIVE_PLAIN,
	VS_NATIVE_INTERPRETER, /* Python's own machinery */
	VS_NATIVE_EVALUATION,  /* ... the part that runs Python frames */
	VS_NATIVE_RECORDER,    /* this program's own frames */
};

enum vs_native_role vs_native_role(const char *function, const char *module);

/* Merge into `out`, which has room for native_count + python_count frames; returns how many were used. Inner native
 * frames, then all Python frames, then what runs below the interpreter (a thread's base). One evaluation frame serves
 * a run of Python frames since 3.11 and nothing records where a run ends, so native frames between two runs cannot be
 * placed truthfully: they are left out. Up to 3.10 it is one for one, and they stay where they are. */
size_t vs_merge(const struct vs_frame *const *native, const enum vs_native_role *roles, size_t native_count,
                const struct vs_frame *const *python, size_t python_count, struct vs_frame *out);

#endif
