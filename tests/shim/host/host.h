/* SPDX-License-Identifier: MIT
 *
 * Scenarios of programs that use a GPU and do what programs do besides: each prints what it saw, the same with and
 * without the recorder. test_host.py runs them and compares.
 */
#ifndef HOST_H
#define HOST_H

#include <stddef.h>
#include <stdint.h>

struct scenario {
	const char *name;
	void (*run)(void);
};

/* One table a file; each ends with a row of NULL. */
extern const struct scenario host_threads[], host_forks[], host_signals[], host_exits[], host_limits[],
    host_libraries[], host_exceptions[];

int cudaMalloc(void **out, size_t size);
int cudaFree(void *pointer);
int cuCtxCreate_v2(void **out, unsigned int flags, int device);
int cuMemPoolCreate(void **pool, const void *props);
int cuMemPoolDestroy(void *pool);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t size, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device);
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t size, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device);
/* The mock driver's: called in the middle of each real call that allocates; NULL: nothing is. */
void mock_set_inside(void (*inside)(void));

/* Allocate and report it as PyTorch would, and the other way round. Counted, in all processes together: the number of
 * CUDA events and of PyTorch's that a trace of it should have. Errors end the program with status 99. */
void *host_take(size_t size);
void host_give(void *pointer, size_t size);
/* PyTorch's reports alone, at some made-up address, from `depth` frames down: stacks that were not seen before. */
void host_report(unsigned int depth);
/* The same for what is counted by hand. */
void host_count(int cuda, int torch);
/* For this thread's events that may be recorded or not. */
void host_uncounted(int on);
/* `counted CUDA TORCH` on stdout: once, by whoever ends last. */
void host_counted(void);

/* Ends the program with status 98 and the line's number where a scenario finds something wrong. */
void host_wrong(const char *file, int line, const char *what);
#define CHECK(condition)                                                                                             \
	do {                                                                                                         \
		if (!(condition))                                                                                    \
			host_wrong(__FILE__, __LINE__, #condition);                                                  \
	} while (0)

#endif
