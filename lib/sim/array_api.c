/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime and driver: arrays, mipmaps and memory from outside.
 */
#include <pthread.h>
#include <stdlib.h>

#include "sim/cuda_driver.h"
#include "sim/sim.h"

static int create(const struct vs_texels *texels, void **ret_array)
{
	uint64_t handle = 0;
	int r = vs_sim_activate_current();

	if (r == CU_OK)
		r = vs_array_new(vs_thread_device(), texels, false, &handle);
	if (r == CU_OK)
		*ret_array = (void *)(uintptr_t)handle;
	return vs_sim_own(r, handle);
}

VS_API int cuArrayCreate_v2(void **array, const struct vs_array *from)
{
	struct vs_texels texels;

	if (!array || !from)
		return CU_INVALID_VALUE;
	texels = (struct vs_texels){.width = from->width, .height = from->height};
	vs_texels_driver_format(&texels, from->format, from->channels);
	return create(&texels, array);
}

static int create_3d(void **array, const struct vs_array3d *from, unsigned int levels)
{
	struct vs_texels texels;

	if (!array || !from || !levels)
		return CU_INVALID_VALUE;
	texels = (struct vs_texels){from->width, from->height, from->depth, from->flags, levels, 0, 1};
	vs_texels_driver_format(&texels, from->format, from->channels);
	return create(&texels, array);
}

VS_API int cuArray3DCreate_v2(void **array, const struct vs_array3d *from)
{
	return create_3d(array, from, 1);
}

VS_API int cuMipmappedArrayCreate(void **array, const struct vs_array3d *from, unsigned int levels)
{
	return create_3d(array, from, levels);
}

VS_API int cuArrayDestroy(void *array)
{
	return vs_array_free((uint64_t)(uintptr_t)array);
}
VS_ALIAS(cuMipmappedArrayDestroy, cuArrayDestroy);

/* cudaChannelFormatDesc */
struct channels {
	int bits[4];
	int kind;
};

struct extent {
	size_t width, height, depth;
};

static int create_runtime(void **array, const struct channels *format, struct vs_texels texels)
{
	if (!array || !format)
		return vs_error(CU_INVALID_VALUE);
	vs_texels_runtime_format(&texels, format->bits, format->kind);
	return vs_error(create(&texels, array));
}

VS_API int cudaMallocArray(void **array, const struct channels *format, size_t width, size_t height,
                           unsigned int flags)
{
	return create_runtime(array, format, (struct vs_texels){width, height, 0, flags, 1, 0, 1});
}

VS_API int cudaMalloc3DArray(void **array, const struct channels *format, struct extent extent, unsigned int flags)
{
	return create_runtime(array, format,
	                      (struct vs_texels){extent.width, extent.height, extent.depth, flags, 1, 0, 1});
}

VS_API int cudaMallocMipmappedArray(void **array, const struct channels *format, struct extent extent,
                                    unsigned int levels, unsigned int flags)
{
	if (!levels)
		return vs_error(CU_INVALID_VALUE);
	return create_runtime(array, format,
	                      (struct vs_texels){extent.width, extent.height, extent.depth, flags, levels, 0, 1});
}

VS_API int cudaFreeArray(void *array)
{
	return array ? vs_error(cuArrayDestroy(array)) : CU_OK;
}
VS_ALIAS(cudaFreeMipmappedArray, cudaFreeArray);

/* Memory from outside: its bytes are counted elsewhere. Dead handles stay, so that using one is an error, no crash.
 */
struct external {
	uint64_t size;
	struct external *next;
};

static struct external *externals;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t size_of(const void *memory, bool end)
{
	uint64_t size = 0;

	pthread_mutex_lock(&lock);
	for (struct external *e = externals; e; e = e->next) {
		if (e != memory)
			continue;
		size = e->size;
		if (end)
			e->size = 0;
	}
	pthread_mutex_unlock(&lock);
	return size;
}

VS_API int cuImportExternalMemory(void **memory, const struct vs_external_memory *from)
{
	struct external *external;
	int r = memory && from && from->size && from->type >= 1 && from->type <= 9 ? vs_sim_activate_current()
	                                                                           : CU_INVALID_VALUE;

	if (r != CU_OK)
		return r;
	external = calloc(1, sizeof(*external));
	if (!external)
		return CU_OUT_OF_MEMORY;
	external->size = from->size;
	pthread_mutex_lock(&lock);
	external->next = externals;
	externals = external;
	pthread_mutex_unlock(&lock);
	*memory = external;
	return CU_OK;
}

VS_API int cuExternalMemoryGetMappedBuffer(uint64_t *address, void *memory, const struct vs_external_buffer *part)
{
	uint64_t size = size_of(memory, false);

	if (!size)
		return CU_INVALID_HANDLE;
	if (!address || !part || !part->size || part->offset > size || part->size > size - part->offset)
		return CU_INVALID_VALUE;
	return vs_books_external(vs_thread_device(), part->size, address);
}

struct driver_part {
	unsigned long long offset;
	struct vs_array3d array;
	unsigned int levels;
};

VS_API int cuExternalMemoryGetMappedMipmappedArray(void **array, void *memory, const struct driver_part *part)
{
	struct vs_texels texels;
	uint64_t handle;
	int r = size_of(memory, false) ? CU_OK : CU_INVALID_HANDLE;

	if (r == CU_OK && (!array || !part))
		r = CU_INVALID_VALUE;
	if (r != CU_OK)
		return r;
	texels = (struct vs_texels){part->array.width, part->array.height, part->array.depth, 0, part->levels, 0, 1};
	vs_texels_driver_format(&texels, part->array.format, part->array.channels);
	r = vs_array_new(vs_thread_device(), &texels, true, &handle);
	if (r == CU_OK)
		*array = (void *)(uintptr_t)handle;
	return r;
}

VS_API int cuDestroyExternalMemory(void *memory)
{
	return size_of(memory, true) ? CU_OK : CU_INVALID_HANDLE;
}

VS_API int cudaImportExternalMemory(void **memory, const struct vs_external_memory *from)
{
	return vs_error(cuImportExternalMemory(memory, from));
}

VS_API int cudaExternalMemoryGetMappedBuffer(void **pointer, void *memory, const struct vs_external_buffer *part)
{
	return vs_error(cuExternalMemoryGetMappedBuffer((uint64_t *)pointer, memory, part));
}

VS_API int cudaDestroyExternalMemory(void *memory)
{
	return vs_error(cuDestroyExternalMemory(memory));
}
