/* SPDX-License-Identifier: MIT
 *
 * A library that takes GPU memory in one of several ways. Built several times, under the names of real libraries and
 * of one that nobody knows; CUDA's functions are those of whoever is preloaded.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);
int cudaMallocAsync(void **pointer, size_t size, void *stream);
int cudaFreeAsync(void *pointer, void *stream);
int cudaMallocManaged(void **pointer, size_t size, unsigned int flags);
int cudaMallocHost(void **pointer, size_t size);
int cudaFreeHost(void *pointer);
int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemFree_v2(uint64_t address);
int cuMemCreate(uint64_t *handle, size_t size, const void *prop, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t hint, unsigned long long flags);
int cuMemAddressFree(uint64_t address, size_t size);
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t address, size_t size);
int cudaGetDevice(int *device);

struct piece { /* job.c has it too */
	void *pointer;
	uint64_t handle;
	size_t size;
	char kind; /* m malloc, d driver, a async, v VMM, g managed, h host */
};

static int map(struct piece *piece)
{
	struct {
		int type, handles, location, device;
		void *windows;
		uint64_t flags;
	} prop = {1, 0, 1, 0, NULL, 0};
	uint64_t address;

	if (cudaGetDevice(&prop.device) || cuMemCreate(&piece->handle, piece->size, &prop, 0))
		return 2;
	if (cuMemAddressReserve(&address, piece->size, 0, 0, 0) ||
	    cuMemMap(address, piece->size, 0, piece->handle, 0))
		abort();
	piece->pointer = (void *)(uintptr_t)address;
	return 0;
}

API int take(struct piece *piece)
{
	switch (piece->kind) {
	case 'm':
		return cudaMalloc(&piece->pointer, piece->size);
	case 'd':
		return cuMemAlloc_v2((uint64_t *)&piece->pointer, piece->size);
	case 'a':
		return cudaMallocAsync(&piece->pointer, piece->size, NULL);
	case 'v':
		return map(piece);
	case 'g':
		return cudaMallocManaged(&piece->pointer, piece->size, 1);
	case 'h':
		return cudaMallocHost(&piece->pointer, piece->size);
	default:
		return 1;
	}
}

API int give(struct piece *piece)
{
	switch (piece->kind) {
	case 'm':
	case 'g':
		return cudaFree(piece->pointer);
	case 'd':
		return cuMemFree_v2((uint64_t)(uintptr_t)piece->pointer);
	case 'a':
		return cudaFreeAsync(piece->pointer, NULL);
	case 'v':
		return cuMemUnmap((uint64_t)(uintptr_t)piece->pointer, piece->size) || cuMemRelease(piece->handle) ||
		       cuMemAddressFree((uint64_t)(uintptr_t)piece->pointer, piece->size);
	case 'h':
		return cudaFreeHost(piece->pointer);
	default:
		return 1;
	}
}

/* As PyTorch's allocator asks an allocator of the job's, by way of a function that is called so, and as it tells
 * others what it has got. */
API int ask(int (*between)(int (*)(struct piece *), struct piece *), int (*function)(struct piece *),
            struct piece *piece)
{
	return between(function, piece);
}

API int PluggableAllocator_malloc(int (*function)(struct piece *), struct piece *piece)
{
	return function(piece);
}

API int tracker(int (*function)(struct piece *), struct piece *piece)
{
	return function(piece);
}
