/* SPDX-License-Identifier: MIT
 *
 * Neither name can be asked for the other: both lead here. So dlvsym() is looked up by hand, in libc's own table of
 * symbols; everything else follows from it.
 */
#include "shim/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "shim/libraries.h"
#include "shim/symbols.h"

struct vs_loader vs_loader;

/* 2.34 moved the functions into libc; the others are the first versions on x86-64 and aarch64. By version, because a
 * plain look-up would take a definition of any. */
static void *next(void *(*dlvsym_found)(void *, const char *, const char *), const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *found = NULL;

	for (unsigned int i = 0; i < sizeof(versions) / sizeof(versions[0]) && !found; i++)
		found = dlvsym_found(RTLD_NEXT, name, versions[i]);
	return found;
}

void vs_loader_resolve(void)
{
	void *(*raw)(void *, const char *, const char *), *(*later)(void *, const char *, const char *);

	if (vs_loader.dlsym)
		return;
	/* libc has had it since 2.34; before, libdl, which whoever calls it has brought. */
	raw = (void *(*)(void *, const char *, const char *))vs_symbol_of("libc.so", "dlvsym");
	if (!raw)
		raw = (void *(*)(void *, const char *, const char *))vs_symbol_of("libdl.so", "dlvsym");
	if (!raw) {
		/* musl's loader is its libc, and has symbols of one version. */
		__atomic_store_n(&vs_loader.dlsym, (void *(*)(void *, const char *))vs_symbol_of("ld-musl", "dlsym"),
		                 __ATOMIC_RELEASE);
		return;
	}
	later = (void *(*)(void *, const char *, const char *))next(raw, "dlvsym");
	/* dlsym last: it says that both are there. Every thread that gets here finds the same. */
	__atomic_store_n(&vs_loader.dlvsym, later ? later : raw, __ATOMIC_RELEASE);
	__atomic_store_n(&vs_loader.dlsym, (void *(*)(void *, const char *))next(raw, "dlsym"), __ATOMIC_RELEASE);
}

void *vs_loader_next(const char *name)
{
	vs_loader_resolve();
	return vs_loader.dlsym ? vs_loader.dlsym(RTLD_NEXT, name) : NULL;
}

/* Once they are needed, the list may be lost. */
__attribute__((constructor)) static void prepare(void)
{
	size_t size;
	void *loader_data = vs_symbol_data("_rtld_global", &size);

	if (loader_data)
		vs_libraries_find_lock(loader_data, size);
	vs_loader_resolve();
	vs_libraries_started();
}
