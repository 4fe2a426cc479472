/* SPDX-License-Identifier: MIT
 *
 * Requests: find a cached block, or get a segment, retrying in PyTorch's order.
 */
#include "caching/internal.h"

#include <errno.h>
#include <stdlib.h>

/* torch 2.11 asks use_on_oom pools before it releases cached segments (PR 169699; try_mempool_fallback() in its
 * libc10_cuda.so, absent from 2.10's). */
#define VERSION_EARLY_FALLBACK 211
/* Since when a user's MemPool (unlike a graph's capture) no longer forbids releasing cached segments: 2.13 asks
 * is_capture_context(), which its libc10_cuda.so has and 2.12's has not. */
#define VERSION_POOLS_RECLAIM 213

static struct pool *new_pool(uint32_t owner, bool small)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (pool) {
		pool->owner = owner;
		pool->small = small;
	}
	return pool;
}

static int add_pair(struct vs_caching *caching)
{
	struct pool_pair *grown, *pair;

	grown = reallocarray(caching->pairs, caching->pair_count + 1U, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	caching->pairs = grown;
	pair = &grown[caching->pair_count];
	*pair = (struct pool_pair){0};
	pair->small = new_pool(caching->pair_count, true);
	pair->large = new_pool(caching->pair_count, false);
	if (!pair->small || !pair->large) {
		free(pair->small);
		free(pair->large);
		return -ENOMEM;
	}
	caching->pair_count++;
	return 0;
}

int vs_caching_new(const struct vs_caching_settings *settings, const struct vs_caching_device *device,
                   struct vs_caching **ret_caching)
{
	struct vs_caching *caching = calloc(1, sizeof(*caching));
	uint32_t standard;
	int r;

	if (!caching)
		return -ENOMEM;
	caching->settings = *settings;
	caching->device = *device;
	caching->limit = settings->memory_fraction < 1 ? (uint64_t)(settings->memory_fraction * (double)device->total)
	                                               : UINT64_MAX;
	r = vs_caching_pool(caching, 0, 0, &standard);
	if (r < 0) {
		vs_caching_free_all(caching);
		return r;
	}
	*ret_caching = caching;
	return 0;
}

void vs_caching_free_all(struct vs_caching *caching)
{
	if (!caching)
		return;
	for (uint32_t i = 0; i < caching->pair_count; i++) {
		free(caching->pairs[i].small);
		free(caching->pairs[i].large);
	}
	while (caching->expandables) {
		struct expandable *next = caching->expandables->next;

		free(caching->expandables);
		caching->expandables = next;
	}
	vs_blocks_free_all(caching);
	vs_pool_index_done(&caching->index);
	free(caching->pairs);
	free(caching);
}

int vs_caching_pool(struct vs_caching *caching, uint64_t first, uint64_t second, uint32_t *ret_pool)
{
	int r = vs_pool_index_get(&caching->index, first, second, ret_pool);

	return r == 0 && *ret_pool == caching->pair_count ? add_pair(caching) : r;
}

void vs_caching_pool_freeable(struct vs_caching *caching, uint32_t pool)
{
	caching->pairs[pool].freeable = true;
}

void vs_caching_pool_use_on_oom(struct vs_caching *caching, uint32_t pool, bool on)
{
	caching->pairs[pool].use_on_oom = on;
}

void vs_caching_pool_no_split(struct vs_caching *caching, uint32_t pool)
{
	caching->pairs[pool].no_split = true;
}

/* One request on its way. */
struct attempt {
	const struct vs_caching_request *request;
	struct pool *pool;
	uint64_t size;  /* rounded */
	uint64_t asked; /* from CUDA, where it comes to that */
	bool expandable;
};

static bool collects_garbage(const struct vs_caching *caching)
{
	return vs_caching_threshold(&caching->settings, caching->limit) != UINT64_MAX;
}

/* What an expandable block could grow to. */
static uint64_t potential(const struct vs_caching_block *block)
{
	return block->size + (block->next && block->next->unmapped ? block->next->size : 0);
}

static struct vs_tree_node *same_stream(struct vs_tree_node *node, uint64_t stream)
{
	return node && block_of(node)->stream == stream ? node : NULL;
}

static struct vs_caching_block *lookup(const struct vs_caching *caching, const struct attempt *a)
{
	const struct vs_caching_settings *settings = &caching->settings;
	struct vs_caching_block key = {.stream = a->request->stream, .size = a->size};
	struct vs_tree_node *node, *next;

	node = same_stream(vs_tree_lower_bound(&a->pool->free, &key.node, before_by_size), key.stream);
	if (!node)
		return NULL;
	if (block_of(node)->expandable && a->expandable) {
		/* The best fit is by what a block could grow to. */
		for (next = vs_tree_next(node); block_of(node)->expandable && same_stream(next, key.stream) &&
		                                potential(block_of(next)) < potential(block_of(node));
		     next = vs_tree_next(node))
			node = next;
	} else {
		/* Expandable segments were switched off since: their blocks are left alone. */
		while (node && block_of(node)->expandable)
			node = same_stream(vs_tree_next(node), key.stream);
		if (!node)
			return NULL;
	}
	if (a->size < settings->max_split_size && block_of(node)->size >= settings->max_split_size)
		return NULL;
	if (a->size >= settings->max_split_size && block_of(node)->size - a->size >= settings->max_non_split_rounding)
		return NULL;
	return block_of(node);
}

static struct vs_caching_block *take_cached(struct vs_caching *caching, const struct attempt *a)
{
	struct vs_caching_block *block;

	if (collects_garbage(caching))
		a->pool->lookups++;
	block = a->request->missed ? NULL : lookup(caching, a);
	if (block)
		vs_block_remove(block);
	return block;
}

static bool is_over_limit(const struct vs_caching *caching, const struct attempt *a)
{
	return a->asked > caching->limit || caching->stats.reserved > caching->limit - a->asked;
}

static struct vs_caching_block *take_new(struct vs_caching *caching, const struct attempt *a)
{
	struct vs_caching_block *block;
	uint64_t address;

	if (is_over_limit(caching, a))
		return NULL;
	if (a->expandable)
		return vs_expandable_allocate(caching, a->pool, a->request->stream, a->size);
	block = vs_block_new(caching, a->pool, a->request->stream, 0, a->asked);
	if (!block)
		return NULL;
	if (caching->device.allocate(caching->device.context, a->asked, &address) < 0) {
		vs_block_drop(caching, block);
		return NULL;
	}
	block->address = address;
	block->counter = vs_block_counter(caching);
	vs_reserve_more(caching, a->asked);
	return block;
}

static struct vs_caching_block *take_fallback(struct vs_caching *caching, const struct attempt *a)
{
	for (uint32_t i = 1; a->request->pool == 0 && i < caching->pair_count; i++) {
		struct attempt other = *a;
		struct vs_caching_block *block;

		if (!caching->pairs[i].use_on_oom)
			continue;
		other.pool = a->pool->small ? caching->pairs[i].small : caching->pairs[i].large;
		other.expandable = false;
		block = take_cached(caching, &other);
		if (block)
			return block;
	}
	return NULL;
}

bool vs_caching_may_release(const struct vs_caching *caching, const struct vs_caching_request *request)
{
	if (request->capturing)
		return false;
	return request->pool == 0 || caching->settings.version >= VERSION_POOLS_RECLAIM;
}

static struct vs_caching_block *take_after_release(struct vs_caching *caching, const struct attempt *a)
{
	struct vs_caching_block *block = NULL;

	if (vs_release_available(caching, a->pool, a->request->stream, a->size))
		block = take_new(caching, a);
	if (!block && vs_caching_may_release(caching, a->request)) {
		vs_release_cached(caching);
		caching->stats.retries++;
		block = take_new(caching, a);
	}
	return block;
}

static struct vs_caching_block *take(struct vs_caching *caching, const struct attempt *a)
{
	bool early = caching->settings.version >= VERSION_EARLY_FALLBACK;
	struct vs_caching_block *block = take_cached(caching, a);

	if (block)
		return block;
	if (a->request->retried) {
		caching->stats.retries++;
		return take_new(caching, a);
	}
	if (collects_garbage(caching))
		vs_release_garbage(caching);
	block = take_new(caching, a);
	if (!block && early)
		block = take_fallback(caching, a);
	if (!block)
		block = take_after_release(caching, a);
	if (!block && !early)
		block = take_fallback(caching, a);
	return block;
}

static bool should_split(const struct vs_caching *caching, const struct vs_caching_block *block,
                         const struct attempt *a)
{
	uint64_t rest = block->size - a->size;

	if (caching->pairs[block->pool->owner].no_split)
		return false;
	if (block->pool->small || a->expandable)
		return rest >= MIN_BLOCK;
	return a->size < caching->settings.max_split_size && rest > SMALL_SIZE;
}

static void hand_out(struct vs_caching *caching, struct vs_caching_block *block)
{
	struct vs_caching_stats *stats = &caching->stats;

	block->allocated = true;
	stats->allocated += block->size;
	stats->active += block->size;
	if (stats->allocated > stats->allocated_peak)
		stats->allocated_peak = stats->allocated;
	if (stats->active > stats->active_peak)
		stats->active_peak = stats->active;
}

static void prepare(const struct vs_caching *caching, const struct vs_caching_request *request,
                    struct attempt *ret_attempt)
{
	struct pool_pair *pair = &caching->pairs[request->pool];

	ret_attempt->request = request;
	ret_attempt->size = vs_caching_round(&caching->settings, request->size);
	ret_attempt->asked = vs_caching_segment_size(&caching->settings, ret_attempt->size);
	ret_attempt->pool = vs_caching_small(ret_attempt->size) ? pair->small : pair->large;
	ret_attempt->expandable = caching->settings.expandable_segments;
}

int vs_caching_malloc(struct vs_caching *caching, const struct vs_caching_request *request,
                      struct vs_caching_block **ret_block)
{
	struct vs_caching_block *block, *rest;
	struct attempt a;

	prepare(caching, request, &a);
	block = take(caching, &a);
	if (!block) {
		caching->stats.ooms++;
		return -ENOMEM;
	}
	if (should_split(caching, block, &a)) {
		rest =
		    vs_block_new(caching, block->pool, block->stream, block->address + a.size, block->size - a.size);
		if (!rest) {
			vs_block_insert(block);
			return -ENOMEM;
		}
		rest->expandable = block->expandable;
		rest->counter = block->counter;
		vs_block_link(rest, block, block->next);
		block->size = a.size;
		vs_block_insert(rest);
	}
	hand_out(caching, block);
	*ret_block = block;
	return 0;
}

const struct vs_caching_block *vs_caching_would_hit(const struct vs_caching *caching,
                                                    const struct vs_caching_request *request)
{
	struct attempt a;

	prepare(caching, request, &a);
	return lookup(caching, &a);
}

uint64_t vs_caching_needed(const struct vs_caching *caching, const struct vs_caching_request *request)
{
	struct attempt a;

	prepare(caching, request, &a);
	if (lookup(caching, &a))
		return 0;
	if (is_over_limit(caching, &a))
		return UINT64_MAX;
	return a.expandable ? vs_expandable_needed(caching, a.pool, request->stream, a.size) : a.asked;
}

void vs_caching_free(struct vs_caching *caching, struct vs_caching_block *block)
{
	block->allocated = false;
	caching->stats.allocated -= block->size;
	vs_block_free(caching, block);
}

uint64_t vs_caching_defer(struct vs_caching *caching, struct vs_caching_block *block)
{
	block->allocated = false;
	caching->stats.allocated -= block->size;
	block->pending = true;
	block->ticket = ++caching->tickets;
	block->pending_previous = NULL;
	block->pending_next = caching->pending;
	if (caching->pending)
		caching->pending->pending_previous = block;
	caching->pending = block;
	return block->ticket;
}

void vs_caching_complete(struct vs_caching *caching, struct vs_caching_block *block, uint64_t ticket)
{
	if (!block->pending || block->ticket != ticket)
		return;
	if (block->pending_previous)
		block->pending_previous->pending_next = block->pending_next;
	else
		caching->pending = block->pending_next;
	if (block->pending_next)
		block->pending_next->pending_previous = block->pending_previous;
	block->pending_next = block->pending_previous = NULL;
	block->pending = false;
	vs_block_free(caching, block);
}

uint64_t vs_caching_address(const struct vs_caching_block *block)
{
	return block->address;
}

uint64_t vs_caching_size(const struct vs_caching_block *block)
{
	return block->size;
}

const struct vs_caching_stats *vs_caching_stats(const struct vs_caching *caching)
{
	return &caching->stats;
}

void vs_caching_free_bytes(const struct vs_caching *caching, uint64_t *ret_releasable, uint64_t *ret_pinned,
                           uint64_t *ret_largest)
{
	uint64_t releasable = 0, pinned = 0, largest = 0;

	for (uint32_t i = 0; i < 2 * caching->pair_count; i++) {
		const struct pool *pool = i % 2 ? caching->pairs[i / 2].large : caching->pairs[i / 2].small;

		for (struct vs_tree_node *node = vs_tree_first(&pool->free); node; node = vs_tree_next(node)) {
			uint64_t size = block_of(node)->size;

			if (is_split(block_of(node)))
				pinned += size;
			else
				releasable += size;
			if (size > largest)
				largest = size;
		}
	}
	*ret_releasable = releasable;
	*ret_pinned = pinned;
	*ret_largest = largest;
}

static struct expandable *load_expandable(struct vs_caching *caching, const struct vs_caching_segment *segment)
{
	const struct vs_caching_piece *last = &segment->pieces[segment->piece_count - 1];
	struct expandable *expandable = malloc(sizeof(*expandable));

	if (!expandable)
		return NULL;
	expandable->address = segment->pieces[0].address;
	expandable->size = last->address + last->size - expandable->address;
	expandable->page = segment->small ? SMALL_BUFFER : caching->settings.large_segment_size;
	expandable->next = caching->expandables;
	caching->expandables = expandable;
	return expandable;
}

int vs_caching_load(struct vs_caching *caching, struct vs_caching_segment *segment)
{
	struct pool_pair *pair = &caching->pairs[segment->pool];
	struct pool *pool = segment->small ? pair->small : pair->large;
	struct expandable *expandable = NULL;
	struct vs_caching_block *previous = NULL;
	uint64_t counter = vs_block_counter(caching);

	if (segment->expandable && segment->piece_count) {
		expandable = load_expandable(caching, segment);
		if (!expandable)
			return -ENOMEM;
	}
	for (size_t i = 0; i < segment->piece_count; i++) {
		struct vs_caching_piece *piece = &segment->pieces[i];
		struct vs_caching_block *block;

		block = vs_block_new(caching, pool, segment->stream, piece->address, piece->size);
		if (!block)
			return -ENOMEM;
		block->expandable = expandable;
		block->counter = counter;
		block->unmapped = piece->state == VS_PIECE_UNMAPPED;
		vs_block_link(block, previous, NULL);
		if (!block->unmapped)
			caching->stats.reserved += piece->size;
		if (piece->state != VS_PIECE_FREE && !block->unmapped)
			hand_out(caching, block);
		if (piece->state == VS_PIECE_PENDING)
			piece->ticket = vs_caching_defer(caching, block);
		piece->block = block;
		previous = block;
	}
	/* A block must know its neighbours before it is in a set. */
	for (size_t i = 0; i < segment->piece_count; i++) {
		if (segment->pieces[i].state == VS_PIECE_FREE || segment->pieces[i].state == VS_PIECE_UNMAPPED)
			vs_block_insert(segment->pieces[i].block);
	}
	if (caching->stats.reserved > caching->stats.reserved_peak)
		caching->stats.reserved_peak = caching->stats.reserved;
	return 0;
}
