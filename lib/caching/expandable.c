/* SPDX-License-Identifier: MIT
 *
 * Expandable segments: one long range of addresses a stream and pool, mapped
 * page by page as it is needed. Its blocks are a chain over the whole range;
 * what is not mapped is one unmapped block between mapped ones.
 */
#include "caching/internal.h"

#include <stdlib.h>

static uint64_t pages_up(uint64_t size, uint64_t page)
{
	return (size + page - 1) / page * page;
}

/* From `block` on, are there `size` bytes free, mapped or not? */
static bool has_room(const struct vs_caching_block *block, uint64_t size)
{
	uint64_t bytes = 0;

	while (bytes < size && is_free(block)) {
		bytes += block->size;
		block = block->next;
	}
	return bytes >= size;
}

static struct vs_caching_block *new_segment(struct vs_caching *caching, struct pool *pool, uint64_t stream)
{
	uint64_t page = pool->small ? SMALL_BUFFER : caching->settings.large_segment_size;
	struct expandable *expandable = malloc(sizeof(*expandable));
	struct vs_caching_block *block;

	if (!expandable)
		return NULL;
	expandable->page = page;
	/* An eighth more than the device holds, so that pages can move up when lower ones are unmapped. */
	expandable->size = pages_up(caching->device.total + caching->device.total / 8, page);
	if (caching->device.reserve(caching->device.context, expandable->size, &expandable->address) < 0) {
		free(expandable);
		return NULL;
	}
	block = vs_block_new(caching, pool, stream, expandable->address, expandable->size);
	if (!block) {
		caching->device.unreserve(caching->device.context, expandable->address, expandable->size);
		free(expandable);
		return NULL;
	}
	block->unmapped = true;
	block->expandable = expandable;
	block->counter = vs_block_counter(caching);
	vs_block_insert(block);
	expandable->next = caching->expandables;
	caching->expandables = expandable;
	return block;
}

/* The lowest place with enough room that is partly unmapped; it may begin with a free mapped block, which may be
 * enough by itself. NULL: in no segment that there is. */
static struct vs_caching_block *find_place(const struct pool *pool, uint64_t stream, uint64_t size)
{
	struct vs_caching_block key = {.stream = stream};
	struct vs_tree_node *node = vs_tree_lower_bound(&pool->unmapped, &key.node, before_by_address);

	for (; node && block_of(node)->stream == stream; node = vs_tree_next(node)) {
		struct vs_caching_block *block = block_of(node);

		if (is_free(block->previous))
			block = block->previous;
		if (has_room(block, size))
			return block;
	}
	return NULL;
}

uint64_t vs_expandable_needed(const struct vs_caching *caching, const struct pool *pool, uint64_t stream,
                              uint64_t size)
{
	const struct vs_caching_block *block = find_place(pool, stream, size);
	uint64_t page = pool->small ? SMALL_BUFFER : caching->settings.large_segment_size, needed = 0;

	if (!block)
		return pages_up(size, page);
	for (; block && size; block = block->next) {
		uint64_t part = block->size < size ? block->size : size;

		if (block->unmapped)
			needed += pages_up(part, page);
		size -= part;
	}
	return needed;
}

/* Map the first `size` bytes, in whole pages, of an unmapped block. */
static bool map_block(struct vs_caching *caching, struct vs_caching_block *block, uint64_t size)
{
	uint64_t page = block->expandable->page, mapped = pages_up(size, page);
	struct vs_caching_block *rest = NULL;

	if (mapped < block->size) {
		rest =
		    vs_block_new(caching, block->pool, block->stream, block->address + mapped, block->size - mapped);
		if (!rest)
			return false;
	}
	if (caching->device.map(caching->device.context, block->address, mapped, page) < 0) {
		if (rest)
			vs_block_drop(caching, rest);
		return false;
	}
	vs_block_remove(block);
	block->unmapped = false;
	if (rest) {
		rest->unmapped = true;
		rest->expandable = block->expandable;
		rest->counter = block->counter;
		vs_block_link(rest, block, block->next);
		vs_block_insert(rest);
		block->size = mapped;
	}
	vs_block_merge(caching, block, block->previous);
	vs_block_merge(caching, block, block->next);
	vs_block_insert(block);
	vs_reserve_more(caching, mapped);
	return true;
}

struct vs_caching_block *vs_expandable_allocate(struct vs_caching *caching, struct pool *pool, uint64_t stream,
                                                uint64_t size)
{
	struct vs_caching_block *block = find_place(pool, stream, size);

	if (!block)
		block = new_segment(caching, pool, stream);
	if (!block)
		return NULL;
	if (block->unmapped && !map_block(caching, block, block->size < size ? block->size : size))
		return NULL;
	while (block->size < size) {
		struct vs_caching_block *next = block->next;
		uint64_t missing = size - block->size;

		if (!next) /* more than the whole range */
			return NULL;
		/* What was mapped so far stays cached where this fails. */
		if (!map_block(caching, next, next->size < missing ? next->size : missing))
			return NULL;
		block = next;
	}
	vs_block_remove(block);
	return block;
}

static bool cut_off(struct vs_caching *caching, struct vs_caching_block *block, uint64_t address, uint64_t size,
                    bool after)
{
	struct vs_caching_block *piece = vs_block_new(caching, block->pool, block->stream, address, size);

	if (!piece)
		return false;
	piece->expandable = block->expandable;
	piece->counter = block->counter;
	if (after)
		vs_block_link(piece, block, block->next);
	else
		vs_block_link(piece, block->previous, block);
	vs_block_insert(piece);
	return true;
}

/* Unmap the whole pages inside a free block; its ends stay cached. */
void vs_expandable_unmap(struct vs_caching *caching, struct vs_caching_block *block)
{
	const struct expandable *expandable = block->expandable;
	uint64_t page = expandable->page, offset = block->address - expandable->address;
	uint64_t begin = pages_up(offset, page), end = (offset + block->size) / page * page;
	uint64_t before, after;

	if (begin >= end)
		return;
	vs_block_remove(block);
	before = begin - offset;
	after = offset + block->size - end;
	if (before)
		cut_off(caching, block, block->address, before, false);
	if (after)
		cut_off(caching, block, expandable->address + end, after, true);
	block->address = expandable->address + begin;
	block->size = end - begin;
	block->unmapped = true;
	caching->device.unmap(caching->device.context, block->address, block->size, page);
	vs_reserve_less(caching, end - begin);
	vs_block_merge(caching, block, block->previous);
	vs_block_merge(caching, block, block->next);
	vs_block_insert(block);
}

void vs_expandable_drop_if_empty(struct vs_caching *caching, struct vs_caching_block *block)
{
	struct expandable *expandable = block->expandable, **link = &caching->expandables;

	if (!block->unmapped || is_split(block))
		return;
	while (*link != expandable)
		link = &(*link)->next;
	*link = expandable->next;
	vs_block_remove(block);
	vs_block_drop(caching, block);
	caching->device.unreserve(caching->device.context, expandable->address, expandable->size);
	free(expandable);
}
