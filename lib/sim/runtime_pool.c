/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: stream-ordered allocation, by the driver's calls as the real one does.
 */
#include "sim/cuda_driver.h"
#include "sim/sim.h"

/* By reference: an argument may be read before the call beside it was made. */
static int allocated(int r, void **pointer, const uint64_t *address)
{
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)*address;
	return vs_error(r);
}

VS_API int cudaMallocAsync(void **pointer, size_t size, void *stream)
{
	uint64_t address;

	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	if (!size) {
		*pointer = NULL;
		return vs_error(vs_sim_activate_current());
	}
	return allocated(cuMemAllocAsync(&address, size, stream), pointer, &address);
}
VS_ALIAS(cudaMallocAsync_ptsz, cudaMallocAsync);

VS_API int cudaMallocFromPoolAsync(void **pointer, size_t size, struct vs_pool *pool, void *stream)
{
	uint64_t address;

	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	return allocated(cuMemAllocFromPoolAsync(&address, size, pool, stream), pointer, &address);
}
VS_ALIAS(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync);

VS_API int cudaFreeAsync(void *pointer, void *stream)
{
	return pointer ? vs_error(cuMemFreeAsync((uint64_t)(uintptr_t)pointer, stream)) : CU_OK;
}
VS_ALIAS(cudaFreeAsync_ptsz, cudaFreeAsync);

VS_API int cudaDeviceGetDefaultMemPool(struct vs_pool **pool, int device)
{
	return vs_error(cuDeviceGetDefaultMemPool(pool, device));
}

VS_API int cudaDeviceGetMemPool(struct vs_pool **pool, int device)
{
	return vs_error(cuDeviceGetMemPool(pool, device));
}

VS_API int cudaDeviceSetMemPool(int device, struct vs_pool *pool)
{
	return vs_error(cuDeviceSetMemPool(device, pool));
}

VS_API int cudaMemPoolCreate(struct vs_pool **pool, const struct vs_pool_props *props)
{
	return vs_error(cuMemPoolCreate(pool, props));
}

VS_API int cudaMemPoolDestroy(struct vs_pool *pool)
{
	return vs_error(cuMemPoolDestroy(pool));
}

VS_API int cudaMemPoolTrimTo(struct vs_pool *pool, size_t keep)
{
	return vs_error(cuMemPoolTrimTo(pool, keep));
}

VS_API int cudaMemPoolGetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_error(cuMemPoolGetAttribute(pool, attribute, value));
}

VS_API int cudaMemPoolSetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_error(cuMemPoolSetAttribute(pool, attribute, value));
}

VS_API int cudaMemPoolSetAccess(struct vs_pool *pool, const struct vs_access_desc *list, size_t count)
{
	return vs_error(cuMemPoolSetAccess(pool, list, count));
}

VS_API int cudaMemPoolGetAccess(int *flags, struct vs_pool *pool, const struct vs_location *location)
{
	return vs_error(cuMemPoolGetAccess(flags, pool, location));
}

VS_API int cudaMemPoolExportToShareableHandle(void *handle, struct vs_pool *pool, int type, unsigned int flags)
{
	return vs_error(cuMemPoolExportToShareableHandle(handle, pool, type, flags));
}

VS_API int cudaMemPoolImportFromShareableHandle(struct vs_pool **pool, void *handle, int type, unsigned int flags)
{
	return vs_error(cuMemPoolImportFromShareableHandle(pool, handle, type, flags));
}

VS_API int cudaMemPoolExportPointer(void *data, void *pointer)
{
	return vs_error(cuMemPoolExportPointer(data, (uint64_t)(uintptr_t)pointer));
}

VS_API int cudaMemPoolImportPointer(void **pointer, struct vs_pool *pool, void *data)
{
	uint64_t address;

	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	return allocated(cuMemPoolImportPointer(&address, pool, data), pointer, &address);
}
