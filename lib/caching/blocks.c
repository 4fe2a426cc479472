/* SPDX-License-Identifier: MIT */
#include "caching/internal.h"

#include <stdlib.h>

#define SLAB_BLOCKS 512

struct slab {
	struct slab *next;
	struct vs_caching_block blocks[SLAB_BLOCKS];
};

static bool more_blocks(struct vs_caching *caching)
{
	struct slab *slab = malloc(sizeof(*slab));

	if (!slab)
		return false;
	slab->next = caching->slabs;
	caching->slabs = slab;
	for (size_t i = SLAB_BLOCKS; i-- > 0;) {
		slab->blocks[i].next = caching->unused;
		caching->unused = &slab->blocks[i];
	}
	return true;
}

struct vs_caching_block *vs_block_new(struct vs_caching *caching, struct pool *pool, uint64_t stream,
                                      uint64_t address, uint64_t size)
{
	struct vs_caching_block *block;

	if (!caching->unused && !more_blocks(caching))
		return NULL;
	block = caching->unused;
	caching->unused = block->next;
	*block = (struct vs_caching_block){.stream = stream, .size = size, .address = address, .pool = pool};
	return block;
}

void vs_block_drop(struct vs_caching *caching, struct vs_caching_block *block)
{
	block->next = caching->unused;
	caching->unused = block;
}

void vs_blocks_free_all(struct vs_caching *caching)
{
	while (caching->slabs) {
		struct slab *next = caching->slabs->next;

		free(caching->slabs);
		caching->slabs = next;
	}
}

/* Neighbours come and go, but while a block is free and in the set it keeps having some or none. */
static void count(struct vs_caching_block *block, size_t by)
{
	if (block->expandable)
		block->pool->expandable += by;
	else if (!is_split(block))
		block->pool->whole += by;
}

void vs_block_insert(struct vs_caching_block *block)
{
	if (block->unmapped) {
		vs_tree_insert(&block->pool->unmapped, &block->node, before_by_address);
		return;
	}
	block->age_base = block->pool->lookups;
	vs_tree_insert(&block->pool->free, &block->node, before_by_size);
	count(block, 1);
}

void vs_block_remove(struct vs_caching_block *block)
{
	vs_tree_remove(block->unmapped ? &block->pool->unmapped : &block->pool->free, &block->node);
	if (!block->unmapped)
		count(block, (size_t)-1);
}

/* torch 2.13 (PR 183591; BlockComparatorSizeCounterAddress in its libc10_cuda.so): equal fits go by the age of their
 * segment, so that all ranks of a job choose alike; up to 2.11, by address. 2.12 alone (PR 178362,
 * BlockComparatorRegistrationCounter) goes by the age of each block, which is not modelled: equal fits may come out in
 * another order there, which the replay says. */
#define VERSION_COUNTERS 213

uint64_t vs_block_counter(struct vs_caching *caching)
{
	return caching->settings.version >= VERSION_COUNTERS ? ++caching->counters : 0;
}

void vs_block_link(struct vs_caching_block *block, struct vs_caching_block *previous, struct vs_caching_block *next)
{
	block->previous = previous;
	block->next = next;
	if (previous)
		previous->next = block;
	if (next)
		next->previous = block;
}

void vs_block_merge(struct vs_caching *caching, struct vs_caching_block *block, struct vs_caching_block *neighbour)
{
	if (!is_free(neighbour) || neighbour->unmapped != block->unmapped)
		return;
	vs_block_remove(neighbour);
	if (block->previous == neighbour) {
		block->address = neighbour->address;
		block->previous = neighbour->previous;
		if (block->previous)
			block->previous->next = block;
	} else {
		block->next = neighbour->next;
		if (block->next)
			block->next->previous = block;
	}
	block->size += neighbour->size;
	vs_block_drop(caching, neighbour);
}

void vs_block_free(struct vs_caching *caching, struct vs_caching_block *block)
{
	caching->stats.active -= block->size;
	vs_block_merge(caching, block, block->previous);
	vs_block_merge(caching, block, block->next);
	vs_block_insert(block);
}
