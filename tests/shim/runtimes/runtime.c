/* SPDX-License-Identifier: MIT
 *
 * A CUDA runtime of version MAJOR, as far as it can be told from another: its symbols have its soname for a version,
 * it counts its calls, and it reaches the driver by name.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

API int runtime_calls;

static int (*driver(const char *base, int version))()
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), *found = NULL;
	int (*get)(const char *, void **, int, uint64_t, int *) =
	    (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");

	return get && get(base, &found, version, 0, NULL) == 0 ? (int (*)())found : NULL;
}

API int cudaMalloc(void **out, size_t size)
{
	int (*allocate)() = driver("cuMemAlloc", 3020);

	runtime_calls++;
	return allocate ? allocate(out, size + MAJOR) : 999;
}

API int cudaFree(void *pointer)
{
	int (*release)() = driver("cuMemFree", 3020);

	runtime_calls++;
	return release ? release(pointer) : 999;
}

API int cudaGetDevice(int *device)
{
	*device = 0;
	return 0;
}
