/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "shim/modules.h"
#include "shim/real.h"

static _Atomic(void *) slots[VS_ENTRY_COUNT];

/* PyTorch is loaded RTLD_LOCAL, and what it needs with it: RTLD_NEXT does not see those libraries, their
 * names do. Newest first; 11.0 is the soname of all CUDA 11 runtimes. */
static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", NULL};
static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const torch_names[] = {"libc10.so", NULL};

static const char *const *const library_names[] = {
    [VS_API_RUNTIME] = runtime_names,
    [VS_API_DRIVER] = driver_names,
    [VS_API_TORCH] = torch_names,
};

/* The handle's reference is kept: it pins the library that the pointer lies in. */
static void *symbol_in(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

	return handle ? dlsym(handle, name) : NULL;
}

void *vs_real_symbol(enum vs_api api, const char *name)
{
	int saved = errno;
	void *symbol = dlsym(RTLD_NEXT, name);
	char path[PATH_MAX];

	for (const char *const *library = library_names[api]; !symbol && *library; library++)
		symbol = symbol_in(*library, name);
	/* A wheel that brings the runtime with it has it under a name of its own: libcudart-1a2b3c4d.so.11.0. */
	if (!symbol && api == VS_API_RUNTIME && vs_modules_find("libcudart", path, sizeof(path)) == 0)
		symbol = symbol_in(path, name);
	errno = saved;
	return symbol;
}

void *vs_real_entry(enum vs_entry entry)
{
	/* Acquire/release: the pointer is all there is to see, but whoever stored it may have loaded the code. */
	void *real = atomic_load_explicit(&slots[entry], memory_order_acquire);

	if (real)
		return real;
	real = vs_real_symbol(vs_entries[entry].api, vs_entries[entry].export);
	if (real && real != vs_entries[entry].wrapper)
		atomic_store_explicit(&slots[entry], real, memory_order_release);
	return real == vs_entries[entry].wrapper ? NULL : real;
}

void *vs_real_wrap(const char *base, unsigned int version, int per_thread, void *real)
{
	int best = -1;
	void *expected = NULL;

	if (!base || !real || strncmp(base, "cu", 2))
		return real;
	for (int i = 0; i < VS_ENTRY_COUNT; i++) {
		const struct vs_entry_info *info = &vs_entries[i];

		if (info->api != VS_API_DRIVER || info->since > version || strcmp(info->base, base))
			continue;
		if (real == info->wrapper)
			return real;
		/* A newer ABI of the same name wins; between equals, the flavour of stream asked for. Calls
		 * without a stream have one flavour and serve both. */
		if (best < 0 || info->since > vs_entries[best].since ||
		    (info->since == vs_entries[best].since && !!per_thread == info->per_thread))
			best = i;
	}
	if (best < 0)
		return real;
	/* What the library chose for this caller is what the wrapper must call, unless another definition
	 * (an interposer, the simulated device) was found before. */
	atomic_compare_exchange_strong_explicit(&slots[best], &expected, real, memory_order_acq_rel,
	                                        memory_order_acquire);
	return vs_entries[best].wrapper;
}
