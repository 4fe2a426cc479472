/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: memory.
 */
#include <string.h>

#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cudaMalloc(void **pointer, size_t size)
{
	uint64_t address;
	int r;

	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	r = vs_sim_activate_current();
	if (r != CU_OK)
		return vs_error(r);
	if (!size) {
		*pointer = NULL;
		return CU_OK;
	}
	r = vs_books_malloc(vs_thread_device(), size, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(vs_sim_own(r, r == CU_OK ? address : 0));
}

static int release(void *pointer)
{
	uint64_t address = (uint64_t)(uintptr_t)pointer;
	int r;

	if (!pointer)
		return CU_OK;
	r = vs_sim_check();
	if (r != CU_OK)
		return r;
	r = vs_books_free(address);
	return r == CU_OK ? r : vs_books_host_free(address, true);
}

VS_API int cudaFree(void *pointer)
{
	/* cudaFree(0) is the customary way to make the context. */
	int r = pointer ? release(pointer) : vs_sim_activate_current();

	return vs_error(r);
}

VS_API int cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
	uint64_t address;
	int r;

	if (!pointer || !size || flags < 1 || flags > 2)
		return vs_error(CU_INVALID_VALUE);
	r = vs_sim_activate_current();
	if (r == CU_OK)
		r = vs_books_host_alloc(vs_thread_device(), size, true, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(vs_sim_own(r, r == CU_OK ? address : 0));
}

VS_API int cudaHostAlloc(void **pointer, size_t size, unsigned int flags)
{
	uint64_t address;
	int r;

	(void)flags;
	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	r = vs_sim_activate_current();
	if (r != CU_OK)
		return vs_error(r);
	if (!size) {
		*pointer = NULL;
		return CU_OK;
	}
	r = vs_books_host_alloc(vs_thread_device(), size, false, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(vs_sim_own(r, r == CU_OK ? address : 0));
}

VS_API int cudaMallocHost(void **pointer, size_t size)
{
	return cudaHostAlloc(pointer, size, 0);
}

VS_API int cudaFreeHost(void *pointer)
{
	if (!pointer)
		return CU_OK;
	return vs_error(vs_books_host_free((uint64_t)(uintptr_t)pointer, false));
}

VS_API int cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
	int r = vs_sim_activate_current();

	(void)flags;
	if (r == CU_OK)
		r = vs_books_host_register(vs_thread_device(), (uint64_t)(uintptr_t)pointer, size);
	return vs_error(vs_sim_own(r, (uint64_t)(uintptr_t)pointer));
}

VS_API int cudaHostUnregister(void *pointer)
{
	return vs_error(vs_books_host_unregister((uint64_t)(uintptr_t)pointer));
}

VS_API int cudaHostGetDevicePointer(void **device_pointer, void *pointer, unsigned int flags)
{
	struct vs_allocation allocation;
	int r = device_pointer ? vs_books_find((uint64_t)(uintptr_t)pointer, &allocation) : CU_INVALID_VALUE;

	(void)flags;
	if (r == CU_OK && allocation.type == VS_TYPE_DEVICE)
		r = CU_INVALID_VALUE;
	if (r == CU_OK)
		*device_pointer = pointer; /* one address space */
	return vs_error(r);
}

VS_API int cudaHostGetFlags(unsigned int *flags, void *pointer)
{
	struct vs_allocation allocation;
	int r = flags ? vs_books_find((uint64_t)(uintptr_t)pointer, &allocation) : CU_INVALID_VALUE;

	if (r == CU_OK && allocation.type != VS_TYPE_HOST)
		r = CU_INVALID_VALUE;
	if (r == CU_OK)
		*flags = 2; /* cudaHostAllocMapped: implied by unified addresses */
	return vs_error(r);
}

/* Rows start at multiples of 512 bytes: the texture alignment. */
VS_API int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	size_t row = (width + 511) / 512 * 512;
	int r = CU_INVALID_VALUE;

	if (pitch && row >= width && (!height || row <= SIZE_MAX / height))
		r = cudaMalloc(pointer, row * height);
	if (r == CU_OK)
		*pitch = row;
	return vs_error(r);
}

struct pitched {
	void *pointer;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

VS_API int cudaMalloc3D(struct pitched *pitched, struct extent extent)
{
	void *pointer;
	size_t pitch = 0;
	int r = CU_INVALID_VALUE;

	if (pitched && (!extent.height || extent.depth <= SIZE_MAX / extent.height))
		r = cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
	if (r == CU_OK)
		*pitched = (struct pitched){pointer, pitch, extent.width, extent.height};
	return vs_error(r);
}

VS_API int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	uint64_t available, total;
	int r = vs_sim_activate_current();

	if (r != CU_OK)
		return vs_error(r);
	vs_books_info(vs_thread_device(), &available, &total);
	if (free_bytes)
		*free_bytes = available;
	if (total_bytes)
		*total_bytes = total;
	return CU_OK;
}

VS_API int cudaPointerGetAttributes(struct vs_pointer_attributes *attributes, const void *pointer)
{
	struct vs_allocation allocation;
	int r = attributes ? vs_sim_check() : CU_INVALID_VALUE;

	if (r != CU_OK)
		return vs_error(r);
	*attributes = (struct vs_pointer_attributes){.device = -2}; /* cudaInvalidDeviceId: memory CUDA never saw */
	if (vs_books_find((uint64_t)(uintptr_t)pointer, &allocation) != CU_OK) {
		attributes->host_pointer = (void *)(uintptr_t)pointer;
		return CU_OK;
	}
	attributes->type = (int)allocation.type;
	attributes->device = allocation.device;
	attributes->device_pointer = (void *)(uintptr_t)pointer;
	if (allocation.type != VS_TYPE_DEVICE)
		attributes->host_pointer = attributes->device_pointer;
	return CU_OK;
}

VS_API int cudaMemcpy(void *to, const void *from, size_t size, int kind)
{
	int r = kind < VS_COPY_H2H || kind > VS_COPY_DEFAULT ? CU_INVALID_VALUE : vs_sim_activate_current();

	if (r == CU_OK)
		vs_copy(to, from, size, kind);
	return vs_error(r);
}
VS_ALIAS(cudaMemcpy_ptds, cudaMemcpy);

VS_API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
	int r = cudaMemcpy(to, from, size, kind);

	if (r == CU_OK)
		vs_stream_work(stream);
	return r;
}
VS_ALIAS(cudaMemcpyAsync_ptsz, cudaMemcpyAsync);

VS_API int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size)
{
	int r = vs_sim_check_device(to_device);

	(void)to;
	(void)from;
	(void)size;
	return vs_error(r == CU_OK ? vs_sim_check_device(from_device) : r);
}

VS_API int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cudaMemcpyPeer(to, to_device, from, from_device, size);
}

VS_API int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                        int kind)
{
	int r = kind < VS_COPY_H2H || kind > VS_COPY_DEFAULT || width > to_pitch || width > from_pitch
	            ? CU_INVALID_VALUE
	            : vs_sim_activate_current();

	for (size_t row = 0; r == CU_OK && row < height; row++)
		vs_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind);
	return vs_error(r);
}
VS_ALIAS(cudaMemcpy2D_ptds, cudaMemcpy2D);

VS_API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, int kind, void *stream)
{
	vs_stream_work(stream);
	return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
VS_ALIAS(cudaMemcpy2DAsync_ptsz, cudaMemcpy2DAsync);

VS_API int cudaMemset(void *to, int value, size_t size)
{
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		vs_set(to, value, size);
	return vs_error(r);
}
VS_ALIAS(cudaMemset_ptds, cudaMemset);

VS_API int cudaMemsetAsync(void *to, int value, size_t size, void *stream)
{
	vs_stream_work(stream);
	return cudaMemset(to, value, size);
}
VS_ALIAS(cudaMemsetAsync_ptsz, cudaMemsetAsync);

VS_API int cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
	int r = vs_sim_activate_current();

	for (size_t row = 0; r == CU_OK && row < height; row++)
		vs_set((char *)to + row * pitch, value, width);
	return vs_error(r);
}
VS_ALIAS(cudaMemset2D_ptds, cudaMemset2D);

VS_API int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream)
{
	vs_stream_work(stream);
	return cudaMemset2D(to, pitch, value, width, height);
}
VS_ALIAS(cudaMemset2DAsync_ptsz, cudaMemset2DAsync);

/*
 * Advice and migration move managed memory about; its size stays. The
 * arguments differ between CUDA 12 and 13 and none of them is looked at.
 */
VS_API int cudaMemPrefetchAsync(const void *pointer)
{
	(void)pointer;
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaMemPrefetchAsync_ptsz, cudaMemPrefetchAsync);
VS_ALIAS(cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync);
VS_ALIAS(cudaMemPrefetchAsync_v2_ptsz, cudaMemPrefetchAsync);
VS_ALIAS(cudaMemAdvise, cudaMemPrefetchAsync);
VS_ALIAS(cudaMemAdvise_v2, cudaMemPrefetchAsync);
VS_ALIAS(cudaStreamAttachMemAsync, cudaMemPrefetchAsync);
VS_ALIAS(cudaStreamAttachMemAsync_ptsz, cudaMemPrefetchAsync);
