/* SPDX-License-Identifier: MIT
 *
 * A request gets the best fit among the free blocks of its pool and stream. So
 * the block it got and each better one were of two pools, and where it had to
 * get a segment, so were that and each free block that would have done. What
 * was free when, the recording tells without any pool. That leaves segments to
 * be coloured, some of which have their colour from the final state.
 *
 * A release tells more, but in alternatives (torch 2.6 to 2.12, malloc() in
 * c10/cuda/CUDACachingAllocator.cpp):
 * - empty_cache(), or a request of the default pools before it gives up,
 *   releases each whole free segment of the default pools and no other;
 * - a request that finds no memory first releases oversize blocks of its own
 *   pool and stream: the best fit if one is enough, else from the largest
 *   down (release_available_cached_blocks());
 * - garbage collection releases large segments of the default pools before
 *   that: all of them, or as many as bring what is reserved below a threshold;
 * - a request within a private pool releases nothing else.
 *
 * There may be several answers: tests/unit/test_untold.c has two histories
 * with one trace. Each that fits is as good for what was recorded; under other
 * settings they may part. What is not used here: which garbage is old enough,
 * where some of it stays. It depends on the pools of all requests since it was
 * free; where that matters, the replay may not be exact, and says so.
 */
#include "caching/untold.h"

#include "base/buffer.h"
#include "caching/internal.h"
#include "caching/oracle.h"
#include "caching/puzzle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Values of an unknown are sets in 32 bits. */
#define MAX_POOLS 32
/* Blocks looked at, and steps of the puzzle: a second or so each. */
#define MAX_LOOKS UINT64_C(50000000)
#define MAX_STEPS UINT64_C(50000000)

/* Pairs and claims: 60 bytes each, a quarter of a gigabyte. */
#define MAX_NOTED (UINT64_C(1) << 22)

#define STANDARD UINT32_C(1) /* the set of the default pools alone */

struct release {
	struct vs_caching_block *block;
	uint32_t life;
};

struct untold {
	const struct vs_replay_recording *recording;
	struct vs_lives *lives;
	struct vs_puzzle puzzle; /* its unknowns: the lives, then the refusals */
	/* The blocks as they were, those of all pools in one; block->ticket is the life's index. */
	struct vs_caching *store;
	struct vs_caching_block **first; /* of each life; NULL: it is not there */
	uint32_t refusals;               /* so far */
	uint64_t reserved, most, limit;  /* now; the device has proved to hold so much; it is allowed */
	uint64_t threshold;              /* of garbage collection, of what is reserved */
	bool strict;                     /* a device refuses only what it has not */
	uint64_t looks;
	struct release *releases; /* of the group under way */
	size_t release_count, release_capacity;
};

/* A request at the moment of its look-up. */
struct wish {
	uint64_t stream, size; /* rounded */
	uint64_t asked;        /* of the device */
	uint64_t free;         /* of a refused one: what the device had left */
	uint32_t who;          /* the unknown that has its pool */
	bool small, refused;
};

/* -EDQUOT: more than is worth the time, or the memory. */
static int check_effort(const struct untold *u)
{
	return u->looks > MAX_LOOKS || u->puzzle.pair_count + u->puzzle.claim_count > MAX_NOTED ? -EDQUOT : 0;
}

static struct vs_tree *tree_of(struct untold *u, bool small)
{
	struct pool_pair *pair = &u->store->pairs[0];

	return small ? &pair->small->free : &pair->large->free;
}

static uint32_t life_of(const struct vs_caching_block *block)
{
	return (uint32_t)block->ticket;
}

static bool is_whole(const struct vs_caching_block *block)
{
	return is_free(block) && !is_split(block);
}

static struct vs_caching_block *block_at(struct untold *u, size_t event)
{
	uint32_t life = u->lives->of_event[event];
	struct vs_caching_block *block = life == VS_NO_LIFE ? NULL : u->first[life];

	while (block && block->address != u->recording->events[event].address) {
		block = block->next;
		u->looks++;
	}
	return block;
}

static struct vs_caching_block *new_block(struct untold *u, uint32_t life, uint64_t address, uint64_t size)
{
	const struct vs_life *about = &u->lives->all[life];
	struct pool_pair *pair = &u->store->pairs[0];
	struct vs_caching_block *block =
	    vs_block_new(u->store, about->small ? pair->small : pair->large, about->stream, address, size);

	if (block)
		block->ticket = life;
	return block;
}

static void give_back(struct untold *u, struct vs_caching_block *block)
{
	block->allocated = block->pending = false;
	vs_block_free(u->store, block);
	if (!block->previous)
		u->first[life_of(block)] = block;
}

/* -ENOENT, here and below: the recording does not hang together, so nothing is to be learnt from it. */
static int on_complete(struct untold *u, size_t event)
{
	struct vs_caching_block *block = block_at(u, event);

	if (!block || !block->pending)
		return -ENOENT;
	give_back(u, block);
	return 0;
}

static int on_free(struct untold *u, size_t event, bool at_once)
{
	struct vs_caching_block *block = block_at(u, event);

	if (!block || !block->allocated)
		return -ENOENT;
	if (at_once) {
		give_back(u, block);
	} else {
		block->allocated = false;
		block->pending = true;
	}
	return 0;
}

static int on_segment(struct untold *u, size_t event)
{
	uint32_t life = u->lives->of_event[event];
	struct vs_caching_block *block;

	/* Segments that overlap are nonsense. */
	if (life == VS_NO_LIFE || u->first[life] ||
	    u->lives->all[life].address != u->recording->events[event].address)
		return -ENOENT;
	block = new_block(u, life, u->lives->all[life].address, u->lives->all[life].size);
	if (!block)
		return -ENOMEM;
	vs_block_insert(block);
	u->first[life] = block;
	u->reserved += block->size;
	return 0;
}

static int on_release(struct untold *u, size_t event)
{
	struct vs_caching_block *block = block_at(u, event);

	if (!block || !is_whole(block))
		return -ENOENT;
	u->first[life_of(block)] = NULL;
	u->reserved -= block->size;
	vs_block_remove(block);
	vs_block_drop(u->store, block);
	return 0;
}

static int differ(struct untold *u, uint32_t a, uint32_t b)
{
	if (vs_puzzle_is_known(&u->puzzle, a) && vs_puzzle_is_known(&u->puzzle, b))
		return 0;
	return vs_puzzle_differ(&u->puzzle, a, b);
}

/* The pool of the wish was none of those of the free blocks that would have been taken first: before `chosen`, or,
 * where none was, as far as any would have done. */
static int learn_from_lookup(struct untold *u, const struct wish *wish, const struct vs_caching_block *chosen)
{
	const struct vs_caching_settings *settings = &u->recording->settings;
	struct vs_caching_block key = {.stream = wish->stream, .size = wish->size};
	bool oversize = wish->size >= settings->max_split_size;
	struct vs_tree_node *node;
	int r = 0;

	/* No small segment's pool is unknown. */
	if (wish->small && !wish->refused)
		return 0;
	for (node = vs_tree_lower_bound(tree_of(u, wish->small), &key.node, before_by_size);
	     r == 0 && node && block_of(node) != chosen && block_of(node)->stream == wish->stream;
	     node = vs_tree_next(node)) {
		u->looks++;
		if (oversize ? block_of(node)->size - wish->size >= settings->max_non_split_rounding
		             : block_of(node)->size >= settings->max_split_size)
			break;
		if (!block_of(node)->doomed)
			r = differ(u, wish->who, life_of(block_of(node)));
	}
	return r;
}

static int claim(struct untold *u, enum vs_claim_kind kind, uint32_t a, uint32_t b)
{
	if (kind == VS_CLAIM_IN && !(u->puzzle.values[a] & ~b))
		return 0; /* known anyhow */
	if (kind == VS_CLAIM_DIFFERENT && !(u->puzzle.values[a] & u->puzzle.values[b]))
		return 0;
	return vs_puzzle_claim(&u->puzzle, kind, a, b);
}

/* None of the whole free segments that stay is of the default pools. */
static int claim_no_standard(struct untold *u, bool small)
{
	int r = 0;

	for (struct vs_tree_node *node = vs_tree_first(tree_of(u, small)); r == 0 && node;
	     node = vs_tree_next(node)) {
		u->looks++;
		if (!is_split(block_of(node)) && !block_of(node)->doomed)
			r = claim(u, VS_CLAIM_IN, life_of(block_of(node)), ~STANDARD);
	}
	return r;
}

/* The first so many releases were of the default pools. */
static int claim_standard(struct untold *u, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = claim(u, VS_CLAIM_IN, u->releases[i].life, STANDARD);
	return r;
}

/* The first so many releases were all that the default pools had. */
static int claim_emptied(struct untold *u, size_t count)
{
	int r = claim_standard(u, count);

	if (r == 0)
		r = claim_no_standard(u, true);
	return r < 0 ? r : claim_no_standard(u, false);
}

static uint64_t oversize_wanted(const struct untold *u, const struct wish *wish)
{
	uint64_t oversize = u->recording->settings.max_split_size;

	return wish->size < oversize ? oversize : wish->size;
}

/* Could this release have made room for the request in its own pool? */
static bool may_make_room(const struct untold *u, const struct wish *wish, const struct vs_caching_block *block)
{
	const struct vs_caching_settings *settings = &u->recording->settings;

	if (wish->small || block->stream != wish->stream || block->size < settings->max_split_size ||
	    !is_whole(block))
		return false;
	/* Not if it would have served the request as it was. */
	return wish->size < settings->max_split_size || block->size < wish->size ||
	       block->size - wish->size >= settings->max_non_split_rounding;
}

/* Could the device have served it after the first so many releases? Of a refused one the event tells what was free
 * after all of them; else there is only what it held at other times. */
static bool had_room(const struct untold *u, const struct wish *wish, size_t releases)
{
	uint64_t reserved = u->reserved, free_bytes = wish->free;

	for (size_t i = 0; i < u->release_count; i++) {
		if (i < releases)
			reserved -= u->releases[i].block->size;
		else
			free_bytes -=
			    u->releases[i].block->size < free_bytes ? u->releases[i].block->size : free_bytes;
	}
	if (wish->asked > u->limit || reserved > u->limit - wish->asked)
		return false;
	if (wish->refused)
		return u->strict && wish->asked <= free_bytes;
	return wish->asked <= u->most && reserved <= u->most - wish->asked;
}

/* How release_available_cached_blocks() would have come to the releases from `from` on, which all may. */
struct making_room {
	bool possible;
	bool best_fit; /* one that was enough by itself */
	bool enough;   /* else it took all there were */
};

static struct making_room judge_room(const struct untold *u, const struct wish *wish, size_t from)
{
	uint64_t wanted = oversize_wanted(u, wish), released = 0;
	struct making_room room = {0};

	/* It would have got its own without. */
	if (had_room(u, wish, from))
		return room;
	for (size_t i = from; i < u->release_count; i++) {
		const struct vs_caching_block *block = u->releases[i].block;

		if (released >= wanted)
			return room;
		/* From the largest down, none of them enough by itself. */
		if (i > from &&
		    (block->size >= wanted || !before_by_size(&block->node, &u->releases[i - 1].block->node)))
			return room;
		room.best_fit = block->size >= wanted;
		released += block->size;
	}
	room.enough = released >= wanted;
	/* It tries again only after enough. */
	room.possible = wish->refused ? !room.enough || !had_room(u, wish, u->release_count) : room.enough;
	return room;
}

/* Blocks that would have gone instead, or as well. */
static int claim_room(struct untold *u, const struct wish *wish, size_t from, const struct making_room *room)
{
	struct vs_caching_block key = {.stream = wish->stream,
	                               .size = room->best_fit ? oversize_wanted(u, wish)
	                                                      : u->recording->settings.max_split_size};
	const struct vs_caching_block *last = room->enough ? u->releases[u->release_count - 1].block : NULL;
	struct vs_tree_node *node;
	int r = 0;

	for (size_t i = from; r == 0 && i < u->release_count; i++)
		r = claim(u, VS_CLAIM_SAME, u->releases[i].life, wish->who);
	if (last && !room->best_fit)
		key = *last;
	for (node = vs_tree_lower_bound(tree_of(u, wish->small), &key.node, before_by_size);
	     r == 0 && node && block_of(node)->stream == wish->stream; node = vs_tree_next(node)) {
		u->looks++;
		if (room->best_fit && !before_by_size(node, &last->node))
			break;
		if (!block_of(node)->doomed)
			r = claim(u, VS_CLAIM_DIFFERENT, life_of(block_of(node)), wish->who);
	}
	return r;
}

/* All of them by empty_cache(), or by a request of the default pools before it gave up, or went on. */
static int add_emptied(struct untold *u, const struct wish *wish)
{
	int r;

	if (wish && wish->refused && had_room(u, wish, u->release_count))
		return 0;
	r = vs_puzzle_alternative(&u->puzzle);
	if (r == 0)
		r = claim_emptied(u, u->release_count);
	if (r == 0 && wish && wish->refused)
		r = claim(u, VS_CLAIM_IN, wish->who, STANDARD);
	return r;
}

/* The first so many releases were garbage. It is collected until there is little enough reserved, or until there is
 * no whole segment left in the default large pool. */
static int claim_collected(struct untold *u, size_t count)
{
	uint64_t left = u->reserved;
	int r = claim_standard(u, count);

	for (size_t i = 0; i < count; i++)
		left -= u->releases[i].block->size;
	if (count && left <= u->threshold)
		return r;
	for (size_t i = count; r == 0 && i < u->release_count; i++) {
		if (!u->lives->all[u->releases[i].life].small)
			r = claim(u, VS_CLAIM_IN, u->releases[i].life, ~STANDARD);
	}
	return r < 0 ? r : claim_no_standard(u, false);
}

/* The first so many as garbage, or else by empty_cache(); the others by the request, to make room in its own pool. */
static int add_room(struct untold *u, const struct wish *wish, size_t from, bool garbage)
{
	struct making_room room = judge_room(u, wish, from);
	int r;

	if (from < u->release_count || wish->refused ? !room.possible : !garbage)
		return 0;
	r = vs_puzzle_alternative(&u->puzzle);
	if (r == 0 && garbage)
		r = claim_collected(u, from);
	else if (r == 0 && from)
		r = claim_emptied(u, from);
	if (r == 0 && (wish->refused || (from && !garbage)))
		r = claim(u, VS_CLAIM_IN, wish->who, ~STANDARD);
	if (r == 0 && room.possible)
		r = claim_room(u, wish, from, &room);
	return r;
}

static bool may_be_garbage(const struct untold *u, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (u->lives->all[u->releases[i].life].small)
			return false;
	}
	return true;
}

static int add_rooms(struct untold *u, const struct wish *wish, size_t from)
{
	bool collects = u->reserved > u->threshold;
	int r;

	u->looks += u->release_count;
	r = check_effort(u);
	if (r == 0 && collects && may_be_garbage(u, from))
		r = add_room(u, wish, from, true);
	if (r == 0 && (from || !collects))
		r = add_room(u, wish, from, false);
	return r;
}

/* `wish`: of a request that was not served from the cache. */
static int learn_from_releases(struct untold *u, const struct wish *wish)
{
	size_t from = u->release_count;
	int r;

	if (!u->release_count && !(wish && (wish->refused || u->reserved > u->threshold)))
		return 0;
	r = vs_puzzle_choice(&u->puzzle);
	if (r == 0 && (u->release_count || wish->refused))
		r = add_emptied(u, wish);
	if (r == 0 && wish)
		r = add_rooms(u, wish, from);
	while (r == 0 && wish && from && may_make_room(u, wish, u->releases[from - 1].block))
		r = add_rooms(u, wish, --from);
	if (r == 0)
		vs_puzzle_settle(&u->puzzle);
	return r;
}

static int gather_releases(struct untold *u, size_t begin, size_t end)
{
	u->release_count = 0;
	for (size_t i = begin; i < end; i++) {
		struct vs_caching_block *block;

		if (u->recording->events[i].kind != VS_REPLAY_SEGMENT_FREE)
			continue;
		block = block_at(u, i);
		if (!block || block->previous)
			return -ENOENT;
		if (vs_grow(&u->releases, &u->release_capacity, u->release_count + 1, sizeof(*u->releases)) < 0)
			return -ENOMEM;
		block->doomed = true;
		u->releases[u->release_count++] = (struct release){block, u->lives->of_event[i]};
	}
	return 0;
}

/* Events [begin, end) happen. */
static int pass(struct untold *u, size_t begin, size_t end)
{
	int r = 0;

	for (size_t i = begin; r == 0 && i < end; i++) {
		switch (u->recording->events[i].kind) {
		case VS_REPLAY_COMPLETE:
			r = on_complete(u, i);
			break;
		case VS_REPLAY_SEGMENT_ALLOC:
			r = on_segment(u, i);
			break;
		case VS_REPLAY_SEGMENT_FREE:
			r = on_release(u, i);
			break;
		default:
			r = -ENOENT;
			break;
		}
	}
	return r;
}

/* A request's group has the segment that was got for it. */
static bool is_new(const struct untold *u, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		if (u->recording->events[i].kind == VS_REPLAY_SEGMENT_ALLOC &&
		    u->lives->of_event[i] == u->lives->of_event[end])
			return true;
	}
	return false;
}

static int take(struct untold *u, struct vs_caching_block *block, const struct wish *wish)
{
	const struct vs_caching_settings *settings = &u->recording->settings;
	uint64_t left;

	if (block->size < wish->size)
		return -ENOENT;
	left = block->size - wish->size;
	vs_block_remove(block);
	if (wish->small ? left >= MIN_BLOCK : wish->size < settings->max_split_size && left > SMALL_SIZE) {
		struct vs_caching_block *rest = new_block(u, life_of(block), block->address + wish->size, left);

		if (!rest)
			return -ENOMEM;
		vs_block_link(rest, block, block->next);
		block->size = wish->size;
		vs_block_insert(rest);
	}
	block->allocated = true;
	return 0;
}

/* Completions before the first release were there for the request to see; see baseline.c. */
static int on_group(struct untold *u, size_t begin, size_t end, const struct wish *wish)
{
	size_t release = begin;
	bool missed = wish && (wish->refused || is_new(u, begin, end));
	int r;

	while (release < end && u->recording->events[release].kind == VS_REPLAY_COMPLETE)
		release++;
	r = pass(u, begin, release);
	if (r == 0)
		r = gather_releases(u, release, end);
	if (r == 0 && missed)
		r = learn_from_lookup(u, wish, NULL);
	/* What is served from the cache has released nothing. */
	if (r == 0)
		r = learn_from_releases(u, missed ? wish : NULL);
	return r < 0 ? r : pass(u, release, end);
}

static int on_request(struct untold *u, size_t begin, size_t event)
{
	const struct vs_replay_event *recorded = &u->recording->events[event];
	struct wish wish = {.stream = recorded->stream,
	                    .size = vs_caching_round(&u->recording->settings, recorded->size),
	                    .free = recorded->address,
	                    .who = u->lives->of_event[event],
	                    .refused = recorded->kind == VS_REPLAY_OOM};
	struct vs_caching_block *block;
	int r;

	wish.asked = vs_caching_segment_size(&u->recording->settings, wish.size);
	wish.small = vs_caching_small(wish.size);
	if (wish.refused) {
		wish.who = (uint32_t)u->lives->count + u->refusals++;
		return on_group(u, begin, event, &wish);
	}
	if (wish.who == VS_NO_LIFE)
		return -ENOENT;
	r = on_group(u, begin, event, &wish);
	if (r < 0)
		return r;
	block = block_at(u, event);
	if (!is_free(block))
		return -ENOENT;
	if (!is_new(u, begin, event))
		r = learn_from_lookup(u, &wish, block);
	return r < 0 ? r : take(u, block, &wish);
}

static int run(struct untold *u)
{
	const struct vs_replay_event *events = u->recording->events;
	size_t count = u->recording->event_count, group = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		bool at_once;

		r = check_effort(u);
		if (r < 0)
			return r;
		switch (events[i].kind) {
		case VS_REPLAY_ALLOC:
		case VS_REPLAY_OOM:
			r = on_request(u, group, i);
			group = i + 1;
			break;
		case VS_REPLAY_FREE:
			at_once = i + 1 < count && events[i + 1].kind == VS_REPLAY_COMPLETE &&
			          events[i + 1].address == events[i].address;
			r = on_group(u, group, i, NULL);
			if (r == 0)
				r = on_free(u, i, at_once);
			i += at_once;
			group = i + 1;
			break;
		case VS_REPLAY_OUTSIDE_ALLOC:
		case VS_REPLAY_OUTSIDE_FREE:
			r = on_group(u, group, i, NULL);
			group = i + 1;
			break;
		default: /* joins the group */
			break;
		}
	}
	return r < 0 ? r : on_group(u, group, count, NULL);
}

static int load_start(struct untold *u, const struct vs_initial *initial)
{
	for (size_t i = 0; i < initial->count; i++) {
		const struct vs_caching_segment *segment = &initial->segments[i];
		struct vs_caching_block *previous = NULL;
		uint32_t life = u->lives->of_initial[i];

		for (size_t j = 0; life != VS_NO_LIFE && j < segment->piece_count; j++) {
			const struct vs_caching_piece *piece = &segment->pieces[j];
			struct vs_caching_block *block = new_block(u, life, piece->address, piece->size);

			if (!block)
				return -ENOMEM;
			vs_block_link(block, previous, NULL);
			u->reserved += block->size;
			block->allocated = piece->state == VS_PIECE_ALLOCATED;
			block->pending = piece->state == VS_PIECE_PENDING;
			if (!previous)
				u->first[life] = block;
			previous = block;
		}
		for (struct vs_caching_block *block = life == VS_NO_LIFE ? NULL : u->first[life]; block;
		     block = block->next) {
			if (is_free(block))
				vs_block_insert(block);
		}
	}
	u->most = vs_oracle_most(u->recording, u->reserved);
	u->limit = vs_oracle_limit(u->recording);
	u->threshold = vs_caching_threshold(&u->recording->settings, u->limit);
	return 0;
}

static bool is_untold(const struct untold *u, const struct vs_life *life)
{
	return life->released && life->size >= u->recording->settings.max_split_size;
}

/* Of how many segments and refusals the pool is unknown. Of expandable segments nothing is learnt. */
static size_t count_untold(const struct untold *u, size_t *ret_refusals)
{
	size_t count = 0;

	*ret_refusals = 0;
	for (size_t i = 0; i < u->lives->count; i++) {
		if (u->lives->all[i].expandable)
			return 0;
		count += is_untold(u, &u->lives->all[i]);
	}
	for (size_t i = 0; i < u->recording->event_count; i++)
		*ret_refusals += u->recording->events[i].kind == VS_REPLAY_OOM;
	return count + *ret_refusals;
}

static int open_puzzle(struct untold *u, size_t refusals, size_t pools)
{
	uint32_t all = pools == MAX_POOLS ? UINT32_MAX : (UINT32_C(1) << pools) - 1;
	int r = vs_puzzle_open(&u->puzzle, u->lives->count + refusals, all);

	for (size_t i = 0; r == 0 && i < u->lives->count; i++) {
		if (!is_untold(u, &u->lives->all[i]))
			u->puzzle.values[i] = UINT32_C(1) << u->lives->all[i].pool;
	}
	return r;
}

static void keep_answer(struct untold *u, uint16_t *pools)
{
	size_t at = u->lives->count;

	for (size_t i = 0; i < u->lives->count; i++)
		u->lives->all[i].pool = (uint16_t)__builtin_ctz(u->puzzle.values[i]);
	for (size_t i = 0; i < u->recording->event_count; i++) {
		if (u->recording->events[i].kind == VS_REPLAY_OOM)
			pools[i] = (uint16_t)__builtin_ctz(u->puzzle.values[at++]);
	}
}

static int solve(struct untold *u, const struct vs_replay_program *program, size_t refusals)
{
	static const struct vs_caching_device nothing;
	int r;

	u->first = calloc(u->lives->count + 1, sizeof(struct vs_caching_block *));
	r = u->first ? vs_caching_new(&u->recording->settings, &nothing, &u->store) : -ENOMEM;
	if (r == 0)
		r = open_puzzle(u, refusals, program->pools.count);
	if (r == 0)
		r = load_start(u, &program->initial);
	if (r == 0)
		r = run(u);
	return r < 0 ? r : vs_puzzle_solve(&u->puzzle, MAX_STEPS);
}

static void done(struct untold *u)
{
	vs_puzzle_done(&u->puzzle);
	vs_caching_free_all(u->store);
	free(u->first);
	free(u->releases);
}

int vs_untold_solve(const struct vs_replay_recording *recording, const struct vs_replay_program *program,
                    struct vs_lives *lives, uint16_t *pools)
{
	int r = -ENOENT;

	/* A real device may refuse what it has in pieces. */
	for (int strict = 1; r == -ENOENT && strict >= 0; strict--) {
		struct untold u = {.recording = recording, .lives = lives, .strict = strict};
		size_t refusals;

		if (program->pools.count > MAX_POOLS || !count_untold(&u, &refusals))
			return 0;
		r = solve(&u, program, refusals);
		if (r == 0)
			keep_answer(&u, pools);
		done(&u);
	}
	return r == -ENOMEM ? r : 0;
}
