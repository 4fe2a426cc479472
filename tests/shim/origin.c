/* SPDX-License-Identifier: MIT
 *
 * Loads a library that only this one's own RUNPATH leads to, calls it, unloads it.
 */
#include <dlfcn.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))

API int origin_call(void)
{
	void *library = dlopen("libtarget.so", RTLD_NOW);
	int (*value)(void);
	int result;

	if (!library)
		return -1;
	value = (int (*)(void))dlsym(library, "target_value");
	result = value ? value() : -2;
	dlclose(library);
	return result;
}

/* A mode without RTLD_LAZY or RTLD_NOW is an error, and must stay one. */
API int origin_invalid(void)
{
	return dlopen("libtarget.so", 0) == NULL && dlerror() != NULL;
}
