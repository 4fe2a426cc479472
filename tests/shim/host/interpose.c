/* SPDX-License-Identifier: MIT
 *
 * Another library that stands between the job and CUDA, for LD_PRELOAD before or after the recorder. It counts, and
 * says so at the end where INTERPOSE is set.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static atomic_long mallocs, frees, reports;

API int cudaMalloc(void **out, size_t size)
{
	int (*real)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");

	mallocs++;
	return real ? real(out, size) : 3;
}

API int cudaFree(void *pointer)
{
	int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cudaFree");

	frees++;
	return real ? real(pointer) : 3;
}

#define report _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
typedef void report_function(void *, int64_t, uint64_t, uint64_t, uint16_t);

API report_function report;
void report(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device)
{
	report_function *real =
	    (report_function *)dlsym(RTLD_NEXT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

	reports++;
	if (real)
		real(pointer, size, allocated, reserved, device);
}

__attribute__((destructor)) static void say(void)
{
	if (getenv("INTERPOSE"))
		dprintf(STDERR_FILENO, "interposed %ld %ld %ld\n", mallocs, frees, reports);
}
