/* SPDX-License-Identifier: MIT
 *
 * Random programs in private pools, through the model as the allocator: then
 * the recording without its pools must still replay exactly, and freely.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/space.h"
#include "caching/replay.h"

#define MIB        (UINT64_C(1) << 20)
#define MAX_EVENTS 8192
#define MAX_LIVE   1024
#define POOLS      3

struct live {
	struct vs_caching_block *block;
	uint64_t size; /* as requested */
	uint64_t stream;
};

/* A device that keeps a snapshot's trace. */
struct world {
	struct vs_caching *caching;
	struct vs_space space;
	uint64_t capacity, used;
	struct vs_replay_event events[MAX_EVENTS];
	size_t event_count;
	struct vs_replay_segment segments[MAX_EVENTS];
	size_t segment_count;
	struct vs_replay_block blocks[MAX_LIVE];
	struct live live[MAX_LIVE];
	size_t live_count;
	uint32_t pools[POOLS];
	uint64_t stream, pool; /* of the request under way */
	size_t hidden;         /* oversize segments of private pools that were released */
	uint32_t seed;
};

static void add(struct world *w, enum vs_replay_kind kind, uint64_t address, uint64_t size, uint64_t stream)
{
	assert_true(w->event_count < MAX_EVENTS);
	w->events[w->event_count++] = (struct vs_replay_event){.kind = kind,
	                                                       .address = address,
	                                                       .size = size,
	                                                       .stream = stream,
	                                                       .pool = {VS_REPLAY_NO_POOL, VS_REPLAY_NO_POOL}};
}

static int allocate(void *context, uint64_t size, uint64_t *ret_address)
{
	struct world *w = context;

	if (w->used + size > w->capacity || vs_space_take(&w->space, size, ret_address) < 0)
		return -1;
	w->used += size;
	w->segments[w->segment_count++] = (struct vs_replay_segment){.address = *ret_address,
	                                                             .size = size,
	                                                             .stream = w->stream,
	                                                             .pool = {0, w->pool},
	                                                             .small = size == 2 * MIB};
	add(w, VS_REPLAY_SEGMENT_ALLOC, *ret_address, size, w->stream);
	return 0;
}

static void release(void *context, uint64_t address, uint64_t size)
{
	struct world *w = context;
	uint64_t given;
	size_t at = 0;

	assert_int_equal(vs_space_give(&w->space, address, &given), 0);
	w->used -= size;
	while (w->segments[at].address != address)
		at++;
	w->hidden += w->segments[at].pool[1] != 0;
	add(w, VS_REPLAY_SEGMENT_FREE, address, size, w->segments[at].stream);
	w->segments[at] = w->segments[--w->segment_count];
}

static struct world *open_world(const struct vs_caching_settings *settings, uint64_t capacity, uint32_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct vs_caching_device device = {.context = w, .total = capacity, .allocate = allocate, .release = release};

	assert_non_null(w);
	w->capacity = capacity;
	w->seed = seed;
	vs_space_init(&w->space, UINT64_C(1) << 32, UINT64_C(1) << 46);
	assert_int_equal(vs_caching_new(settings, &device, &w->caching), 0);
	for (uint32_t i = 0; i < POOLS; i++)
		assert_int_equal(vs_caching_pool(w->caching, 0, i, &w->pools[i]), 0);
	return w;
}

static void close_world(struct world *w)
{
	vs_caching_free_all(w->caching);
	vs_space_done(&w->space);
	free(w);
}

static void ask(struct world *w, uint64_t size, uint64_t stream, uint32_t pool)
{
	struct vs_caching_request request = {.size = size, .stream = stream, .pool = w->pools[pool]};
	struct vs_caching_block *block;

	w->stream = stream;
	w->pool = pool;
	if (vs_caching_malloc(w->caching, &request, &block) < 0) {
		add(w, VS_REPLAY_OOM, w->capacity - w->used, size, stream);
		return;
	}
	assert_true(w->live_count < MAX_LIVE);
	w->live[w->live_count++] = (struct live){block, size, stream};
	add(w, VS_REPLAY_ALLOC, vs_caching_address(block), size, stream);
}

static void give(struct world *w, size_t index)
{
	struct live *live = &w->live[index];
	uint64_t address = vs_caching_address(live->block);

	add(w, VS_REPLAY_FREE, address, live->size, live->stream);
	add(w, VS_REPLAY_COMPLETE, address, live->size, live->stream);
	vs_caching_free(w->caching, live->block);
	*live = w->live[--w->live_count];
}

static int by_segment_address(const void *left, const void *right)
{
	const struct vs_replay_segment *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static int by_block_address(const void *left, const void *right)
{
	const struct vs_replay_block *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

/* The recording, with the final segments. */
static struct vs_replay_recording record(struct world *w, const struct vs_caching_settings *settings)
{
	size_t at = 0;

	for (size_t i = 0; i < w->live_count; i++)
		w->blocks[i] = (struct vs_replay_block){.address = vs_caching_address(w->live[i].block),
		                                        .size = vs_caching_size(w->live[i].block),
		                                        .requested = w->live[i].size,
		                                        .allocated = true};
	qsort(w->blocks, w->live_count, sizeof(*w->blocks), by_block_address);
	qsort(w->segments, w->segment_count, sizeof(*w->segments), by_segment_address);
	for (size_t i = 0; i < w->segment_count; i++) {
		struct vs_replay_segment *segment = &w->segments[i];

		segment->blocks = &w->blocks[at];
		while (at < w->live_count && w->blocks[at].address - segment->address < segment->size) {
			segment->block_count++;
			at++;
		}
	}
	assert_int_equal(at, w->live_count);
	return (struct vs_replay_recording){.settings = *settings,
	                                    .events = w->events,
	                                    .event_count = w->event_count,
	                                    .segments = w->segments,
	                                    .segment_count = w->segment_count,
	                                    .total = w->capacity,
	                                    .room = w->capacity};
}

static uint32_t below(struct world *w, uint32_t limit)
{
	w->seed = w->seed * 1664525 + 1013904223; /* Numerical Recipes */
	return (uint32_t)((uint64_t)w->seed * limit >> 32);
}

static uint64_t random_size(struct world *w)
{
	uint32_t pick = below(w, 10);

	if (pick < 3)
		return 1 + below(w, MIB);
	if (pick < 5)
		return (below(w, 24) + 18) * MIB - below(w, 2);
	return 1 + below(w, 64 * MIB);
}

static void run(struct world *w)
{
	for (int i = 0; i < 900; i++) {
		if (below(w, 250) == 0)
			vs_caching_empty_cache(w->caching);
		else if (!w->live_count || below(w, 100) < 56)
			ask(w, random_size(w), below(w, 2), below(w, 10) < 6 ? 0 : 1 + below(w, POOLS - 1));
		else
			give(w, below(w, (uint32_t)w->live_count));
	}
}

static void erased_pools_are_found(void **state)
{
	static const struct {
		uint64_t max_split;
		double garbage;
	} cases[] = {{21 * MIB, 0}, {40 * MIB, 0}, {UINT64_MAX, 0}, {UINT64_MAX, 0.6}, {30 * MIB, 0.6}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t hidden = 0;

		for (uint32_t seed = 0; seed < 20; seed++) {
			struct vs_caching_settings settings;
			struct vs_replay_recording recording;
			struct vs_replay_exactness e;
			struct vs_replay_program *program;
			struct vs_replay_outcome outcome;
			struct vs_replay_card card = {.total = 900 * MIB};
			struct world *w;

			vs_caching_defaults(&settings, 211);
			settings.max_split_size = cases[i].max_split;
			settings.garbage_collection_threshold = cases[i].garbage;
			if (cases[i].garbage > 0)
				settings.memory_fraction = 0.9;
			w = open_world(&settings, card.total, seed);
			run(w);
			recording = record(w, &settings);
			assert_int_equal(vs_replay_baseline(&recording, &e, &program), 0);
			if (e.first_wrong != SIZE_MAX)
				print_message("case %zu, seed %u: wrong from event %zu\n", i, seed, e.first_wrong);
			assert_true(e.first_wrong == SIZE_MAX);
			assert_int_equal(e.ooms, e.ooms_exact);
			assert_int_equal(e.unknown_frees, 0);
			assert_int_equal(vs_replay_scenario(program, &settings, &card, &outcome), 0);
			if (outcome.stopped || outcome.served ||
			    outcome.stats.reserved_peak != vs_caching_stats(w->caching)->reserved_peak)
				print_message("case %zu, seed %u: freely otherwise\n", i, seed);
			assert_false(outcome.stopped || outcome.served);
			assert_int_equal(outcome.stats.reserved_peak, vs_caching_stats(w->caching)->reserved_peak);
			assert_int_equal(outcome.stats.ooms, vs_caching_stats(w->caching)->ooms);
			hidden += w->hidden;
			vs_replay_program_free(program);
			close_world(w);
		}
		/* Else nothing was untold. */
		assert_true(hidden > 20 || cases[i].max_split == UINT64_MAX);
	}
}

/* Two histories with one trace: a segment of the default pools that empty_cache() released, or one of the private
 * pool that went to make room there. No event and no final segment tells them apart, so no reader of a snapshot can;
 * on a card with more room they part. */
static void not_always_one_answer(void **state)
{
	struct vs_replay_card larger = {.total = 1024 * MIB};
	struct vs_caching_settings settings;
	struct vs_replay_recording recording;
	struct vs_replay_program *program;
	struct vs_replay_outcome outcome;
	struct vs_replay_exactness e;
	struct world *emptied, *made_room;

	(void)state;
	vs_caching_defaults(&settings, 211);
	settings.max_split_size = 24 * MIB;
	emptied = open_world(&settings, 80 * MIB, 0);
	ask(emptied, 60 * MIB, 0, 0);
	give(emptied, 0);
	vs_caching_empty_cache(emptied->caching);
	ask(emptied, 25 * MIB, 0, 1);

	made_room = open_world(&settings, 80 * MIB, 0);
	ask(made_room, 60 * MIB, 0, 1);
	give(made_room, 0);
	ask(made_room, 25 * MIB, 0, 1);

	assert_int_equal(emptied->event_count, 7);
	assert_int_equal(made_room->event_count, 7);
	assert_memory_equal(emptied->events, made_room->events, 7 * sizeof(emptied->events[0]));
	assert_int_equal(emptied->segments[0].pool[1], made_room->segments[0].pool[1]);

	/* The first found holds, whichever it is. */
	recording = record(made_room, &settings);
	assert_int_equal(vs_replay_baseline(&recording, &e, &program), 0);
	assert_true(e.first_wrong == SIZE_MAX);
	vs_replay_program_free(program);
	/* Where the device evidently had room, nobody had to make some. */
	recording.room = 100 * MIB;
	assert_int_equal(vs_replay_baseline(&recording, &e, &program), 0);
	assert_true(e.first_wrong == SIZE_MAX);
	assert_int_equal(e.empty_caches, 1);
	assert_int_equal(vs_replay_scenario(program, &settings, &larger, &outcome), 0);
	assert_int_equal(outcome.stats.reserved_peak, 60 * MIB);
	vs_replay_program_free(program);
	close_world(emptied);
	close_world(made_room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(erased_pools_are_found),
	    cmocka_unit_test(not_always_one_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
