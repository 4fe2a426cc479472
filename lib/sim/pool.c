/* SPDX-License-Identifier: MIT */
#include "sim/pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/u64map.h"
#include "sim/books_private.h"

/* A range of granules that a pool has from the card, or a part of one. */
struct block {
	uint64_t address, size;
	uint64_t range, range_size; /* that it is of */
	bool in_use;                /* by the job, or for small requests to share */
	bool shared;
	uint64_t asked; /* by the job, rounded as its place is */
};

struct vs_pool {
	int device;
	bool off[3]; /* reuse policies */
	bool ended;  /* destroyed, with memory in use */
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	struct block *blocks;
	size_t count, capacity;
	struct vs_slabs slabs;
	struct vs_pool *next; /* all of them */
};

static struct vs_pool *pools;
static struct vs_pool *defaults[VS_DEVICES], *current[VS_DEVICES];
static _Atomic bool kept; /* some pool may hold what is not in use */

static bool exists(const struct vs_pool *pool)
{
	for (const struct vs_pool *p = pools; p; p = p->next)
		if (p == pool)
			return true;
	return false;
}

static bool is_alive(const struct vs_pool *pool)
{
	return exists(pool) && !pool->ended;
}

static struct vs_pool *make(int device)
{
	struct vs_pool *pool = calloc(1, sizeof(*pool));

	if (pool) {
		pool->device = device;
		pool->next = pools;
		pools = pool;
	}
	return pool;
}

static struct vs_pool *default_of(int device)
{
	if (!defaults[device])
		defaults[device] = make(device);
	return defaults[device];
}

static void raise(uint64_t *value, uint64_t *high, uint64_t by)
{
	*value += by;
	if (*value > *high)
		*high = *value;
}

static void release(struct vs_pool *pool, size_t i)
{
	vs_books_give(pool->device, pool->blocks[i].address);
	pool->reserved -= pool->blocks[i].size;
	pool->blocks[i] = pool->blocks[--pool->count];
}

/* Parts of one range that are free side by side are one again. */
static void join(struct vs_pool *pool, size_t index)
{
	for (size_t i = pool->count; i--;) {
		struct block *block = &pool->blocks[index], *other = &pool->blocks[i];
		bool beside =
		    other->address + other->size == block->address || block->address + block->size == other->address;

		if (i == index || other->in_use || other->range != block->range || !beside)
			continue;
		if (other->address < block->address)
			block->address = other->address;
		block->size += other->size;
		*other = pool->blocks[--pool->count];
		if (index == pool->count)
			index = i;
	}
}

static void shrink(struct vs_pool *pool, uint64_t keep)
{
	for (size_t i = pool->count; i-- && pool->reserved > keep;)
		if (!pool->blocks[i].in_use && pool->blocks[i].size == pool->blocks[i].range_size)
			release(pool, i);
}

/* A destroyed pool goes, with all that it has, once nothing of it is in use (cuMemPoolDestroy). */
static void bury(struct vs_pool *pool)
{
	struct vs_pool **link = &pools;

	if (!pool->ended || pool->used)
		return;
	shrink(pool, 0);
	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	vs_slabs_done(&pool->slabs);
	free(pool->blocks);
	free(pool);
}

bool vs_pools_squeeze(int device)
{
	uint64_t before = vs_books.cards[device].used;

	for (struct vs_pool *pool = pools; pool; pool = pool->next)
		if (pool->device == device && !pool->ended)
			shrink(pool, 0);
	return vs_books.cards[device].used != before;
}

void vs_pools_forget(int device)
{
	struct vs_pool *next;

	for (struct vs_pool *pool = pools; pool; pool = next) {
		next = pool->next;
		if (device >= 0 && pool->device != device)
			continue;
		for (size_t i = 0; i < pool->count; i++)
			pool->blocks[i].in_use = false;
		for (size_t before = 0; before != pool->count;) {
			before = pool->count;
			for (size_t i = 0; i < pool->count; i++)
				join(pool, i);
		}
		shrink(pool, 0);
		vs_slabs_done(&pool->slabs);
		pool->used = 0;
		pool->ended |= device < 0;
		bury(pool);
	}
	if (device < 0) {
		memset(defaults, 0, sizeof(defaults));
		memset(current, 0, sizeof(current));
	}
}

static struct block *add_block(struct vs_pool *pool)
{
	if (vs_grow(&pool->blocks, &pool->capacity, pool->count + 1, sizeof(*pool->blocks)) < 0)
		return NULL;
	return &pool->blocks[pool->count++];
}

/* Bytes that it was told to keep, in whole granules as all it has. */
static uint64_t to_keep(const struct vs_pool *pool)
{
	uint64_t most = UINT64_MAX - VS_GRANULE;

	return (pool->threshold < most ? pool->threshold + VS_GRANULE - 1 : most) / VS_GRANULE * VS_GRANULE;
}

/* What is freed stays with a pool that was told to keep all it has: such a pool divides it. Of others it is not known
 * whether they would give back a range that is in use in part. */
static bool divides(const struct vs_pool *pool)
{
	return to_keep(pool) >= pool->reserved;
}

static struct block *kept_block(struct vs_pool *pool, uint64_t size)
{
	struct block *best = NULL, *rest;

	for (size_t i = 0; i < pool->count; i++) {
		struct block *block = &pool->blocks[i];

		/* Without wasting half of it, where it is not to be divided. */
		if (!block->in_use && block->size >= size && (block->size / 2 <= size || divides(pool)) &&
		    (!best || block->size < best->size))
			best = block;
	}
	if (best && best->size > size && divides(pool)) {
		size_t index = (size_t)(best - pool->blocks);

		rest = add_block(pool);
		best = &pool->blocks[index]; /* they may have moved */
		if (rest) {
			*rest = *best;
			rest->address += size;
			rest->size -= size;
			best->size = size;
		}
	}
	return best;
}

/* A block of whole granules: the smallest that is kept and fits, else from the card. */
static int take_block(struct vs_pool *pool, uint64_t size, struct block **ret_block)
{
	struct block *best;
	uint64_t address;
	int r;

	if (size > vs_books.cards[pool->device].total)
		return CU_OUT_OF_MEMORY;
	size = (size + VS_GRANULE - 1) / VS_GRANULE * VS_GRANULE;
	best = kept_block(pool, size);
	if (!best) {
		r = vs_books_take(pool->device, size, &address);
		if (r == CU_OUT_OF_MEMORY && vs_pools_squeeze(pool->device))
			r = vs_books_take(pool->device, size, &address);
		if (r != CU_OK)
			return r;
		best = add_block(pool);
		if (!best) {
			vs_books_give(pool->device, address);
			return CU_OUT_OF_MEMORY;
		}
		*best = (struct block){.address = address, .size = size, .range = address, .range_size = size};
		raise(&pool->reserved, &pool->reserved_high, size);
	}
	best->in_use = true;
	best->shared = false;
	*ret_block = best;
	return CU_OK;
}

static int take_small(struct vs_pool *pool, uint64_t size, uint64_t *ret_address)
{
	struct block *block;
	int r;

	if (vs_slabs_take(&pool->slabs, size, ret_address) == 0)
		return CU_OK;
	r = take_block(pool, VS_GRANULE, &block);
	if (r != CU_OK)
		return r;
	block->shared = true;
	if (vs_slabs_add(&pool->slabs, block->address) < 0 || vs_slabs_take(&pool->slabs, size, ret_address) < 0) {
		block->in_use = false;
		return CU_OUT_OF_MEMORY;
	}
	return CU_OK;
}

int vs_pool_malloc(struct vs_pool *pool, uint64_t size, uint64_t *ret_address)
{
	struct block *block;
	uint64_t asked = size;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (is_alive(pool) && size) {
		if (size <= VS_SLAB_MAX) {
			asked = (size + VS_SLAB_UNIT - 1) / VS_SLAB_UNIT * VS_SLAB_UNIT;
			r = take_small(pool, size, ret_address);
		} else {
			r = take_block(pool, size, &block);
			if (r == CU_OK) {
				block->asked = asked;
				*ret_address = block->address;
			}
		}
		if (r == CU_OK)
			raise(&pool->used, &pool->used_high, asked);
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static struct block *block_at(const struct vs_pool *pool, uint64_t address)
{
	for (size_t i = 0; i < pool->count; i++)
		if (address - pool->blocks[i].address < pool->blocks[i].size)
			return &pool->blocks[i];
	return NULL;
}

static struct block *find(uint64_t address, struct vs_pool **ret_pool)
{
	for (*ret_pool = pools; *ret_pool; *ret_pool = (*ret_pool)->next) {
		struct block *block = block_at(*ret_pool, address);

		if (block)
			return block;
	}
	return NULL;
}

static void give_block(struct vs_pool *pool, struct block *block)
{
	block->in_use = false;
	join(pool, (size_t)(block - pool->blocks));
}

static void give_small(struct vs_pool *pool, uint64_t address, uint64_t size)
{
	uint64_t granule;

	if (vs_slabs_give(&pool->slabs, address, &granule) == 1)
		give_block(pool, block_at(pool, granule));
	pool->used -= size;
}

int vs_pools_give(uint64_t address)
{
	struct vs_pool *pool;
	struct block *block = find(address, &pool);
	uint64_t start, size;

	if (!block)
		return CU_NOT_FOUND;
	if (block->in_use && block->shared) {
		if (vs_slabs_find(&pool->slabs, address, &start, &size) || start != address)
			return CU_INVALID_VALUE;
		give_small(pool, address, size);
	} else if (block->in_use && block->address == address) {
		pool->used -= block->asked;
		give_block(pool, block);
	} else {
		return CU_INVALID_VALUE;
	}
	kept = true;
	bury(pool);
	return CU_OK;
}

bool vs_pools_find(uint64_t address, uint64_t *ret_start, uint64_t *ret_size, struct vs_pool **ret_pool)
{
	struct block *block = find(address, ret_pool);

	if (!block || !block->in_use)
		return false;
	if (block->shared)
		return vs_slabs_find(&(*ret_pool)->slabs, address, ret_start, ret_size) == 0;
	*ret_start = block->address;
	*ret_size = block->asked;
	return address - block->address < block->asked;
}

bool vs_pools_own(uint64_t address)
{
	struct vs_pool *pool;

	return find(address, &pool) != NULL;
}

struct vs_pool *vs_pool_of(uint64_t address)
{
	struct vs_pool *pool = NULL;
	uint64_t start, size;

	pthread_mutex_lock(&vs_books.lock);
	if (!vs_pools_find(address, &start, &size, &pool))
		pool = NULL;
	pthread_mutex_unlock(&vs_books.lock);
	return pool;
}

struct vs_pool *vs_pool_default(int device)
{
	struct vs_pool *pool;

	pthread_mutex_lock(&vs_books.lock);
	pool = default_of(device);
	pthread_mutex_unlock(&vs_books.lock);
	return pool;
}

struct vs_pool *vs_pool_current(int device)
{
	struct vs_pool *pool;

	pthread_mutex_lock(&vs_books.lock);
	pool = current[device] ? current[device] : default_of(device);
	pthread_mutex_unlock(&vs_books.lock);
	return pool;
}

int vs_pool_set_current(int device, struct vs_pool *pool)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (is_alive(pool) && pool->device == device) {
		current[device] = pool;
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_pool_new(int device, struct vs_pool **ret_pool)
{
	struct vs_pool *pool;

	pthread_mutex_lock(&vs_books.lock);
	pool = make(device);
	pthread_mutex_unlock(&vs_books.lock);
	if (!pool)
		return CU_OUT_OF_MEMORY;
	*ret_pool = pool;
	return CU_OK;
}

int vs_pool_free(struct vs_pool *pool)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (is_alive(pool) && pool != defaults[pool->device]) {
		if (current[pool->device] == pool)
			current[pool->device] = NULL;
		pool->ended = true;
		bury(pool);
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_pool_device(struct vs_pool *pool, int *ret_device)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (is_alive(pool)) {
		*ret_device = pool->device;
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_pool_trim(struct vs_pool *pool, uint64_t keep)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (is_alive(pool)) {
		shrink(pool, keep);
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

void vs_pool_settle(void)
{
	if (!atomic_exchange(&kept, false))
		return;
	pthread_mutex_lock(&vs_books.lock);
	for (struct vs_pool *pool = pools; pool; pool = pool->next)
		if (!pool->ended)
			shrink(pool, to_keep(pool));
	pthread_mutex_unlock(&vs_books.lock);
}

/* cudaMemPoolAttr: 1-3 reuse switches, 4 release threshold, 5 reserved now, 6 reserved high, 7 used now, 8 high. */
static int attribute_of(struct vs_pool *pool, int attribute, bool set, void *value)
{
	uint64_t *sums[] = {&pool->reserved, &pool->reserved_high, &pool->used, &pool->used_high};

	if (attribute <= 3) {
		if (set)
			pool->off[attribute - 1] = !*(int *)value;
		else
			*(int *)value = !pool->off[attribute - 1]; /* on at the start */
	} else if (attribute == 4) {
		if (set)
			pool->threshold = *(uint64_t *)value;
		else
			*(uint64_t *)value = pool->threshold;
	} else if (!set) {
		*(uint64_t *)value = *sums[attribute - 5];
	} else if (attribute % 2 || *(uint64_t *)value) {
		return CU_INVALID_VALUE; /* of the high marks alone, and to zero alone */
	} else {
		*sums[attribute - 5] = *sums[attribute - 6];
	}
	return CU_OK;
}

int vs_pool_attribute(struct vs_pool *pool, int attribute, bool set, void *value)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	if (value && attribute >= 1 && attribute <= 8 && is_alive(pool))
		r = attribute_of(pool, attribute, set, value);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}
