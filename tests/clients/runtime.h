/* SPDX-License-Identifier: MIT
 *
 * The part of the CUDA runtime that the programs here are linked with, written from the public documentation.
 */
#ifndef VS_TESTS_CLIENT_RUNTIME_H
#define VS_TESTS_CLIENT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

struct dim3 {
	unsigned int x, y, z;
};

struct cudaChannelFormatDesc {
	int x, y, z, w, f;
};

struct cudaMemLocation {
	int type; /* 1: a device */
	int id;
};

struct cudaMemPoolProps {
	int allocType, handleTypes;
	struct cudaMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
};

struct cudaMemAllocNodeParams {
	struct cudaMemPoolProps poolProps;
	const void *accessDescs;
	size_t accessDescCount, bytesize;
	void *dptr;
};

/* Each entry is one of the stand-in's (cudart.c) too. */
/* clang-format off */
#define RUNTIME(E) \
	E(cudaSetDevice, (int device)) \
	E(cudaDeviceReset, (void)) \
	E(cudaDeviceSynchronize, (void)) \
	E(cudaMemGetInfo, (size_t *free_bytes, size_t *total)) \
	E(cudaMalloc, (void **pointer, size_t size)) \
	E(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height)) \
	E(cudaMallocManaged, (void **pointer, size_t size, unsigned int flags)) \
	E(cudaMallocArray, (void **array, const struct cudaChannelFormatDesc *format, size_t width, \
	  size_t height, unsigned int flags)) \
	E(cudaFree, (void *pointer)) \
	E(cudaFreeArray, (void *array)) \
	E(cudaMallocHost, (void **pointer, size_t size)) \
	E(cudaFreeHost, (void *pointer)) \
	E(cudaHostRegister, (void *pointer, size_t size, unsigned int flags)) \
	E(cudaHostUnregister, (void *pointer)) \
	E(cudaMemcpyAsync, (void *to, const void *from, size_t size, int kind, void *stream)) \
	E(cudaMemcpy2DAsync, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t \
	  width, size_t height, int kind, void *stream)) \
	E(cudaMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, void *stream)) \
	E(cudaMemsetAsync, (void *to, int value, size_t size, void *stream)) \
	E(cudaStreamCreateWithFlags, (void **stream, unsigned int flags)) \
	E(cudaStreamSynchronize, (void *stream)) \
	E(cudaStreamDestroy, (void *stream)) \
	E(cudaLaunchKernel, (const void *kernel, struct dim3 grid, struct dim3 block, void \
	  **arguments, size_t shared, void *stream)) \
	E(cudaMallocAsync, (void **pointer, size_t size, void *stream)) \
	E(cudaMallocFromPoolAsync, (void **pointer, size_t size, void *pool, void *stream)) \
	E(cudaFreeAsync, (void *pointer, void *stream)) \
	E(cudaDeviceGetDefaultMemPool, (void **pool, int device)) \
	E(cudaMemPoolCreate, (void **pool, const struct cudaMemPoolProps *props)) \
	E(cudaMemPoolDestroy, (void *pool)) \
	E(cudaMemPoolTrimTo, (void *pool, size_t keep)) \
	E(cudaMemPoolSetAttribute, (void *pool, int attribute, void * value)) \
	E(cudaMemPoolGetAttribute, (void *pool, int attribute, void *value)) \
	E(cudaStreamBeginCapture, (void *stream, int mode)) \
	E(cudaStreamEndCapture, (void *stream, void ** graph)) \
	E(cudaGraphCreate, (void **graph, unsigned int flags)) \
	E(cudaGraphAddMemAllocNode, (void **node, void *graph, const void *dependencies, size_t \
	  count, struct cudaMemAllocNodeParams *params)) \
	E(cudaGraphInstantiate, (void **executable, void *graph, unsigned long long flags)) \
	E(cudaGraphLaunch, (void *executable, void *stream)) \
	E(cudaGraphExecDestroy, (void *executable)) \
	E(cudaGraphDestroy, (void *graph)) \
	E(cudaDeviceGetGraphMemAttribute, (int device, int attribute, void *value)) \
	E(cudaDeviceGraphMemTrim, (int device))
/* clang-format on */

#define DECLARE(name, parameters) int name parameters;
RUNTIME(DECLARE)
#undef DECLARE

/* What nvcc calls for the kernels of a file, before main(). */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread,
                            void *block, void *block_dim, void *grid_dim, int *warps);

#endif
