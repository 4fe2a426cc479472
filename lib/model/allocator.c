/* SPDX-License-Identifier: MIT */
#include "model/allocator.h"

#include "base/space.h"
#include "caching/caching.h"

#include <errno.h>
#include <stdlib.h>

/* Addresses are numbers here: any range that no card fills. */
#define SPACE_START (UINT64_C(1) << 32)
#define SPACE_SIZE  (UINT64_C(1) << 48)
/* The release whose constants are used, as vs_caching_settings.version. */
#define TORCH 215

struct vs_allocator {
	struct vs_caching *caching;
	struct vs_space space;
	uint64_t capacity, used;
};

static int take(void *context, uint64_t size, uint64_t *ret_address)
{
	struct vs_allocator *a = context;
	uint64_t bytes = (size + VS_GRANULE - 1) / VS_GRANULE * VS_GRANULE;
	int error;

	if (bytes < size || bytes > a->capacity || a->used > a->capacity - bytes)
		return -ENOMEM;
	error = vs_space_take(&a->space, bytes, ret_address);
	if (!error)
		a->used += bytes;
	return error;
}

static void give(void *context, uint64_t address, uint64_t size)
{
	struct vs_allocator *a = context;
	uint64_t given;

	a->used -= (size + VS_GRANULE - 1) / VS_GRANULE * VS_GRANULE;
	vs_space_give(&a->space, address, &given);
}

int vs_allocator_new(uint64_t capacity, struct vs_allocator **ret_allocator)
{
	struct vs_allocator *a = calloc(1, sizeof(*a));
	struct vs_caching_settings settings;
	struct vs_caching_device device = {.total = capacity, .allocate = take, .release = give};
	int error;

	if (!a)
		return -ENOMEM;
	device.context = a;
	a->capacity = capacity;
	vs_space_init(&a->space, SPACE_START, SPACE_SIZE);
	vs_caching_defaults(&settings, TORCH);
	error = vs_caching_new(&settings, &device, &a->caching);
	if (error) {
		vs_space_done(&a->space);
		free(a);
		return error;
	}
	*ret_allocator = a;
	return 0;
}

void vs_allocator_free(struct vs_allocator *a)
{
	if (!a)
		return;
	vs_caching_free_all(a->caching);
	vs_space_done(&a->space);
	free(a);
}

static uint64_t allocate(void *context, uint64_t bytes, void **ret_handle)
{
	struct vs_allocator *a = context;
	struct vs_caching_block *block;

	if (vs_caching_malloc(a->caching, &(struct vs_caching_request){.size = bytes}, &block))
		return 0;
	*ret_handle = block;
	return vs_caching_size(block);
}

static void release(void *context, void *handle)
{
	struct vs_allocator *a = context;

	vs_caching_free(a->caching, handle);
	if (!vs_caching_stats(a->caching)->allocated)
		vs_caching_empty_cache(a->caching);
}

struct vs_tape_memory vs_allocator_memory(struct vs_allocator *a)
{
	return (struct vs_tape_memory){.context = a, .allocate = allocate, .release = release};
}

uint64_t vs_allocator_reserved(const struct vs_allocator *a)
{
	return vs_caching_stats(a->caching)->reserved_peak;
}
