/* SPDX-License-Identifier: MIT
 *
 * Giving cached segments back to the device: by age, just enough, or all.
 */
#include "caching/internal.h"

#include <errno.h>

void vs_release_block(struct vs_caching *caching, struct vs_caching_block *block)
{
	caching->device.release(caching->device.context, block->address, block->size);
	vs_reserve_less(caching, block->size);
	vs_block_remove(block);
	vs_block_drop(caching, block);
}

static int64_t age(const struct vs_caching_block *block)
{
	return block->pool->lookups - block->age_base;
}

uint64_t vs_caching_threshold(const struct vs_caching_settings *settings, uint64_t limit)
{
	double fraction = settings->garbage_collection_threshold;

	return limit != UINT64_MAX && fraction > 0 ? (uint64_t)(fraction * (double)limit) : UINT64_MAX;
}

/* Mark the whole cached segments of the default large pool that are older than the average, again and again until
 * what is above the threshold is reclaimed. */
static struct vs_caching_room mark_garbage(struct vs_caching *caching)
{
	struct pool *pool = caching->pairs[0].large;
	uint64_t threshold, target, total_age = 0;
	struct vs_caching_room marked = {0};
	int64_t count = 0;
	bool progress = true;

	threshold = vs_caching_threshold(&caching->settings, caching->limit);
	if (caching->stats.reserved <= threshold)
		return marked;
	target = caching->stats.reserved - threshold;
	for (struct vs_tree_node *node = vs_tree_first(&pool->free); node; node = vs_tree_next(node)) {
		if (is_split(block_of(node)))
			continue;
		total_age += (uint64_t)age(block_of(node));
		count++;
	}
	while (marked.bytes < target && progress && count > 0) {
		double limit = (double)total_age / (double)count;

		progress = false;
		for (struct vs_tree_node *node = vs_tree_first(&pool->free); node; node = vs_tree_next(node)) {
			struct vs_caching_block *block = block_of(node);

			if (is_split(block) || block->expandable || block->doomed || (double)age(block) < limit)
				continue;
			progress = block->doomed = true;
			if (!marked.count++)
				marked.first = block->address;
			marked.bytes += block->size;
			total_age -= (uint64_t)age(block);
			count--;
		}
	}
	marked.enough = marked.bytes >= target;
	return marked;
}

static void sweep_garbage(struct vs_caching *caching, bool release)
{
	struct vs_tree_node *node, *next;

	for (node = vs_tree_first(&caching->pairs[0].large->free); node; node = next) {
		next = vs_tree_next(node);
		if (block_of(node)->doomed && release)
			vs_release_block(caching, block_of(node));
		else
			block_of(node)->doomed = false;
	}
}

void vs_release_garbage(struct vs_caching *caching)
{
	if (mark_garbage(caching).count)
		sweep_garbage(caching, true);
}

struct vs_caching_room vs_caching_would_collect(struct vs_caching *caching)
{
	struct vs_caching_room marked = {0};

	if (vs_caching_threshold(&caching->settings, caching->limit) == UINT64_MAX)
		return marked;
	/* The look-up that fails first makes all cached blocks older. */
	caching->pairs[0].large->lookups++;
	marked = mark_garbage(caching);
	caching->pairs[0].large->lookups--;
	if (marked.count)
		sweep_garbage(caching, false);
	return marked;
}

/* Where vs_release_available() begins: one block that is enough by itself, or the largest of several. */
static struct vs_tree_node *first_available(const struct vs_caching *caching, const struct pool *pool,
                                            uint64_t stream, uint64_t wanted, bool *ret_enough)
{
	struct vs_caching_block key = {.stream = stream, .size = wanted};
	struct vs_tree_node *node = vs_tree_lower_bound(&pool->free, &key.node, before_by_size);

	*ret_enough = node && block_of(node)->stream == stream && !block_of(node)->expandable;
	if (*ret_enough)
		return node;
	node = node ? vs_tree_previous(node) : vs_tree_last(&pool->free);
	if (node && (block_of(node)->size < caching->settings.max_split_size || block_of(node)->stream != stream))
		return NULL;
	return node;
}

static uint64_t at_least_oversize(const struct vs_caching *caching, uint64_t size)
{
	return size < caching->settings.max_split_size ? caching->settings.max_split_size : size;
}

/* max_split_size: oversize blocks are never split, so one that is big enough, or several, can go without touching
 * the rest of the cache. Only told, where `release` is false. */
static struct vs_caching_room make_room(struct vs_caching *caching, struct pool *pool, uint64_t stream, uint64_t size,
                                        bool release)
{
	uint64_t oversize = caching->settings.max_split_size, wanted = at_least_oversize(caching, size);
	struct vs_caching_room room = {0};
	struct vs_tree_node *node, *previous;
	bool enough;

	if (oversize == VS_CACHING_UNLIMITED)
		return room;
	for (node = first_available(caching, pool, stream, wanted, &enough);
	     node && room.bytes < wanted && block_of(node)->size >= oversize && block_of(node)->stream == stream;
	     node = previous) {
		previous = vs_tree_previous(node);
		if (block_of(node)->expandable)
			continue;
		if (!room.count++)
			room.first = block_of(node)->address;
		room.bytes += block_of(node)->size;
		if (release)
			vs_release_block(caching, block_of(node));
	}
	room.enough = room.bytes >= wanted;
	return room;
}

bool vs_release_available(struct vs_caching *caching, struct pool *pool, uint64_t stream, uint64_t size)
{
	return make_room(caching, pool, stream, size, true).enough;
}

struct vs_caching_room vs_caching_would_release(struct vs_caching *caching, const struct vs_caching_request *request)
{
	const struct pool_pair *pair = &caching->pairs[request->pool];
	uint64_t size = vs_caching_round(&caching->settings, request->size);

	return make_room(caching, vs_caching_small(size) ? pair->small : pair->large, request->stream, size, false);
}

static void release_pool(struct vs_caching *caching, struct pool *pool)
{
	struct vs_caching_block *to_unmap = NULL, **tail = &to_unmap;
	struct vs_tree_node *node, *next;

	if (!pool || (!pool->whole && !pool->expandable))
		return;
	for (node = vs_tree_first(&pool->free); node; node = next) {
		struct vs_caching_block *block = block_of(node);

		next = vs_tree_next(node);
		if (block->expandable) {
			/* Unmapping changes the set: gather first. */
			*tail = block;
			tail = &block->pending_next;
			*tail = NULL;
		} else if (!is_split(block)) {
			vs_release_block(caching, block);
		}
	}
	while (to_unmap) {
		struct vs_caching_block *block = to_unmap;

		to_unmap = block->pending_next;
		block->pending_next = NULL;
		vs_expandable_unmap(caching, block);
		vs_expandable_drop_if_empty(caching, block);
	}
}

static void synchronise(struct vs_caching *caching)
{
	while (caching->pending)
		vs_caching_complete(caching, caching->pending, caching->pending->ticket);
}

void vs_release_cached(struct vs_caching *caching)
{
	synchronise(caching);
	release_pool(caching, caching->pairs[0].large);
	release_pool(caching, caching->pairs[0].small);
	for (uint32_t i = 1; i < caching->pair_count; i++) {
		if (!caching->pairs[i].freeable)
			continue;
		release_pool(caching, caching->pairs[i].small);
		release_pool(caching, caching->pairs[i].large);
	}
}

static bool has_releasable(const struct pool *pool)
{
	if (pool->whole || !pool->expandable)
		return pool->whole;
	for (struct vs_tree_node *node = vs_tree_first(&pool->free); node; node = vs_tree_next(node)) {
		const struct vs_caching_block *block = block_of(node);
		const struct expandable *expandable = block->expandable;

		if (expandable) { /* a whole page inside? */
			uint64_t offset = block->address - expandable->address, page = expandable->page;

			if ((offset + page - 1) / page < (offset + block->size) / page)
				return true;
		}
	}
	return false;
}

bool vs_caching_has_releasable(const struct vs_caching *caching)
{
	for (uint32_t i = 0; i < caching->pair_count; i++) {
		const struct pool_pair *pair = &caching->pairs[i];

		if ((i == 0 || pair->freeable) && (has_releasable(pair->small) || has_releasable(pair->large)))
			return true;
	}
	return false;
}

void vs_caching_empty_cache(struct vs_caching *caching)
{
	vs_release_cached(caching);
}

/* The free block at (or, of an expandable segment, around) an address. */
static struct vs_caching_block *find_free(struct pool *pool, uint64_t stream, uint64_t address, uint64_t size)
{
	struct vs_caching_block key = {.stream = stream, .size = size};
	struct vs_tree_node *node = vs_tree_lower_bound(&pool->free, &key.node, before_by_size);

	/* A part of an expandable segment lies in a free block of at least its size. */
	for (; node && block_of(node)->stream == stream; node = vs_tree_next(node)) {
		struct vs_caching_block *block = block_of(node);

		if (block->expandable ? address >= block->address && address - block->address <= block->size - size
		                      : block->address == address && block->size == size && !is_split(block))
			return block;
	}
	return NULL;
}

int vs_caching_release_at(struct vs_caching *caching, uint64_t stream, uint64_t address, uint64_t size)
{
	struct vs_caching_block *block = NULL;

	for (uint32_t i = 0; !block && i < 2 * caching->pair_count; i++)
		block = find_free(i % 2 ? caching->pairs[i / 2].small : caching->pairs[i / 2].large, stream, address,
		                  size);
	if (!block)
		return -ENOENT;
	if (block->expandable) {
		vs_expandable_unmap(caching, block);
		vs_expandable_drop_if_empty(caching, block);
	} else {
		vs_release_block(caching, block);
	}
	return 0;
}
