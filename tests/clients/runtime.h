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
#define RUNTIME(entry)                                                                                                 \
	entry(cudaSetDevice, (int device)) entry(cudaDeviceReset, (void)) entry(                                       \
	    cudaDeviceSynchronize, (void)) entry(cudaMemGetInfo, (size_t * free_bytes, size_t * total))                \
	    entry(cudaMalloc, (void **pointer, size_t size)) entry(                                                    \
	        cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height))                         \
	        entry(cudaMallocManaged, (void **pointer, size_t size, unsigned int flags)) entry(                     \
	            cudaMallocArray,                                                                                   \
	            (void **array, const struct cudaChannelFormatDesc *format, size_t width, size_t height,            \
	             unsigned int flags)) entry(cudaFree, (void *pointer)) entry(cudaFreeArray, (void *array))         \
	            entry(cudaMallocHost, (void **pointer, size_t size)) entry(cudaFreeHost, (void *pointer)) entry(   \
	                cudaHostRegister,                                                                              \
	                (void *pointer, size_t size, unsigned int flags)) entry(cudaHostUnregister, (void *pointer))   \
	                entry(cudaMemcpyAsync, (void *to, const void *from, size_t size, int kind, void *stream))      \
	                    entry(cudaMemcpy2DAsync,                                                                   \
	                          (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,       \
	                           size_t height, int kind, void *stream))                                             \
	                        entry(cudaMemset2DAsync,                                                               \
	                              (void *to, size_t pitch, int value, size_t width, size_t height,                 \
	                               void *stream)) entry(cudaMemsetAsync,                                           \
	                                                    (void *to, int value, size_t size, void *stream))          \
	                            entry(cudaStreamCreateWithFlags, (void **stream, unsigned int flags)) entry(       \
	                                cudaStreamSynchronize, (void *stream)) entry(cudaStreamDestroy,                \
	                                                                             (void *stream))                   \
	                                entry(cudaLaunchKernel,                                                        \
	                                      (const void *kernel, struct dim3 grid, struct dim3 block,                \
	                                       void **arguments,                                                       \
	                                       size_t shared,                                                          \
	                                       void                                                                    \
	                                           *stream)) entry(cudaMallocAsync,                                    \
	                                                           (void **pointer, size_t size, void *stream))        \
	                                    entry(                                                                     \
	                                        cudaMallocFromPoolAsync,                                               \
	                                        (void **pointer, size_t size, void *pool,                              \
	                                         void *stream)) entry(cudaFreeAsync, (void *pointer, void *stream))    \
	                                        entry(cudaDeviceGetDefaultMemPool, (void **pool, int device)) entry(   \
	                                            cudaMemPoolCreate,                                                 \
	                                            (void **pool,                                                      \
	                                             const struct cudaMemPoolProps                                     \
	                                                 *props)) entry(cudaMemPoolDestroy, (void *pool))              \
	                                            entry(cudaMemPoolTrimTo, (void *pool, size_t keep)) entry(         \
	                                                cudaMemPoolSetAttribute,                                       \
	                                                (void *pool, int attribute,                                    \
	                                                 void *                                                        \
	                                                     value)) entry(cudaMemPoolGetAttribute,                    \
	                                                                   (void *pool, int attribute, void *value))   \
	                                                entry(cudaStreamBeginCapture, (void *stream, int mode)) entry( \
	                                                    cudaStreamEndCapture,                                      \
	                                                    (void *stream,                                             \
	                                                     void **                                                   \
	                                                         graph)) entry(cudaGraphCreate,                        \
	                                                                       (void **graph, unsigned int flags))     \
	                                                    entry(cudaGraphAddMemAllocNode,                            \
	                                                          (void **node, void *graph,                           \
	                                                           const void                                          \
	                                                               *dependencies,                                  \
	                                                           size_t count,                                       \
	                                                           struct cudaMemAllocNodeParams *params))             \
	                                                        entry(                                                 \
	                                                            cudaGraphInstantiate,                              \
	                                                            (void **executable,                                \
	                                                             void *graph, unsigned long long flags))           \
	                                                            entry(cudaGraphLaunch,                             \
	                                                                  (void *executable, void *stream))            \
	                                                                entry(cudaGraphExecDestroy,                    \
	                                                                      (void *executable))                      \
	                                                                    entry(cudaGraphDestroy, (void *graph))     \
	                                                                        entry(                                 \
	                                                                            cudaDeviceGetGraphMemAttribute,    \
	                                                                            (int device, int attribute,        \
	                                                                             void *value))                     \
	                                                                            entry(cudaDeviceGraphMemTrim,      \
	                                                                                  (int device))

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
