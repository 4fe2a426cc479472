/* SPDX-License-Identifier: MIT
 *
 * The driver's exports that the runtime's are made of. Called by name, as a runtime calls a driver: whoever
 * interposes sees both.
 */
#ifndef VS_SIM_CUDA_DRIVER_H
#define VS_SIM_CUDA_DRIVER_H

#include "sim/cuda_api.h"

struct vs_pool;
struct vs_graph;

VS_API int cuMemAllocAsync(uint64_t *address, size_t size, void *stream);
VS_API int cuMemAllocFromPoolAsync(uint64_t *address, size_t size, struct vs_pool *pool, void *stream);
VS_API int cuMemFreeAsync(uint64_t address, void *stream);
VS_API int cuDeviceGetDefaultMemPool(struct vs_pool **pool, int device);
VS_API int cuDeviceGetMemPool(struct vs_pool **pool, int device);
VS_API int cuDeviceSetMemPool(int device, struct vs_pool *pool);
VS_API int cuMemPoolCreate(struct vs_pool **pool, const struct vs_pool_props *props);
VS_API int cuMemPoolDestroy(struct vs_pool *pool);
VS_API int cuMemPoolTrimTo(struct vs_pool *pool, size_t keep);
VS_API int cuMemPoolGetAttribute(struct vs_pool *pool, int attribute, void *value);
VS_API int cuMemPoolSetAttribute(struct vs_pool *pool, int attribute, void *value);
VS_API int cuMemPoolSetAccess(struct vs_pool *pool, const struct vs_access_desc *list, size_t count);
VS_API int cuMemPoolGetAccess(int *flags, struct vs_pool *pool, const struct vs_location *location);
VS_API int cuMemPoolExportToShareableHandle(void *handle, struct vs_pool *pool, int type, unsigned long long flags);
VS_API int cuMemPoolImportFromShareableHandle(struct vs_pool **pool, void *handle, int type,
                                              unsigned long long flags);
VS_API int cuMemPoolExportPointer(void *data, uint64_t address);
VS_API int cuMemPoolImportPointer(uint64_t *address, struct vs_pool *pool, const void *data);

VS_API int cuImportExternalMemory(void **memory, const struct vs_external_memory *from);
VS_API int cuExternalMemoryGetMappedBuffer(uint64_t *address, void *memory, const struct vs_external_buffer *part);
VS_API int cuDestroyExternalMemory(void *memory);
VS_API int cuArrayDestroy(void *array);

VS_API int cuGraphAddMemAllocNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                  struct vs_alloc_node *params);
VS_API int cuGraphAddMemFreeNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                 uint64_t address);
VS_API int cuGraphInstantiateWithFlags(struct vs_graph **exec, struct vs_graph *graph, unsigned long long flags);
VS_API int cuGraphInstantiateWithParams(struct vs_graph **exec, struct vs_graph *graph,
                                        const unsigned long long *parameters);
VS_API int cuGraphLaunch(struct vs_graph *exec, void *stream);
VS_API int cuGraphUpload(struct vs_graph *exec, void *stream);
VS_API int cuDeviceGraphMemTrim(int device);
VS_API int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value);
VS_API int cuDeviceSetGraphMemAttribute(int device, int attribute, void *value);

#endif
