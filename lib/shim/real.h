/* SPDX-License-Identifier: MIT
 *
 * The functions behind our wrappers: CUDA's own, or those of whoever else stands between.
 */
#ifndef VS_SHIM_REAL_H
#define VS_SHIM_REAL_H

enum vs_api {
	VS_API_RUNTIME,
	VS_API_DRIVER,
	VS_API_TORCH, /* libc10.so */
};

/* One number for each row of cuda_entries.def. */
enum vs_entry {
#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after) VS_ENTRY_##export,
#include "cuda_entries.def"
#undef VS_ENTRY
	VS_ENTRY_COUNT
};

struct vs_entry_info {
	const char *export;
	const char *base;
	unsigned int since;
	unsigned char per_thread;
	unsigned char api; /* enum vs_api */
	void *wrapper;
};

extern const struct vs_entry_info vs_entries[VS_ENTRY_COUNT];

/* The next definition of a symbol after ours, or NULL. Never loads a library. Any thread; may take the
 * loader's lock, so keep the answer. errno is kept. */
void *vs_real_symbol(enum vs_api api, const char *name);

/* The function behind a wrapper, looked up once; NULL when no library has it (yet). */
void *vs_real_entry(enum vs_entry entry);

/* A gateway was asked for `base` at `version` and `real` is the library's answer. Returns the wrapper to
 * hand out in its place, or `real` when it is none of ours. `base` may be any string, even "". */
void *vs_real_wrap(const char *base, unsigned int version, int per_thread, void *real);

#endif
