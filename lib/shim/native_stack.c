/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "shim/descriptors.h"
#include "shim/native_stack.h"

static _Atomic(int (*)(void **, int)) backtrace_function;
static atomic_int prepared; /* by which process: its pid */

static const char *missing;

/* Where this library's own code lies; the linker defines both. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* libunwind opens a pipe when it is called first, and keeps it. */
static int (*first_backtrace)(void **, int);

static void call_first(void)
{
	void *frame;

	first_backtrace(&frame, 1);
}

void vs_native_prepare(void)
{
	int by = atomic_load_explicit(&prepared, memory_order_acquire);
	void *library, *symbol = NULL;

	if (by == (int)getpid())
		return;
	/* In the child of a process that was being recorded, one of libunwind's locks may be held for ever by a
	 * thread that did not come along. CUDA does not survive such a fork either, so little is missed.
	 *
	 * Not linked: as a dependency of a preload it would take over every C++ throw of the job, ten times dearer.
	 * RTLD_LOCAL keeps its exception handling to itself. libunwind.so.8 is every release since 1.1 (2013). */
	missing = by ? "off: the process was forked from a recorded one" : "off: libunwind.so.8 is not installed";
	if (!by) {
		library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
		symbol = library ? dlsym(library, "unw_backtrace") : NULL;
		first_backtrace = (int (*)(void **, int))symbol;
		if (symbol && vs_with_high_descriptors(call_first) < 0) {
			missing = "off: too few file descriptors";
			symbol = NULL;
		}
	}
	atomic_store_explicit(&backtrace_function, (int (*)(void **, int))symbol, memory_order_relaxed);
	atomic_store_explicit(&prepared, (int)getpid(), memory_order_release);
}

const char *vs_native_missing(void)
{
	return atomic_load_explicit(&backtrace_function, memory_order_relaxed) ? NULL : missing;
}

unsigned int vs_native_walk(uint64_t frames[VS_MAX_NATIVE], const uint64_t **ret_first)
{
	int (*walk)(void **, int) = atomic_load_explicit(&backtrace_function, memory_order_relaxed);
	uint64_t begin = (uint64_t)(uintptr_t)__ehdr_start, end = (uint64_t)(uintptr_t)etext;
	unsigned int own = 0;
	int count;

	if (!walk)
		return 0;
	count = walk((void **)frames, VS_MAX_NATIVE);
	if (count <= 0)
		return 0;
	while (own < (unsigned int)count && frames[own] >= begin && frames[own] < end)
		own++;
	*ret_first = frames + own;
	return (unsigned int)count - own;
}
