/* SPDX-License-Identifier: MIT
 *
 * A CUDA driver (MOCK_DRIVER) and a runtime above it, just real enough to be called. Addresses count upwards;
 * requests above 1 GiB are out of memory; freeing what was not handed out is an invalid value. mock_calls says how
 * often the driver's allocation calls were reached.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API           __attribute__((visibility("default")))
#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define LIMIT         ((size_t)1 << 30)

#ifdef MOCK_DRIVER

API _Atomic int mock_calls;
API __thread int mock_device;
API __thread int mock_no_context;      /* this thread has none */
API _Atomic int mock_contexts;         /* made by calls that need one */
API _Atomic int mock_capturing;        /* streams that are captured */
API _Atomic int mock_asked_in_capture; /* questions that would break a capture */

static _Atomic uint64_t next_address = 0x700000000000;
/* Blocks at addresses so far apart never live at the same time. */
#define LIVE (1 << 20)
static uint64_t live[LIVE];

static void (*inside)(void);

API void mock_set_inside(void (*function)(void))
{
	inside = function;
}

static int take(uint64_t *out, size_t size)
{
	mock_calls++;
	if (inside)
		inside();
	errno = EDOM; /* a library may do that, and the job may see it */
	if (!out)
		return INVALID_VALUE;
	if (size > LIMIT)
		return OUT_OF_MEMORY;
	*out = (next_address += 1 << 21);
	live[(*out >> 21) % LIVE] = *out;
	return 0;
}

static int give(uint64_t address)
{
	mock_calls++;
	if (!address)
		return 0;
	if (live[(address >> 21) % LIVE] != address)
		return INVALID_VALUE;
	live[(address >> 21) % LIVE] = 0;
	return 0;
}

API int cuMemAlloc_v2(uint64_t *out, size_t size)
{
	return take(out, size);
}

API int cuMemFree_v2(uint64_t address)
{
	return give(address);
}

/* Pools that hold nothing. */
API int cuCtxCreate_v2(void **out, unsigned int flags, int device)
{
	static char contexts[16];

	(void)flags;
	*out = &contexts[device % 16];
	return 0;
}

API int cuMemPoolCreate(void **out, const void *props)
{
	(void)props;
	*out = (void *)(next_address += 1 << 21);
	return 0;
}

API int cuMemPoolDestroy(void *pool)
{
	return pool ? 0 : INVALID_VALUE;
}

API int cuMemPoolGetAttribute(void *pool, int attribute, uint64_t *value)
{
	(void)attribute;
	*value = 0;
	return pool ? 0 : INVALID_VALUE;
}

/* The 32-bit call of CUDA 2. */
API int cuMemAlloc(unsigned int *out, unsigned int size)
{
	*out = size;
	return 0;
}

API int cuMemAllocManaged(uint64_t *out, size_t size, unsigned int flags)
{
	(void)flags;
	return take(out, size);
}

API int cuMemAllocHost_v2(void **out, size_t size)
{
	return take((uint64_t *)out, size);
}

API int cuMemFreeHost(void *pointer)
{
	return give((uintptr_t)pointer);
}

API int cuMemFreeAsync(uint64_t address, void *stream)
{
	(void)stream;
	return give(address);
}

API int cuMemAllocAsync(uint64_t *out, size_t size, void *stream)
{
	(void)stream;
	return take(out, size);
}

API int cuMemAllocAsync_ptsz(uint64_t *out, size_t size, void *stream)
{
	(void)stream;
	return take(out, size);
}

API int cuMemCreate(uint64_t *out, size_t size, const void *prop, unsigned long long flags)
{
	(void)prop;
	(void)flags;
	return take(out, size);
}

API int cuMemRelease(uint64_t handle)
{
	return give(handle);
}

API int cuMemAddressReserve(uint64_t *out, size_t size, size_t alignment, uint64_t hint, unsigned long long flags)
{
	(void)size;
	(void)alignment;
	(void)hint;
	(void)flags;
	return take(out, 0);
}

API int cuMemAddressFree(uint64_t address, size_t size)
{
	(void)size;
	return give(address);
}

API int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	(void)size;
	(void)offset;
	(void)flags;
	return address && handle ? 0 : INVALID_VALUE;
}

API int cuMemUnmap(uint64_t address, size_t size)
{
	(void)size;
	return address ? 0 : INVALID_VALUE;
}

API int cuCtxGetDevice(int *device)
{
	if (mock_no_context)
		return 201; /* CUDA_ERROR_INVALID_CONTEXT */
	*device = mock_device;
	return 0;
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	if (mock_no_context)
		return 201;
	mock_asked_in_capture += mock_capturing > 0;
	*free_bytes = (size_t)15 << 30;
	*total = (size_t)16 << 30;
	return 0;
}

API int cuStreamBeginCapture_v2(void *stream, int mode)
{
	(void)stream;
	(void)mode;
	mock_capturing++;
	return 0;
}

/* Of the stream NULL nothing is captured here. */
API int cuStreamEndCapture(void *stream, void **graph)
{
	if (!stream)
		return 903; /* CUDA_ERROR_STREAM_CAPTURE_UNMATCHED */
	*graph = stream;
	mock_capturing--;
	return 0;
}

API int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

API int cuDeviceGetName(char *name, int size, int device)
{
	return snprintf(name, (size_t)size, "Mock %d", device) < 0;
}

API int cuDeviceTotalMem_v2(size_t *total, int device)
{
	(void)device;
	*total = (size_t)16 << 30;
	return 0;
}

API int cuGetProcAddress_v2(const char *base, void **out, int version, uint64_t flags, int *status)
{
	void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	char name[128];

	*out = NULL;
	if (flags == 2) {
		snprintf(name, sizeof(name), "%s_ptsz", base);
		*out = dlsym(self, name);
	}
	if (!*out && version >= 3020) {
		snprintf(name, sizeof(name), "%s_v2", base);
		*out = dlsym(self, name);
	}
	if (!*out && *base)
		*out = dlsym(self, base);
	if (status)
		*status = *out ? 0 : 1;
	return *out ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

API int cuGetProcAddress(const char *base, void **out, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(base, out, version, flags, NULL);
}

#else

extern __thread int mock_device, mock_no_context;
extern _Atomic int mock_contexts;
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuMemAlloc_v2(uint64_t *out, size_t size);
int cuMemFree_v2(uint64_t address);
int cuMemAllocManaged(uint64_t *out, size_t size, unsigned int flags);
int cuMemAllocHost_v2(void **out, size_t size);
int cuMemFreeHost(void *pointer);
int cuMemAllocAsync(uint64_t *out, size_t size, void *stream);
int cuMemFreeAsync(uint64_t address, void *stream);
int cuGetProcAddress_v2(const char *base, void **out, int version, uint64_t flags, int *status);

API int cudaMalloc(void **out, size_t size)
{
	return out ? cuMemAlloc_v2((uint64_t *)out, size) : INVALID_VALUE;
}

API int cudaFree(void *pointer)
{
	return pointer ? cuMemFree_v2((uintptr_t)pointer) : 0;
}

API int cudaMallocAsync(void **out, size_t size, void *stream)
{
	return cuMemAllocAsync((uint64_t *)out, size, stream);
}

API int cudaFreeAsync(void *pointer, void *stream)
{
	return cuMemFreeAsync((uintptr_t)pointer, stream);
}

API int cudaMallocManaged(void **out, size_t size, unsigned int flags)
{
	return cuMemAllocManaged((uint64_t *)out, size, flags);
}

API int cudaMallocHost(void **out, size_t size)
{
	return cuMemAllocHost_v2(out, size);
}

API int cudaFreeHost(void *pointer)
{
	return cuMemFreeHost(pointer);
}

API int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
	*pitch = (width + 511) / 512 * 512;
	return cuMemAlloc_v2((uint64_t *)out, *pitch * height);
}

struct pitched {
	void *pointer;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

API int cudaMalloc3D(struct pitched *out, struct extent extent)
{
	out->pitch = (extent.width + 511) / 512 * 512;
	return cuMemAlloc_v2((uint64_t *)&out->pointer, out->pitch * extent.height * extent.depth);
}

API int cudaStreamBeginCapture(void *stream, int mode)
{
	return cuStreamBeginCapture_v2(stream, mode);
}

API int cudaStreamEndCapture(void *stream, void **graph)
{
	return cuStreamEndCapture(stream, graph);
}

API int cudaGetDevice(int *device)
{
	errno = EXDEV; /* it was not the job that asked */
	*device = mock_device;
	return 0;
}

API int cudaSetDevice(int device)
{
	mock_device = device;
	return 0;
}

API int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	mock_contexts += mock_no_context;
	*free_bytes = (size_t)15 << 30;
	*total = (size_t)16 << 30;
	return 0;
}

API int cudaGetDriverEntryPointByVersion(const char *base, void **out, unsigned int version, unsigned long long flags,
                                         int *status)
{
	return cuGetProcAddress_v2(base, out, (int)version, flags, status) ? 1 : 0;
}

API int cudaGetDriverEntryPoint(const char *base, void **out, unsigned long long flags, int *status)
{
	return cudaGetDriverEntryPointByVersion(base, out, 13000, flags, status);
}

#endif
