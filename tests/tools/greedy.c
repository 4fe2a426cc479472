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
int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t hint, unsigned long long flags);
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemRetainAllocationHandle(uint64_t *handle, void *address);
int cuMemRelease(uint64_t handle);
int cudaMalloc(void **address, size_t size);
int cudaMallocAsync(void **address, size_t size, void *stream);
int cudaMallocArray(void **array, const void *channels, size_t width, size_t height, unsigned int flags);
int cudaFree(void *address);
int cudaGraphCreate(void **graph, unsigned int flags);
int cudaGraphAddMemAllocNode(void **node, void *graph, const void *dependencies, size_t count, void *parameters);
int cudaGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cudaGraphLaunch(void *executable, void *stream);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);

/* CUmemAllocationProp: pinned memory of device 0. */
struct properties {
	int type, handles;
	int location, device;
	void *metadata;
	unsigned char flags[8];
};

/* The mapping alone keeps the memory. */
static int take_mapped(const struct properties *properties, size_t size)
{
	uint64_t handle, address;
	int r = cuMemCreate(&handle, size, properties, 0);

	if (r)
		return r;
	if (cuMemAddressReserve(&address, size, 0, 0, 0) || cuMemMap(address, size, 0, handle, 0) ||
	    cuMemRetainAllocationHandle(&handle, (void *)address) || cuMemRelease(handle) || cuMemRelease(handle))
		return -1;
	return 0;
}

/* cudaMemAllocNodeParams: pinned memory of device 0. */
struct node {
	int type, handles;
	int location, device;
	void *security;
	size_t most;
	unsigned char rest[56];
	const void *access;
	size_t access_count, size;
	void *pointer;
};

/* A launch takes it. */
static int take_by_graph(size_t size)
{
	struct node node = {.type = 1, .location = 1, .size = size};
	void *graph, *executable, *handle;
	int r;

	if (cudaGraphCreate(&graph, 0) || cudaGraphAddMemAllocNode(&handle, graph, NULL, 0, &node) ||
	    cudaGraphInstantiateWithFlags(&executable, graph, 0))
		return -1;
	r = cudaGraphLaunch(executable, NULL);
	__asm__ volatile(""); /* as below */
	return r;
}

static int take(const char *how, size_t size)
{
	struct properties properties = {.type = 1, .location = 1};
	const int channels[5] = {32, 0, 0, 0, 2}; /* one float a texel */
	uint64_t number;
	void *pointer;

	if (!strcmp(how, "cuMemAlloc_v2"))
		return cuMemAlloc_v2(&number, size);
	if (!strcmp(how, "cuMemCreate"))
		return cuMemCreate(&number, size, &properties, 0);
	if (!strcmp(how, "cudaGraphLaunch"))
		return take_by_graph(size);
	if (!strcmp(how, "cuMemMap"))
		return take_mapped(&properties, size);
	if (!strcmp(how, "cudaMallocArray"))
		return cudaMallocArray(&pointer, channels, 1 << 16, size >> 18, 0);
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

/* A context alone, in each of the ways. */
API int greedy_context(const char *how)
{
	void *context;
	int result;

	cuInit(0);
	if (!strcmp(how, "cuDevicePrimaryCtxRetain"))
		return cuDevicePrimaryCtxRetain(&context, 0);
	if (!strcmp(how, "cuCtxCreate_v2"))
		return cuCtxCreate_v2(&context, 0, 0);
	result = cudaFree(NULL);
	__asm__ volatile(""); /* whose call is the last of a function has no frame */
	return result;
}

/* One request. */
API int greedy_once(const char *how, size_t size)
{
	return take(how, size);
}

/* As PyTorch's allocator asks one of the job's, by way of a function that is called so. */
typedef int greedy_function(const char *how, size_t size);

API int greedy_ask(int (*between)(greedy_function *, const char *, size_t), greedy_function *function,
                   const char *how, size_t size)
{
	int result = between(function, how, size);

	__asm__ volatile(""); /* as above */
	return result;
}

API int PluggableAllocator_malloc(greedy_function *function, const char *how, size_t size)
{
	int result = function(how, size);

	__asm__ volatile("");
	return result;
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
