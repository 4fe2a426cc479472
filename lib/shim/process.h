/* SPDX-License-Identifier: MIT
 *
 * The recording of one process: made at its first GPU event, made anew in a forked child at the child's.
 */
#ifndef VS_SHIM_PROCESS_H
#define VS_SHIM_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_contexts.h"
#include "shim/cuda_pools.h"
#include "shim/idmap.h"
#include "shim/native_stack.h"
#include "shim/python_stack.h"
#include "shim/real.h"

struct vs_writer;

enum vs_level {
	VS_LEVEL_FULL,
	VS_LEVEL_LIGHT, /* Python stacks of allocations only */
	/* To measure what the parts cost. */
	VS_LEVEL_NATIVE,
	VS_LEVEL_NONE,
	VS_LEVELS,
};

/* As in VRAMSHIM_LEVEL. */
extern const char *const vs_level_names[VS_LEVELS] __attribute__((visibility("hidden")));

#define VS_MAX_DEVICES 64

struct vs_process {
	struct vs_writer *writer;
	char path[4096]; /* of the trace */
	enum vs_level level;

	/* Everything that is interned: read without a lock, added to under it. */
	pthread_mutex_t intern_lock;
	struct vs_idmap stacks;  /* raw stack -> stack id */
	struct vs_idmap codes;   /* code object -> code id */
	struct vs_idmap frames;  /* code id, instruction -> Python frame id */
	struct vs_idmap strings; /* text -> string id */
	/* To put together what is interned, by whoever holds the lock: a thread may have little stack of its own. */
	struct vs_scratch {
		struct vs_python_frame_at objects[VS_MAX_PYTHON];
		uint32_t frames[VS_MAX_PYTHON];
		uint64_t addresses[VS_MAX_NATIVE];
		struct vs_python_code code;
	} scratch;
	_Atomic uint64_t stacks_dropped;

	struct vs_idmap modules;       /* address range -> 1; added to under the loader's lock */
	_Atomic uint64_t modules_seen; /* dl_iterate_phdr's count of loads at the last scan, + 1 */
	struct vs_contexts contexts;
	struct vs_pools pools;
	_Atomic uint32_t entry_names[VS_ENTRY_COUNT];
	_Atomic uint64_t devices_seen; /* bit n: device n is described */
};

/* The calling process's recording, started if need be. NULL when it cannot be: pass through. Inside a hook only. */
struct vs_process *vs_process_get(void);

/* What is known of this process, in a page of its own that fork() leaves zeroed in the child (MADV_WIPEONFORK): a
 * child notices at its first event, for the price of a load, whichever way it was forked. */
struct vs_process_page {
	_Atomic int state; /* process.c's */
	_Atomic(struct vs_process *) process;
};
extern _Atomic(struct vs_process_page *) vs_process_page __attribute__((visibility("hidden")));

/* The same, but never starts one. */
static inline struct vs_process *vs_process_peek(void)
{
	struct vs_process_page *page = atomic_load_explicit(&vs_process_page, memory_order_acquire);

	return page ? atomic_load_explicit(&page->process, memory_order_acquire) : NULL;
}

/* The environment's settings, read once while the library loads. */
struct vs_settings {
	const char *directory; /* VRAMSHIM_OUT */
	uint64_t max_size;     /* VRAMSHIM_MAX_SIZE, bytes; 0: the writer's default */
	enum vs_level level;   /* VRAMSHIM_LEVEL */
	bool no_nvml;          /* VRAMSHIM_NVML=0 */
};
extern struct vs_settings vs_settings __attribute__((visibility("hidden")));

/* One line on stderr, once for each call; for the user, who must know that something is not recorded. */
void vs_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
