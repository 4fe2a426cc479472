/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: stream-ordered allocation. A pool here keeps nothing back: what
 * it reserves is what is in use, in granules, and its counters are the card's. A real pool holds freed memory
 * until the next synchronisation above its threshold; how it grows is not
 * documented, so it is not imitated.
 */
#include <stdlib.h>

#include "sim/pool.h"
#include "sim/sim.h"

static struct vs_pool defaults[VS_DEVICES];
static struct vs_pool *current[VS_DEVICES];

struct vs_pool *vs_pool_default(int device)
{
	defaults[device].device = device;
	return &defaults[device];
}

struct vs_pool *vs_pool_current(int device)
{
	return current[device] ? current[device] : vs_pool_default(device);
}

int vs_pool_set_current(int device, struct vs_pool *pool)
{
	if (!pool)
		return CU_INVALID_VALUE;
	current[device] = pool;
	return CU_OK;
}

int vs_pool_new(int device, struct vs_pool **ret_pool)
{
	struct vs_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return CU_OUT_OF_MEMORY;
	pool->device = device;
	*ret_pool = pool;
	return CU_OK;
}

int vs_pool_free(struct vs_pool *pool)
{
	for (int i = 0; i < VS_DEVICES; i++) {
		if (pool == &defaults[i] || !pool)
			return CU_INVALID_VALUE;
		if (pool == current[i])
			current[i] = NULL;
	}
	free(pool);
	return CU_OK;
}

int vs_pool_malloc(int device, uint64_t size, uint64_t *ret_address)
{
	if (!size)
		return CU_INVALID_VALUE;
	return vs_books_malloc(device, size, ret_address);
}

/* cudaMemPoolAttr: 1-3 reuse switches, 4 release threshold, 5 reserved now, 6 reserved high, 7 used now, 8 high. */
int vs_pool_attribute(struct vs_pool *pool, int attribute, bool set, void *value)
{
	if (!pool || !value || attribute < 1 || attribute > 8)
		return CU_INVALID_VALUE;
	if (attribute <= 3) {
		if (set)
			pool->reuse[attribute - 1] = !*(int *)value;
		else
			*(int *)value = !pool->reuse[attribute - 1]; /* on at the start */
	} else if (attribute == 4) {
		if (set)
			pool->threshold = *(uint64_t *)value;
		else
			*(uint64_t *)value = pool->threshold;
	} else if (set) { /* of the high marks alone, and to zero alone */
		vs_books_lower(pool->device);
	} else {
		uint64_t bytes = attribute % 2 ? vs_books_used(pool->device) : vs_books_high(pool->device);

		*(uint64_t *)value =
		    bytes - (vs_sim_is_active(pool->device) ? vramsim_context_bytes(pool->device) : 0);
	}
	return CU_OK;
}

VS_API int cudaMallocAsync(void **pointer, size_t size, void *stream)
{
	int device = vs_thread_device();
	uint64_t address;
	int r;

	(void)stream;
	if (!pointer)
		return vs_error(CU_INVALID_VALUE);
	r = vs_sim_activate(device);
	if (r == CU_OK && !size) {
		*pointer = NULL;
		return CU_OK;
	}
	if (r == CU_OK)
		r = vs_pool_malloc(device, size, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(r);
}
VS_ALIAS(cudaMallocAsync_ptsz, cudaMallocAsync);

VS_API int cudaMallocFromPoolAsync(void **pointer, size_t size, struct vs_pool *pool, void *stream)
{
	uint64_t address;
	int r;

	(void)stream;
	if (!pointer || !pool)
		return vs_error(CU_INVALID_VALUE);
	r = vs_sim_activate(pool->device);
	if (r == CU_OK)
		r = vs_pool_malloc(pool->device, size, &address);
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(r);
}
VS_ALIAS(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync);

VS_API int cudaFreeAsync(void *pointer, void *stream)
{
	(void)stream;
	if (!pointer)
		return CU_OK;
	return vs_error(vs_books_free((uint64_t)(uintptr_t)pointer));
}
VS_ALIAS(cudaFreeAsync_ptsz, cudaFreeAsync);

VS_API int cudaDeviceGetDefaultMemPool(struct vs_pool **pool, int device)
{
	int r = pool ? vs_sim_activate(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*pool = vs_pool_default(device);
	return vs_error(r);
}

VS_API int cudaDeviceGetMemPool(struct vs_pool **pool, int device)
{
	int r = pool ? vs_sim_activate(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*pool = vs_pool_current(device);
	return vs_error(r);
}

VS_API int cudaDeviceSetMemPool(int device, struct vs_pool *pool)
{
	int r = vs_sim_activate(device);

	return vs_error(r == CU_OK ? vs_pool_set_current(device, pool) : r);
}

/* cudaMemPoolProps: the location comes behind the two enums. */
struct pool_props {
	int type;
	int handle_types;
	struct vs_location location;
};

VS_API int cudaMemPoolCreate(struct vs_pool **pool, const struct pool_props *props)
{
	int r;

	if (!pool || !props)
		return vs_error(CU_INVALID_VALUE);
	if (props->location.type != VS_LOCATION_DEVICE)
		return vs_error(CU_NOT_SUPPORTED);
	r = vs_sim_activate(props->location.id);
	return vs_error(r == CU_OK ? vs_pool_new(props->location.id, pool) : r);
}

VS_API int cudaMemPoolDestroy(struct vs_pool *pool)
{
	return vs_error(vs_pool_free(pool));
}

VS_API int cudaMemPoolTrimTo(struct vs_pool *pool, size_t keep)
{
	(void)keep;
	return vs_error(pool ? CU_OK : CU_INVALID_VALUE);
}

VS_API int cudaMemPoolGetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_error(vs_pool_attribute(pool, attribute, false, value));
}

VS_API int cudaMemPoolSetAttribute(struct vs_pool *pool, int attribute, void *value)
{
	return vs_error(vs_pool_attribute(pool, attribute, true, value));
}

VS_API int cudaMemPoolSetAccess(struct vs_pool *pool, const struct vs_access_desc *list, size_t count)
{
	return vs_error(pool && (list || !count) ? CU_OK : CU_INVALID_VALUE);
}

VS_API int cudaMemPoolGetAccess(int *flags, struct vs_pool *pool, const struct vs_location *location)
{
	if (!flags || !pool || !location)
		return vs_error(CU_INVALID_VALUE);
	*flags = 3; /* read and write: every card reaches every other */
	return CU_OK;
}
