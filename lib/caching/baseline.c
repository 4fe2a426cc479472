/* SPDX-License-Identifier: MIT
 *
 * The exact replay. Events come in groups: what the allocator did to serve a
 * request (completions of deferred frees, segments released, got, mapped)
 * stands before the request's own event. A released segment may as well come
 * from empty_cache(): the program called it if the cache could have served
 * the request that follows, or if the device evidently had room for it.
 */
#include "base/buffer.h"
#include "caching/lives.h"
#include "caching/oracle.h"
#include "caching/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct live {
	struct vs_caching_block *block;
	uint64_t ticket; /* 0: not freed yet */
	uint32_t id;
	uint32_t next_unused;
};

struct baseline {
	const struct vs_replay_recording *recording;
	struct vs_replay_exactness *exactness;
	struct vs_replay_program *program;
	struct vs_caching *caching;
	struct vs_oracle oracle;
	struct vs_map blocks; /* address -> index into live */
	struct live *live;
	size_t live_count, live_capacity;
	uint32_t unused;        /* plus 1 */
	uint16_t *pools;        /* by event, where the recording does not tell; NULL: all in the default pools */
	struct vs_map outside;  /* address -> id */
	uint64_t most_reserved; /* the device has proved to hold this much, and it is allowed */
	size_t group;           /* first event of the group under way */
};

static bool is_segment_event(const struct vs_replay_event *event)
{
	return event->kind >= VS_REPLAY_SEGMENT_ALLOC && event->kind <= VS_REPLAY_SEGMENT_UNMAP;
}

static bool is_release(const struct vs_replay_event *event)
{
	return event->kind == VS_REPLAY_SEGMENT_FREE || event->kind == VS_REPLAY_SEGMENT_UNMAP;
}

static void wrong(struct baseline *b, size_t index)
{
	if (index < b->exactness->first_wrong)
		b->exactness->first_wrong = index;
}

/* The pool of an event: as recorded, or as found from the final segments. */
static int pool_of(struct baseline *b, size_t event, uint16_t *ret_index)
{
	const struct vs_replay_event *recorded = &b->recording->events[event];

	if (recorded->pool[0] != VS_REPLAY_NO_POOL)
		return vs_program_pool(b->program, recorded->pool, ret_index);
	*ret_index = b->pools && b->pools[event] != VS_NO_POOL ? b->pools[event] : 0;
	return 0;
}

/* The model's index of a pool of the program: the same, as both are made in the same order. */
static int model_pool(struct baseline *b, uint16_t index, uint32_t *ret_pool)
{
	const struct vs_pool_id *id = &b->program->pools.ids[index];

	return vs_caching_pool(b->caching, id->first, id->second, ret_pool);
}

static int add_op(struct baseline *b, enum vs_op_kind kind, size_t event, uint32_t id, uint64_t size)
{
	return vs_program_add(
	    b->program, &(struct vs_op){.kind = (uint8_t)kind, .event = (uint32_t)event, .id = id, .size = size});
}

static int remember(struct baseline *b, uint64_t address, struct vs_caching_block *block, uint32_t id,
                    uint64_t ticket)
{
	uint32_t index;

	if (b->unused) {
		index = b->unused - 1;
		b->unused = b->live[index].next_unused;
	} else {
		if (vs_grow(&b->live, &b->live_capacity, b->live_count + 1, sizeof(*b->live)) < 0)
			return -ENOMEM;
		index = (uint32_t)b->live_count++;
	}
	b->live[index] = (struct live){.block = block, .id = id, .ticket = ticket};
	return vs_map_set(&b->blocks, address, index);
}

static void forget(struct baseline *b, uint64_t address, uint64_t index)
{
	uint64_t ignored;

	vs_map_take(&b->blocks, address, &ignored);
	b->live[index].next_unused = b->unused;
	b->unused = (uint32_t)index + 1;
}

static int on_complete(struct baseline *b, size_t event)
{
	uint64_t address = b->recording->events[event].address, index;
	struct live *live;
	int r;

	if (!vs_map_get(&b->blocks, address, &index) || !b->live[index].ticket) {
		b->exactness->unknown_frees++;
		return 0;
	}
	live = &b->live[index];
	vs_caching_complete(b->caching, live->block, live->ticket);
	r = add_op(b, VS_OP_COMPLETE, event, live->id, 0);
	forget(b, address, index);
	return r;
}

static int on_free(struct baseline *b, size_t event, bool deferred)
{
	uint64_t address = b->recording->events[event].address, index;
	struct live *live;
	int r;

	if (!vs_map_get(&b->blocks, address, &index) || b->live[index].ticket) {
		b->exactness->unknown_frees++;
		return 0;
	}
	live = &b->live[index];
	r = add_op(b, deferred ? VS_OP_DEFER : VS_OP_FREE, event, live->id, 0);
	if (deferred) {
		live->ticket = vs_caching_defer(b->caching, live->block);
		return r;
	}
	vs_caching_free(b->caching, live->block);
	forget(b, address, index);
	return r;
}

static int complete_group(struct baseline *b, size_t begin, size_t end)
{
	int r = 0;

	for (size_t i = begin; r == 0 && i < end; i++) {
		if (b->recording->events[i].kind == VS_REPLAY_COMPLETE)
			r = on_complete(b, i);
	}
	return r;
}

/* A private pool whose segments are released has lost its last user; but where a request of its own may release
 * oversize segments to make room. */
static int free_pools(struct baseline *b, size_t begin, size_t end, uint16_t requesting)
{
	uint64_t oversize = b->recording->settings.max_split_size;

	for (size_t i = begin; i < end; i++) {
		const struct vs_replay_event *event = &b->recording->events[i];
		uint16_t index;
		uint32_t pool;
		int r;

		if (!is_release(event))
			continue;
		r = pool_of(b, i, &index);
		if (r < 0)
			return r;
		if (!index || (index == requesting && event->size >= oversize))
			continue;
		r = model_pool(b, index, &pool);
		if (r < 0)
			return r;
		vs_caching_pool_freeable(b->caching, pool);
		r = vs_program_add(b->program,
		                   &(struct vs_op){.kind = VS_OP_POOL_FREEABLE, .pool = index, .event = (uint32_t)i});
		if (r < 0)
			return r;
	}
	return 0;
}

/* Count what the model answered of a group, and what it did besides. */
static void settle_group(struct baseline *b, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		if (!is_segment_event(&b->recording->events[i]))
			continue;
		b->exactness->segments++;
		if (b->oracle.answered[i])
			b->exactness->segments_exact++;
		else
			wrong(b, i);
	}
	b->exactness->segments += b->oracle.extra;
	if (b->oracle.extra)
		wrong(b, end);
	b->oracle.extra = 0;
	b->group = end + 1;
}

static int note_emptied(struct baseline *b, size_t event)
{
	b->exactness->empty_caches++;
	return add_op(b, VS_OP_EMPTY_CACHE, event, 0, 0);
}

static int empty_cache(struct baseline *b, size_t event)
{
	vs_caching_empty_cache(b->caching);
	return note_emptied(b, event);
}

static size_t find_release(const struct baseline *b, size_t begin, size_t end)
{
	while (begin < end && !is_release(&b->recording->events[begin]))
		begin++;
	return begin;
}

/* A group that no request follows: the program emptied the cache. */
static int close_group(struct baseline *b, size_t end)
{
	size_t begin = b->group, release;
	int r;

	if (begin >= end)
		return 0;
	release = find_release(b, begin, end);
	b->oracle.begin = begin;
	b->oracle.end = end;
	b->oracle.refused = false;
	r = complete_group(b, begin, end);
	if (r == 0)
		r = free_pools(b, release, end, VS_NO_POOL);
	if (r == 0 && release < end)
		r = empty_cache(b, release);
	settle_group(b, begin, end);
	b->group = end;
	return r;
}

static bool gets_segment(const struct baseline *b, size_t begin, size_t end)
{
	for (; begin < end; begin++) {
		enum vs_replay_kind kind = b->recording->events[begin].kind;

		if (kind == VS_REPLAY_SEGMENT_ALLOC || kind == VS_REPLAY_SEGMENT_MAP)
			return true;
	}
	return false;
}

/* Before the request gets anything; those of the pool `but` are left out. */
static int count_releases(struct baseline *b, size_t begin, size_t end, uint16_t but, size_t *ret_count)
{
	size_t count = 0;

	for (; begin < end; begin++) {
		enum vs_replay_kind kind = b->recording->events[begin].kind;
		uint16_t pool;
		int r;

		if (kind == VS_REPLAY_SEGMENT_ALLOC || kind == VS_REPLAY_SEGMENT_MAP)
			break;
		if (!is_release(&b->recording->events[begin]))
			continue;
		r = pool_of(b, begin, &pool);
		if (r < 0)
			return r;
		count += pool != but;
	}
	*ret_count = count;
	return 0;
}

/* The most a request can take from the device. */
static uint64_t most_asked(const struct vs_caching_settings *settings, uint64_t size)
{
	uint64_t rounded = vs_caching_round(settings, size), asked = vs_caching_segment_size(settings, rounded);
	uint64_t page = settings->large_segment_size;

	return settings->expandable_segments && !vs_caching_small(rounded) && page
	           ? (rounded + page - 1) / page * page
	           : asked;
}

/* Was the cache emptied before the request that was refused, or got new memory, rather than by it? `begin` is the
 * first release; `pool` the request's. It goes step by step, and not further than it must: garbage, what makes room
 * in its own pool, all that is cached. */
static int emptied_before(struct baseline *b, const struct vs_caching_request *request, uint16_t pool, size_t begin,
                          size_t end, bool *ret_emptied)
{
	bool refused = b->recording->events[end].kind == VS_REPLAY_OOM;
	bool confined = !vs_caching_may_release(b->caching, request);
	uint64_t asked = most_asked(&b->recording->settings, request->size);
	uint64_t most = !refused && b->most_reserved >= asked ? b->most_reserved - asked : 0; /* before it fits */
	uint64_t reserved = vs_caching_stats(b->caching)->reserved;
	struct vs_caching_room garbage, room;
	size_t releases;
	int r;

	*ret_emptied = true;
	/* It could have been served from the cache. */
	if (!vs_caching_needed(b->caching, request))
		return 0;
	garbage = vs_caching_would_collect(b->caching);
	room = vs_caching_would_release(b->caching, request);
	r = count_releases(b, begin, end, confined ? pool : VS_NO_POOL, &releases);
	if (r < 0)
		return r;
	/* A request within a private pool releases what is not its own as garbage at most. */
	if (confined) {
		*ret_emptied = releases && releases != garbage.count;
		return 0;
	}
	if (reserved - garbage.bytes <= most) {
		*ret_emptied = releases != garbage.count;
		return 0;
	}
	if (garbage.count || !room.count)
		*ret_emptied = false;
	else if (room.first == b->recording->events[begin].address)
		*ret_emptied = room.enough && reserved - room.bytes <= most && releases > room.count;
	return 0;
}

/* All that was cached is released, and nothing new was needed then: the program emptied the cache, and the request
 * found a block; or the request itself did, as max_split_size kept it from a larger block of an expandable segment,
 * and took the lowest place that had grown enough. */
static int serve_after_release(struct baseline *b, struct vs_caching_request *request, size_t release, size_t event)
{
	uint64_t address = b->recording->events[event].address;
	bool needed = vs_caching_needed(b->caching, request);
	const struct vs_caching_block *found;

	vs_caching_empty_cache(b->caching);
	found = vs_caching_would_hit(b->caching, request);
	if (needed && b->recording->settings.expandable_segments &&
	    (!found || vs_caching_address(found) != address)) {
		request->missed = request->retried = true;
		return 0;
	}
	return note_emptied(b, release);
}

/* The first pool from `first` on that would have needed more than there was free for the request. */
static int find_short(struct baseline *b, struct vs_caching_request *request, size_t first, uint64_t free_bytes,
                      uint16_t *ret_index)
{
	for (size_t i = first; i < b->program->pools.count; i++) {
		int r = model_pool(b, (uint16_t)i, &request->pool);

		if (r < 0)
			return r;
		if (vs_caching_needed(b->caching, request) > free_bytes) {
			*ret_index = (uint16_t)i;
			return 0;
		}
	}
	return -ENOENT;
}

/* A refusal does not tell where it was asked, but what the device had free, and with what it was not enough there.
 * One that released nothing, though there was what to release, came from within a private pool, which forbids it up
 * to 2.12. */
static int prepare_refusal(struct baseline *b, size_t event, size_t release, struct vs_caching_request *request,
                           uint16_t *ret_pool)
{
	uint64_t free_bytes = b->recording->events[event].address;
	bool released = release < event;
	size_t first;
	int r;

	if (released)
		vs_caching_empty_cache(b->caching);
	first = vs_caching_has_releasable(b->caching) ? 1 : 0;
	*ret_pool = 0;
	r = find_short(b, request, first, free_bytes, ret_pool);
	/* A device may refuse what it has in pieces, or others took meanwhile. */
	if (r == -ENOENT)
		r = find_short(b, request, first, 0, ret_pool);
	if (r < 0 && r != -ENOENT)
		return r;
	r = model_pool(b, *ret_pool, &request->pool);
	if (r < 0)
		return r;
	request->missed = true;
	request->retried = released && !*ret_pool;
	return released && *ret_pool ? note_emptied(b, release) : 0;
}

/* What stands before the request is done by it, or before it. */
static int prepare_request(struct baseline *b, size_t event, uint16_t *pool, struct vs_caching_request *request)
{
	bool refused = b->recording->events[event].kind == VS_REPLAY_OOM;
	size_t begin = b->group, release = find_release(b, begin, event);
	bool released = release < event, had_new = gets_segment(b, released ? release : begin, event);
	/* Part of an expandable range was mapped before there was no more: the request itself released. */
	bool under_way = released && gets_segment(b, begin, release), emptied = false;
	int r;

	b->oracle.begin = begin;
	b->oracle.end = event;
	b->oracle.refused = refused;
	/* Completions before the first release: whether the allocator polled or waited makes no difference, but to
	 * whether its look-up could see them. */
	r = complete_group(b, begin, release);
	if (r == 0 && released)
		r = free_pools(b, release, event, *pool);
	if (r < 0)
		return r;
	if (refused && b->pools && b->pools[event] == VS_NO_POOL && !had_new && !under_way)
		return prepare_refusal(b, event, release, request, pool);
	if (released && !under_way && !had_new && !refused)
		return serve_after_release(b, request, release, event);
	if (released && !under_way)
		r = emptied_before(b, request, *pool, release, event, &emptied);
	if (r == 0 && emptied)
		r = empty_cache(b, release);
	request->missed = (had_new || refused) && vs_caching_would_hit(b->caching, request);
	return r;
}

static int on_request(struct baseline *b, size_t event)
{
	const struct vs_replay_event *recorded = &b->recording->events[event];
	bool refused = recorded->kind == VS_REPLAY_OOM;
	struct vs_caching_request request = {.size = recorded->size, .stream = recorded->stream};
	struct vs_caching_block *block;
	struct vs_op op = {.kind = refused ? VS_OP_REFUSED : VS_OP_MALLOC,
	                   .event = (uint32_t)event,
	                   .size = recorded->size,
	                   .stream = recorded->stream};
	uint64_t index;
	int r;

	b->oracle.request = recorded;
	b->oracle.small = vs_caching_small(vs_caching_round(&b->recording->settings, recorded->size));
	r = pool_of(b, event, &op.pool);
	if (r == 0)
		r = model_pool(b, op.pool, &request.pool);
	if (r == 0)
		r = prepare_request(b, event, &op.pool, &request);
	if (r < 0)
		return r;
	r = vs_caching_malloc(b->caching, &request, &block);
	if (refused) {
		b->exactness->ooms++;
		b->exactness->ooms_exact += r < 0;
		if (r == 0) {
			wrong(b, event);
			vs_caching_free(b->caching, block);
		}
		r = 0;
	} else {
		b->exactness->addresses++;
		if (r == 0 && vs_caching_address(block) == recorded->address)
			b->exactness->addresses_exact++;
		else
			wrong(b, event);
		/* A block that the recording never saw freed: what was left of exactness is gone with it. */
		if (vs_map_get(&b->blocks, recorded->address, &index))
			forget(b, recorded->address, index);
		if (r == 0 && b->recording->block_sizes)
			b->recording->block_sizes[event] = vs_caching_size(block);
		op.id = b->program->blocks++;
		r = r < 0 ? 0 : remember(b, recorded->address, block, op.id, 0);
	}
	if (r == 0)
		r = vs_program_add(b->program, &op);
	if (r == 0) /* completions after a release: the allocator had waited for them */
		r = complete_group(b, find_release(b, b->group, event), event);
	settle_group(b, b->group, event);
	return r;
}

static int on_outside(struct baseline *b, size_t event)
{
	const struct vs_replay_event *recorded = &b->recording->events[event];
	uint64_t id;

	if (recorded->kind == VS_REPLAY_OUTSIDE_ALLOC) {
		id = b->program->outside++;
		if (vs_map_set(&b->outside, recorded->address, id) < 0)
			return -ENOMEM;
		return add_op(b, VS_OP_OUTSIDE_ALLOC, event, (uint32_t)id, recorded->size);
	}
	if (!vs_map_take(&b->outside, recorded->address, &id))
		return 0;
	return add_op(b, VS_OP_OUTSIDE_FREE, event, (uint32_t)id, recorded->size);
}

static int run(struct baseline *b)
{
	const struct vs_replay_event *events = b->recording->events;
	size_t count = b->recording->event_count;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		switch (events[i].kind) {
		case VS_REPLAY_ALLOC:
		case VS_REPLAY_OOM:
			r = on_request(b, i);
			break;
		case VS_REPLAY_FREE:
			r = close_group(b, i);
			if (i + 1 < count && events[i + 1].kind == VS_REPLAY_COMPLETE &&
			    events[i + 1].address == events[i].address) {
				if (r == 0)
					r = on_free(b, i, false);
				i++;
			} else if (r == 0) {
				r = on_free(b, i, true);
			}
			b->group = i + 1;
			break;
		case VS_REPLAY_OUTSIDE_ALLOC:
		case VS_REPLAY_OUTSIDE_FREE:
			r = close_group(b, i);
			if (r == 0)
				r = on_outside(b, i);
			b->group = i + 1;
			break;
		default: /* joins the group */
			break;
		}
	}
	return r < 0 ? r : close_group(b, count);
}

static int load_start(struct baseline *b)
{
	struct vs_initial *initial = &b->program->initial;

	for (size_t i = 0; i < initial->count; i++) {
		struct vs_caching_segment *segment = &initial->segments[i];
		uint16_t index;
		int r;

		r = vs_program_pool(b->program, initial->about[i].pool, &index);
		if (r == 0)
			r = model_pool(b, index, &segment->pool);
		if (r == 0)
			r = vs_caching_load(b->caching, segment);
		if (r < 0)
			return r;
		if (segment->expandable &&
		    vs_oracle_reserved(&b->oracle, segment->pieces[0].address, initial->about[i].size) < 0)
			return -ENOMEM;
		for (size_t j = 0; j < segment->piece_count; j++) {
			const struct vs_caching_piece *piece = &segment->pieces[j];

			if (piece->state != VS_PIECE_ALLOCATED && piece->state != VS_PIECE_PENDING)
				continue;
			r = remember(b, piece->address, piece->block, b->program->blocks++,
			             piece->state == VS_PIECE_PENDING ? piece->ticket : 0);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int open_baseline(struct baseline *b)
{
	const struct vs_replay_recording *recording = b->recording;
	static const uint64_t none[2] = {0, 0};
	struct vs_caching_device device;
	uint16_t index;
	int r;

	b->program = calloc(1, sizeof(*b->program));
	b->oracle.answered = calloc(recording->event_count + 1, 1);
	if (!b->program || !b->oracle.answered || recording->event_count >= UINT32_MAX)
		return -ENOMEM;
	b->program->settings = recording->settings;
	b->program->total = recording->total;
	b->oracle.events = recording->events;
	b->oracle.count = recording->event_count;
	b->oracle.invented = UINT64_C(1) << 60;
	device = vs_oracle_device(&b->oracle, recording->total);
	r = vs_program_pool(b->program, none, &index);
	if (r == 0)
		r = vs_initial_find(recording, &b->program->initial);
	if (r == 0)
		r = vs_caching_new(&recording->settings, &device, &b->caching);
	if (r == 0)
		r = vs_lives_find_pools(recording, b->program, &b->pools);
	if (r == 0)
		r = load_start(b);
	if (r < 0)
		return r;
	b->exactness->overlaps = b->program->initial.overlaps;
	b->exactness->start_blocks = b->program->initial.blocks;
	b->exactness->start_bytes = b->program->initial.bytes;
	b->exactness->start_guessed = b->program->initial.guessed;
	b->most_reserved = vs_oracle_most(recording, vs_caching_stats(b->caching)->reserved);
	return 0;
}

int vs_replay_baseline(const struct vs_replay_recording *recording, struct vs_replay_exactness *ret_exactness,
                       struct vs_replay_program **ret_program)
{
	struct vs_replay_exactness exactness = {.first_wrong = SIZE_MAX};
	struct baseline b = {.recording = recording, .exactness = &exactness};
	int r;

	r = open_baseline(&b);
	if (r == 0)
		r = run(&b);
	if (r == 0) {
		exactness.stats = *vs_caching_stats(b.caching);
		*ret_exactness = exactness;
		if (ret_program) {
			*ret_program = b.program;
			b.program = NULL;
		}
	}
	vs_replay_program_free(b.program);
	vs_caching_free_all(b.caching);
	vs_map_done(&b.blocks);
	vs_map_done(&b.outside);
	vs_oracle_done(&b.oracle);
	free(b.live);
	free(b.pools);
	return r;
}
