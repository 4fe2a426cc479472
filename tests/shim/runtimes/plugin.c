/* SPDX-License-Identifier: MIT
 *
 * A library that is linked with one of the runtimes, or, without, has the pointers looked up in it.
 */
#include <dlfcn.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))

int cudaMalloc(void **out, size_t size);
int cudaFree(void *pointer);
extern int runtime_calls;

API int plugin_use(size_t size)
{
	void *p;

	return cudaMalloc(&p, size) || cudaFree(p);
}

API int plugin_calls(void)
{
	return runtime_calls;
}

/* The same by pointers from the runtime's own handle, which is closed again before they are used. */
API int plugin_by_handle(const char *name, size_t size)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL), *p;
	int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(library, "cudaMalloc");
	int (*release)(void *) = (int (*)(void *))dlsym(library, "cudaFree");

	dlclose(library);
	return allocate(&p, size) || release(p);
}
