/* SPDX-License-Identifier: MIT
 *
 * The functions behind our wrappers: CUDA's own, or those of whoever else stands between.
 *
 * A process may hold several of one name: libcudart.so.12 and libcudart.so.13 side by side, or a driver of two
 * libraries. Each has a wrapper of its own, an *instance* of the entry, so that a call goes on to where it would have
 * gone without us.
 */
#ifndef VS_SHIM_REAL_H
#define VS_SHIM_REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Instances of an entry. The first is the exported one; the runtime's callers ask for a version, and get the instance
 * of that one; the last two are for whatever else turns up. */
enum {
	VS_INSTANCE_DEFAULT,
	VS_INSTANCE_11, /* libcudart.so.11.0: all runtimes of CUDA 11 */
	VS_INSTANCE_12,
	VS_INSTANCE_13,
	VS_INSTANCE_SPARE,
	VS_INSTANCES = VS_INSTANCE_SPARE + 2
};

struct vs_entry_info {
	const char *export;
	const char *base;
	unsigned int since;
	unsigned char per_thread;
	unsigned char api;            /* enum vs_api */
	void *wrappers[VS_INSTANCES]; /* NULL: no such instance */
};

extern const struct vs_entry_info vs_entries[VS_ENTRY_COUNT] __attribute__((visibility("hidden")));
extern _Atomic(void *) vs_real_slots[VS_ENTRY_COUNT][VS_INSTANCES] __attribute__((visibility("hidden")));

/* The next definition of a symbol after ours, or NULL. Never loads a library. Any thread; errno is kept. It takes the
 * loader's lock, so keep the answer. False in *ret_settled, which may be NULL: another thread has that lock
 * (libraries.h), and the answer is what CUDA's or PyTorch's own library has; ask again. */
void *vs_real_symbol(enum vs_api api, const char *name, bool *ret_settled);

/* What the library that holds `caller` has of a name, or of what it needs another one. `version` may be NULL. NULL
 * where there is none but ours. errno is kept. */
void *vs_real_needed_by(const void *caller, const char *name, const char *version);

/* The function behind an instance, looked up at its first call; NULL when no library has it (yet). Of the runtime's
 * default instance that is one that is loaded for all. */
void *vs_real_look_up(enum vs_entry entry, unsigned int instance);

static inline void *vs_real(enum vs_entry entry, unsigned int instance)
{
	/* Acquire/release: the pointer is all there is to see, but whoever stored it may have loaded the code. */
	void *real = atomic_load_explicit(&vs_real_slots[entry][instance], memory_order_acquire);

	return real ? real : vs_real_look_up(entry, instance);
}

/* Where an instance has none: a runtime is linked into the caller's library, or loaded for it alone; else, whoever
 * has one. NULL: nobody. */
void *vs_real_for(enum vs_entry entry, const void *caller);

/* Whether any instance has a function behind it. */
bool vs_real_any(enum vs_entry entry);

/* The entry of an exported name; VS_ENTRY_COUNT: none of ours. */
enum vs_entry vs_real_find(const char *name);

/* Whether a pointer is into this library: one of our wrappers. */
bool vs_real_is_ours(const void *pointer);

/* The wrapper to hand out in place of `real`: the instance that calls exactly that. `real` itself where there are
 * more of them than instances: such calls go unrecorded, where they do not lead to another entry. */
void *vs_real_wrapper(enum vs_entry entry, void *real);

#endif
