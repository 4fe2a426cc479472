/* SPDX-License-Identifier: MIT
 *
 * What the parts of the model share.
 */
#ifndef VS_CACHING_INTERNAL_H
#define VS_CACHING_INTERNAL_H

#include "caching/caching.h"
#include "caching/pool_index.h"
#include "caching/tree.h"

/* c10/core/AllocatorConfig.h (torch 2.11, 2.15); c10/cuda/CUDACachingAllocator.cpp before. Bytes. */
#define MIN_BLOCK    UINT64_C(512)
#define SMALL_SIZE   (UINT64_C(1) << 20)
#define SMALL_BUFFER (UINT64_C(2) << 20)
#define MIN_LARGE    (UINT64_C(10) << 20)
#define LARGE_BUFFER (UINT64_C(20) << 20)
#define ROUND_LARGE  (UINT64_C(2) << 20)

struct pool;

/* An expandable segment: a reserved range of addresses, mapped in pages. */
struct expandable {
	struct expandable *next;
	uint64_t address, size;
	uint64_t page;
};

struct vs_caching_block {
	struct vs_tree_node node; /* in pool->free or pool->unmapped; must be first */
	uint64_t stream;
	uint64_t size;
	uint64_t address;
	struct vs_caching_block *previous, *next; /* neighbours in the segment; `next` also chains unused blocks */
	struct pool *pool;
	struct expandable *expandable;
	struct vs_caching_block *pending_next, *pending_previous;
	int64_t age_base; /* pool->lookups when it became free */
	uint64_t ticket;  /* of a pending free */
	uint64_t counter; /* which segment came first; 0 for all where the version orders by address alone */
	bool allocated;
	bool pending;
	bool unmapped;
	bool doomed; /* marked as garbage */
};

struct pool {
	struct vs_tree free;     /* by stream, size, counter, address */
	struct vs_tree unmapped; /* by stream, address */
	size_t whole;            /* of `free`: segments that are wholly free */
	size_t expandable;       /* ... and blocks of expandable ones */
	int64_t lookups;
	uint32_t owner; /* index of the pool pair */
	bool small;
};

struct pool_pair {
	struct pool *small, *large;
	bool freeable, use_on_oom, no_split;
};

struct vs_caching {
	struct vs_caching_settings settings;
	struct vs_caching_device device;
	struct vs_caching_stats stats;
	struct pool_pair *pairs; /* [0]: the default pools */
	uint32_t pair_count;
	struct vs_pool_index index; /* of the pairs */
	struct expandable *expandables;
	struct vs_caching_block *pending; /* deferred frees, newest first */
	struct vs_caching_block *unused;
	struct slab *slabs;
	uint64_t tickets;
	uint64_t counters; /* of segments */
	uint64_t limit;    /* bytes that may be reserved; UINT64_MAX: no fraction set */
};

static inline struct vs_caching_block *block_of(struct vs_tree_node *node)
{
	return (struct vs_caching_block *)(void *)node; /* the node is the first member */
}

static inline bool before_by_size(const struct vs_tree_node *left, const struct vs_tree_node *right)
{
	const struct vs_caching_block *a = (const void *)left, *b = (const void *)right;

	if (a->stream != b->stream)
		return a->stream < b->stream;
	if (a->size != b->size)
		return a->size < b->size;
	if (a->counter != b->counter)
		return a->counter < b->counter;
	return a->address < b->address;
}

static inline bool before_by_address(const struct vs_tree_node *left, const struct vs_tree_node *right)
{
	const struct vs_caching_block *a = (const void *)left, *b = (const void *)right;

	if (a->stream != b->stream)
		return a->stream < b->stream;
	return a->address < b->address;
}

static inline bool is_split(const struct vs_caching_block *block)
{
	return block->previous || block->next;
}

static inline bool is_free(const struct vs_caching_block *block)
{
	return block && !block->allocated && !block->pending;
}

/* blocks.c: the life of blocks and the sets they are in. */
struct vs_caching_block *vs_block_new(struct vs_caching *caching, struct pool *pool, uint64_t stream,
                                      uint64_t address, uint64_t size);
void vs_block_drop(struct vs_caching *caching, struct vs_caching_block *block);
void vs_block_insert(struct vs_caching_block *block);
void vs_block_remove(struct vs_caching_block *block);
/* A new segment's place in the order of segments. */
uint64_t vs_block_counter(struct vs_caching *caching);
/* Put a block between two neighbours (either may be NULL). */
void vs_block_link(struct vs_caching_block *block, struct vs_caching_block *previous, struct vs_caching_block *next);
/* Swallow a neighbour that is free and mapped alike; it is in its set, `block` is in none. */
void vs_block_merge(struct vs_caching *caching, struct vs_caching_block *block, struct vs_caching_block *neighbour);
void vs_block_free(struct vs_caching *caching, struct vs_caching_block *block);
void vs_blocks_free_all(struct vs_caching *caching);

/* expandable.c */
struct vs_caching_block *vs_expandable_allocate(struct vs_caching *caching, struct pool *pool, uint64_t stream,
                                                uint64_t size);
/* How many bytes would that map? */
uint64_t vs_expandable_needed(const struct vs_caching *caching, const struct pool *pool, uint64_t stream,
                              uint64_t size);
void vs_expandable_unmap(struct vs_caching *caching, struct vs_caching_block *block);
/* After vs_expandable_unmap(): gives the address space back where nothing is mapped any more. */
void vs_expandable_drop_if_empty(struct vs_caching *caching, struct vs_caching_block *block);

/* release.c */
void vs_release_block(struct vs_caching *caching, struct vs_caching_block *block);
void vs_release_garbage(struct vs_caching *caching);
bool vs_release_available(struct vs_caching *caching, struct pool *pool, uint64_t stream, uint64_t size);
void vs_release_cached(struct vs_caching *caching);

static inline void vs_reserve_more(struct vs_caching *caching, uint64_t size)
{
	caching->stats.reserved += size;
	if (caching->stats.reserved > caching->stats.reserved_peak)
		caching->stats.reserved_peak = caching->stats.reserved;
	caching->stats.device_allocations++;
}

static inline void vs_reserve_less(struct vs_caching *caching, uint64_t size)
{
	caching->stats.reserved -= size;
	caching->stats.device_frees++;
}

#endif
