/* SPDX-License-Identifier: MIT
 *
 * CUDA driver: stream-ordered allocation and memory pools. Work is done when it is asked for, so a free is at once.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/graph_memory.h"
#include "sim/pool.h"
#include "sim/sim.h"
#include "sim/stream.h"

static int device_of(void *stream)
{
	struct vs_stream *s = vs_stream_of(stream);

	return s ? s->device : vs_thread_device();
}

/* While the stream is captured, a node of the graph. */
static int allocate(uint64_t *address, size_t size, int device, struct vs_pool *pool, void *stream)
{
	struct vs_graph *graph;
	uint64_t id;
	int r = vs_sim_activate(device);

	if (r != CU_OK)
		return r;
	if (vs_capture_get(stream, &id, &graph)) {
		r = vs_graph_memory_node(graph, device, size, address);
		if (r == CU_OK)
			vs_stream_work(stream);
		return r;
	}
	return vs_pool_malloc(pool ? pool : vs_pool_current(device), size, address);
}

VS_API int cuMemAllocAsync(uint64_t *address, size_t size, void *stream)
{
	return address && size ? allocate(address, size, device_of(stream), NULL, stream) : CU_INVALID_VALUE;
}
VS_ALIAS(cuMemAllocAsync_ptsz, cuMemAllocAsync);

VS_API int cuMemAllocFromPoolAsync(uint64_t *address, size_t size, struct vs_pool *pool, void *stream)
{
	int device, r = address && size ? vs_pool_device(pool, &device) : CU_INVALID_VALUE;

	return r == CU_OK ? allocate(address, size, device, pool, stream) : r;
}
VS_ALIAS(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync);

VS_API int cuMemFreeAsync(uint64_t address, void *stream)
{
	struct vs_graph *graph;
	uint64_t id;
	int r = vs_sim_check();

	if (r != CU_OK || !address)
		return r == CU_OK ? CU_INVALID_VALUE : r;
	if (vs_capture_get(stream, &id, &graph))
		return vs_graph_memory_free_node(graph, address);
	return vs_books_free(address);
}
VS_ALIAS(cuMemFreeAsync_ptsz, cuMemFreeAsync);

VS_API int cuDeviceGetDefaultMemPool(struct vs_pool **pool, int device)
{
	int r = pool ? vs_sim_activate(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*pool = vs_pool_default(device);
	return r;
}

VS_API int cuDeviceGetMemPool(struct vs_pool **pool, int device)
{
	int r = pool ? vs_sim_activate(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*pool = vs_pool_current(device);
	return r;
}

VS_API int cuDeviceSetMemPool(int device, struct vs_pool *pool)
{
	int r = vs_sim_activate(device);

	return r == CU_OK ? vs_pool_set_current(device, pool) : r;
}

VS_API int cuMemPoolCreate(struct vs_pool **pool, const struct vs_pool_props *props)
{
	int r;

	if (!pool || !props)
		return CU_INVALID_VALUE;
	if (props->location.type != VS_LOCATION_DEVICE)
		return CU_NOT_SUPPORTED;
	r = vs_sim_activate(props->location.id);
	return r == CU_OK ? vs_pool_new(props->location.id, pool) : r;
}

VS_API int cuMemPoolDestroy(struct vs_pool *pool)
{
	return vs_pool_free(pool);
}

VS_API int cuMemPoolTrimTo(struct vs_pool *pool, size_t keep)
{
	return vs_pool_trim(pool, keep);
}

VS_API int cuMemPoolGetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_pool_attribute(pool, attribute, false, value);
}

VS_API int cuMemPoolSetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_pool_attribute(pool, attribute, true, value);
}

VS_API int cuMemPoolSetAccess(struct vs_pool *pool, const struct vs_access_desc *list, size_t count)
{
	int device;

	return list || !count ? vs_pool_device(pool, &device) : CU_INVALID_VALUE;
}

VS_API int cuMemPoolGetAccess(int *flags, struct vs_pool *pool, const struct vs_location *location)
{
	int device, r = flags && location ? vs_pool_device(pool, &device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*flags = 3; /* read and write: every card reaches every other */
	return r;
}

/* The descriptor tells the device. What is imported holds nothing: its memory is the exporter's. */
VS_API int cuMemPoolExportToShareableHandle(void *handle, struct vs_pool *pool, int type, unsigned long long flags)
{
	int device, fd, r = handle && type == 1 && !flags ? vs_pool_device(pool, &device) : CU_INVALID_VALUE;

	if (r != CU_OK)
		return r;
	fd = memfd_create("vramsim pool", MFD_CLOEXEC);
	if (fd < 0 || write(fd, &device, sizeof(device)) != (ssize_t)sizeof(device)) {
		if (fd >= 0)
			close(fd);
		return CU_UNKNOWN;
	}
	*(int *)handle = fd;
	return CU_OK;
}

VS_API int cuMemPoolImportFromShareableHandle(struct vs_pool **pool, void *handle, int type, unsigned long long flags)
{
	int device, r;

	if (!pool || type != 1 || flags ||
	    pread((int)(intptr_t)handle, &device, sizeof(device), 0) != (ssize_t)sizeof(device))
		return CU_INVALID_VALUE;
	r = vs_sim_activate(device);
	return r == CU_OK ? vs_pool_new(device, pool) : r;
}

struct exported { /* CUmemPoolPtrExportData: 64 opaque bytes */
	uint64_t size;
	unsigned char reserved[56];
};

VS_API int cuMemPoolExportPointer(struct exported *data, uint64_t address)
{
	struct vs_allocation found;
	int r = data && vs_pool_of(address) ? vs_books_find(address, &found) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*data = (struct exported){.size = found.size};
	return r;
}

VS_API int cuMemPoolImportPointer(uint64_t *address, struct vs_pool *pool, const struct exported *data)
{
	int device, r = address && data && data->size ? vs_pool_device(pool, &device) : CU_INVALID_VALUE;

	return r == CU_OK ? vs_books_external(device, data->size, address) : r;
}
