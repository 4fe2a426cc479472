/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dlopen_gateway.h"
#include "shim/dlopen.h"
#include "shim/libraries.h"
#include "shim/loader.h"

static int flags; /* added to every call's */

void *vs_dlopen_prepare(struct vs_dlopen_call *call)
{
	static void *real;
	void *known = __atomic_load_n(&real, __ATOMIC_RELAXED);

	/* Every thread that gets here finds the same. */
	if (!known)
		__atomic_store_n(&real, known = vs_loader_next("dlopen"), __ATOMIC_RELAXED);
	call->mode |= __atomic_load_n(&flags, __ATOMIC_RELAXED);
	return known;
}

/* Names of libraries, one behind the other, each with its 0. */
struct names {
	char *text;
	size_t used, size;
};

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
	struct names *names = data;
	size_t length = strlen(info->dlpi_name) + 1;

	(void)size;
	/* Without a folder: the program itself, and the kernel's. */
	if (strchr(info->dlpi_name, '/') && length <= names->size - names->used) {
		memcpy(names->text + names->used, info->dlpi_name, length);
		names->used += length;
	}
	return 0;
}

void vs_dlopen_keep(void)
{
	/* A process with more than some thousand libraries keeps the first ones. */
	struct names names = {.size = 1 << 20};
	static atomic_bool kept;

	if (atomic_load_explicit(&kept, memory_order_relaxed))
		return;
	/* Relaxed, as it is read: a library that is opened at this moment was so before or after it. */
	__atomic_store_n(&flags, RTLD_NODELETE, __ATOMIC_RELAXED);
	if (!vs_libraries_hold())
		return;
	atomic_store_explicit(&kept, true, memory_order_relaxed);
	names.text =
	    mmap(NULL, names.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (names.text == MAP_FAILED)
		names.size = 0;
	/* Not in the callback, which holds a lock that others wait for while they hold the one that dlopen() needs.
	 */
	vs_libraries_each(collect, &names);
	for (size_t at = 0; at < names.used; at += strlen(names.text + at) + 1)
		dlopen(names.text + at, RTLD_LAZY | RTLD_NOLOAD);
	if (names.size)
		munmap(names.text, names.size);
	vs_libraries_release();
}
