/* SPDX-License-Identifier: MIT
 *
 * A library that takes the card's memory by each of CUDA's ways until it is refused. Not linked with CUDA: the
 * process has it.
 */
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define API __attribute__((visibility("default")))

int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags);
int cudaMalloc(void **address, size_t size);
int cudaMallocAsync(void **address, size_t size, void *stream);
int cudaFree(void *address);

/* CUmemAllocationProp: pinned memory of device 0. */
struct properties {
	int type, handles;
	int location, device;
	void *metadata;
	unsigned char flags[8];
};

static int take(const char *how, size_t size)
{
	struct properties properties = {.type = 1, .location = 1};
	uint64_t number;
	void *pointer;

	if (!strcmp(how, "cuMemAlloc_v2"))
		return cuMemAlloc_v2(&number, size);
	if (!strcmp(how, "cuMemCreate"))
		return cuMemCreate(&number, size, &properties, 0);
	if (!strcmp(how, "cudaMalloc"))
		return cudaMalloc(&pointer, size);
	if (!strcmp(how, "cudaMallocAsync"))
		return cudaMallocAsync(&pointer, size, NULL);
	return -1;
}

/* What the call returned in the end. */
API int greedy(const char *how, size_t size)
{
	void *context;
	int result;

	cuInit(0);
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	do
		result = take(how, size);
	while (!result);
	return result;
}

/* One request. */
API int greedy_once(const char *how, size_t size)
{
	return take(how, size);
}

/* For torch.cuda.memory.CUDAPluggableAllocator. */
API void *greedy_alloc(ssize_t size, int device, void *stream)
{
	void *address = NULL;

	(void)device;
	(void)stream;
	cudaMalloc(&address, (size_t)size);
	return address;
}

API void greedy_free(void *address, ssize_t size, int device, void *stream)
{
	(void)size;
	(void)device;
	(void)stream;
	cudaFree(address);
}
