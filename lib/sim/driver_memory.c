/* SPDX-License-Identifier: MIT
 *
 * CUDA driver: memory, virtual memory management included.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "sim/pool.h"
#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	int r = address && size ? vs_sim_activate_current() : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_books_malloc(vs_thread_device(), size, address);
	return vs_sim_own(r, r == CU_OK ? *address : 0);
}

VS_API int cuMemFree_v2(uint64_t address)
{
	int r;

	if (!address)
		return CU_OK;
	r = vs_sim_check();
	if (r == CU_OK)
		r = vs_books_free(address);
	return r == CU_INVALID_VALUE ? vs_books_host_free(address, true) : r;
}

VS_API int cuMemAllocPitch_v2(uint64_t *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	size_t row = (width + 511) / 512 * 512;
	int r = CU_INVALID_VALUE;

	(void)element;
	if (pitch && width && height && row <= SIZE_MAX / height)
		r = cuMemAlloc_v2(address, row * height);
	if (r == CU_OK)
		*pitch = row;
	return r;
}

VS_API int cuMemAllocManaged(uint64_t *address, size_t size, unsigned int flags)
{
	int r = address && size && flags ? vs_sim_activate_current() : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_books_host_alloc(vs_thread_device(), size, true, address);
	return vs_sim_own(r, r == CU_OK ? *address : 0);
}

VS_API int cuMemHostAlloc(void **pointer, size_t size, unsigned int flags)
{
	uint64_t address;
	int r = pointer && size ? vs_sim_activate_current() : CU_INVALID_VALUE;

	(void)flags;
	if (r == CU_OK)
		r = vs_books_host_alloc(vs_thread_device(), size, false, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_sim_own(r, r == CU_OK ? address : 0);
}

VS_API int cuMemAllocHost_v2(void **pointer, size_t size)
{
	return cuMemHostAlloc(pointer, size, 0);
}

VS_API int cuMemAllocHost(void **pointer, unsigned int size)
{
	return cuMemHostAlloc(pointer, size, 0);
}

VS_API int cuMemFreeHost(void *pointer)
{
	return vs_books_host_free((uint64_t)(uintptr_t)pointer, false);
}

VS_API int cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
	int r = vs_sim_activate_current();

	(void)flags;
	if (r == CU_OK)
		r = vs_books_host_register(vs_thread_device(), (uint64_t)(uintptr_t)pointer, size);
	return vs_sim_own(r, (uint64_t)(uintptr_t)pointer);
}
VS_ALIAS(cuMemHostRegister, cuMemHostRegister_v2);

VS_API int cuMemHostUnregister(void *pointer)
{
	return vs_books_host_unregister((uint64_t)(uintptr_t)pointer);
}

VS_API int cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned int flags)
{
	struct vs_allocation allocation;
	int r = address ? vs_books_find((uint64_t)(uintptr_t)pointer, &allocation) : CU_INVALID_VALUE;

	(void)flags;
	if (r == CU_OK && allocation.type == VS_TYPE_DEVICE)
		r = CU_INVALID_VALUE;
	if (r == CU_OK)
		*address = (uint64_t)(uintptr_t)pointer;
	return r;
}

VS_API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	uint64_t available, total;
	int r = vs_sim_activate_current();

	if (r != CU_OK)
		return r;
	vs_books_info(vs_thread_device(), &available, &total);
	if (free_bytes)
		*free_bytes = available;
	if (total_bytes)
		*total_bytes = total;
	return CU_OK;
}

VS_API int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address)
{
	struct vs_allocation allocation;
	int r = vs_books_find(address, &allocation);

	if (r != CU_OK)
		return CU_NOT_FOUND;
	if (base)
		*base = allocation.address;
	if (size)
		*size = allocation.size;
	return CU_OK;
}

/* CUpointer_attribute */
enum {
	POINTER_CONTEXT = 1,
	POINTER_MEMORY_TYPE = 2,
	POINTER_DEVICE_POINTER = 3,
	POINTER_HOST_POINTER = 4,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_BUFFER_ID = 7,
	POINTER_IS_MANAGED = 8,
	POINTER_DEVICE_ORDINAL = 9,
	POINTER_IS_LEGACY_IPC = 10,
	POINTER_RANGE_START = 11,
	POINTER_RANGE_SIZE = 12,
	POINTER_MAPPED = 13,
	POINTER_HANDLE_TYPES = 14,
	POINTER_POOL = 17,
};

VS_API int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
	struct vs_allocation found;
	int r = value ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_books_find(address, &found);
	if (r != CU_OK)
		return r;
	switch (attribute) {
	case POINTER_CONTEXT:
		*(void **)value = found.device >= 0 ? vs_sim_primary(found.device) : NULL;
		return CU_OK;
	case POINTER_MEMORY_TYPE:
		/* managed memory counts as the device's (CU_MEMORYTYPE_DEVICE) */
		*(unsigned int *)value = found.type == VS_TYPE_HOST ? VS_TYPE_HOST : VS_TYPE_DEVICE;
		return CU_OK;
	case POINTER_DEVICE_POINTER:
		*(uint64_t *)value = address;
		return CU_OK;
	case POINTER_HOST_POINTER:
		if (found.type == VS_TYPE_DEVICE)
			return CU_INVALID_VALUE;
		*(uint64_t *)value = address;
		return CU_OK;
	case POINTER_SYNC_MEMOPS:
	case POINTER_IS_LEGACY_IPC:
		*(unsigned int *)value = 0;
		return CU_OK;
	case POINTER_BUFFER_ID:
	case POINTER_RANGE_START:
		*(uint64_t *)value = found.address;
		return CU_OK;
	case POINTER_IS_MANAGED:
		*(unsigned int *)value = found.type == VS_TYPE_MANAGED;
		return CU_OK;
	case POINTER_DEVICE_ORDINAL:
		*(int *)value = found.device;
		return CU_OK;
	case POINTER_RANGE_SIZE:
		*(size_t *)value = found.size;
		return CU_OK;
	case POINTER_MAPPED:
		*(unsigned int *)value = 1;
		return CU_OK;
	case POINTER_HANDLE_TYPES:
		*(uint64_t *)value = 0;
		return CU_OK;
	case POINTER_POOL:
		*(void **)value = vs_pool_of(address);
		return CU_OK;
	default:
		return CU_NOT_SUPPORTED;
	}
}

VS_API int cuPointerGetAttributes(unsigned int count, const int *attributes, void **values, uint64_t address)
{
	if (!attributes || !values)
		return CU_INVALID_VALUE;
	/* Unknown pointers are no error here: their attributes are NULL or 0 (CUDA's own rule). */
	for (unsigned int i = 0; i < count; i++)
		if (cuPointerGetAttribute(values[i], attributes[i], address) != CU_OK)
			*(unsigned int *)values[i] = 0;
	return CU_OK;
}

VS_API int cuPointerSetAttribute(const void *value, int attribute, uint64_t address)
{
	(void)value;
	(void)attribute;
	(void)address;
	return vs_sim_check();
}

/* Virtual memory management */

VS_API int cuMemGetAllocationGranularity(size_t *granularity, const struct vs_allocation_prop *prop, int option)
{
	(void)option; /* minimum and recommended agree */
	if (!granularity || !prop)
		return CU_INVALID_VALUE;
	*granularity = UINT64_C(2) << 20;
	return vs_sim_check();
}

VS_API int cuMemCreate(uint64_t *handle, size_t size, const struct vs_allocation_prop *prop, unsigned long long flags)
{
	int device = -1, r = vs_sim_check();

	(void)flags;
	if (!handle || !prop || prop->type != 1) /* CU_MEM_ALLOCATION_TYPE_PINNED */
		return CU_INVALID_VALUE;
	if (r == CU_OK && prop->location.type == VS_LOCATION_DEVICE) {
		device = prop->location.id;
		r = vs_sim_activate(device);
	}
	return r == CU_OK ? vs_books_create(device, size, handle) : r;
}

VS_API int cuMemRelease(uint64_t handle)
{
	return vs_books_release(handle);
}

VS_API int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
	return handle ? vs_books_retain((uint64_t)(uintptr_t)address, handle) : CU_INVALID_VALUE;
}

VS_API int cuMemGetAllocationPropertiesFromHandle(struct vs_allocation_prop *prop, uint64_t handle)
{
	uint64_t size;
	int device, r = prop ? vs_books_handle(handle, &device, &size) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*prop = (struct vs_allocation_prop){
		    .type = 1,
		    .location = {device >= 0 ? VS_LOCATION_DEVICE : VS_LOCATION_HOST, device >= 0 ? device : 0}};
	return r;
}

VS_API int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t hint,
                               unsigned long long flags)
{
	int r = address && !flags ? vs_sim_check() : CU_INVALID_VALUE;

	(void)alignment; /* every reservation starts at a granule */
	(void)hint;
	return r == CU_OK ? vs_books_reserve(size, address) : r;
}

VS_API int cuMemAddressFree(uint64_t address, size_t size)
{
	return vs_books_unreserve(address, size);
}

VS_API int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
	return offset || flags ? CU_INVALID_VALUE : vs_books_map(address, size, handle);
}

VS_API int cuMemUnmap(uint64_t address, size_t size)
{
	return vs_books_unmap(address, size);
}

VS_API int cuMemSetAccess(uint64_t address, size_t size, const struct vs_access_desc *desc, size_t count)
{
	return desc && count ? vs_books_set_access(address, size) : CU_INVALID_VALUE;
}

VS_API int cuMemGetAccess(unsigned long long *flags, const struct vs_location *location, uint64_t address)
{
	struct vs_allocation allocation;
	int r = flags && location ? vs_books_find(address, &allocation) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*flags = 3; /* read and write */
	return r;
}

/* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: the descriptor holds the size, which is all there is to share. */
VS_API int cuMemExportToShareableHandle(void *shareable, uint64_t handle, int type, unsigned long long flags)
{
	uint64_t size;
	int device, fd, r = vs_books_handle(handle, &device, &size);

	if (r != CU_OK)
		return r;
	if (!shareable || flags || type != 1)
		return CU_INVALID_VALUE;
	fd = memfd_create("vramsim", MFD_CLOEXEC);
	if (fd < 0)
		return CU_UNKNOWN;
	if (write(fd, &size, sizeof(size)) != (ssize_t)sizeof(size)) {
		close(fd);
		return CU_UNKNOWN;
	}
	*(int *)shareable = fd;
	return CU_OK;
}

VS_API int cuMemImportFromShareableHandle(uint64_t *handle, void *shareable, int type)
{
	uint64_t size;

	if (!handle || type != 1)
		return CU_INVALID_VALUE;
	if (pread((int)(intptr_t)shareable, &size, sizeof(size), 0) != (ssize_t)sizeof(size))
		return CU_INVALID_VALUE;
	return vs_books_create(-1, size, handle); /* the bytes are the exporter's */
}

/* Copies and fills */

VS_API int cuMemcpy(uint64_t to, uint64_t from, size_t size)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, VS_COPY_DEFAULT);
	return r;
}

VS_API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cuMemcpy(to, from, size);
}

VS_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_copy((void *)(uintptr_t)to, from, size, VS_COPY_H2D);
	return r;
}

VS_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cuMemcpyHtoD_v2(to, from, size);
}

VS_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_copy(to, (void *)(uintptr_t)from, size, VS_COPY_D2H);
	return r;
}

VS_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cuMemcpyDtoH_v2(to, from, size);
}

VS_API int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, VS_COPY_D2D);
	return r;
}

VS_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cuMemcpyDtoD_v2(to, from, size);
}

VS_API int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_set((void *)(uintptr_t)to, value, count);
	return r;
}

VS_API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream)
{
	vs_stream_work(stream);
	return cuMemsetD8_v2(to, value, count);
}

/* Wider fills keep device memory's lack of contents; on managed memory the low byte stands for the pattern. */
VS_API int cuMemsetD32_v2(uint64_t to, unsigned int value, size_t count)
{
	struct vs_allocation found;
	int r = vs_sim_activate_current();

	if (r == CU_OK && count && vs_books_find(to, &found) == CU_OK && found.type != VS_TYPE_DEVICE)
		for (size_t i = 0; i < count; i++)
			((unsigned int *)(uintptr_t)to)[i] = value;
	return r;
}

VS_API int cuMemsetD32Async(uint64_t to, unsigned int value, size_t count, void *stream)
{
	vs_stream_work(stream);
	return cuMemsetD32_v2(to, value, count);
}

VS_API int cuMemsetD16_v2(uint64_t to, unsigned short value, size_t count)
{
	struct vs_allocation found;
	int r = vs_sim_activate_current();

	if (r == CU_OK && count && vs_books_find(to, &found) == CU_OK && found.type != VS_TYPE_DEVICE)
		for (size_t i = 0; i < count; i++)
			((unsigned short *)(uintptr_t)to)[i] = value;
	return r;
}

VS_API int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, void *stream)
{
	vs_stream_work(stream);
	return cuMemsetD16_v2(to, value, count);
}

VS_API int cuMemPrefetchAsync(uint64_t address)
{
	(void)address;
	return vs_sim_check();
}
VS_ALIAS(cuMemPrefetchAsync_v2, cuMemPrefetchAsync);
VS_ALIAS(cuMemAdvise, cuMemPrefetchAsync);
VS_ALIAS(cuMemAdvise_v2, cuMemPrefetchAsync);
VS_ALIAS(cuStreamAttachMemAsync, cuMemPrefetchAsync);
