/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <dlfcn.h>

enum { UNKNOWN = 999 };

static const struct {
	const char *name;
	int version;
	size_t offset;
} entries[] = {
#define ENTRY(member, name, version, parameters) {name, version, offsetof(struct driver, member)},
    DRIVER(ENTRY)
#undef ENTRY
};

int driver_open(struct driver *driver)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*get)(const char *, void **, int, uint64_t, int *) =
	    library ? (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2")
	            : NULL;
	int r = get ? 0 : UNKNOWN, status;

	for (size_t i = 0; !r && i < sizeof(entries) / sizeof(*entries); i++)
		r = get(entries[i].name, (void **)((char *)driver + entries[i].offset), entries[i].version, 0,
		        &status);
	return r;
}
