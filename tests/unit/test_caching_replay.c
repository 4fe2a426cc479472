/* SPDX-License-Identifier: MIT
 *
 * Recordings replayed: exact ones, damaged ones, and the published snapshots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caching/from_snapshot.h"

#define MIB  (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f0000000000)

#define EVENT(what, at, bytes)                                                                                       \
	{                                                                                                            \
		.kind = VS_REPLAY_##what, .address = (at), .size = (bytes)                                           \
	}

static struct vs_replay_recording recording(const struct vs_replay_event *events, size_t count)
{
	struct vs_replay_recording r = {.events = events, .event_count = count};

	vs_caching_defaults(&r.settings, 211);
	return r;
}

static struct vs_replay_exactness baseline(const struct vs_replay_recording *r, struct vs_replay_program **program)
{
	struct vs_replay_exactness e;

	assert_int_equal(vs_replay_baseline(r, &e, program), 0);
	return e;
}

static const struct vs_replay_event simple[] = {
    EVENT(SEGMENT_ALLOC, BASE, 20 * MIB), EVENT(ALLOC, BASE, 4 * MIB),    EVENT(ALLOC, BASE + 4 * MIB, 4 * MIB - 100),
    EVENT(FREE, BASE, 4 * MIB),           EVENT(COMPLETE, BASE, 4 * MIB), EVENT(ALLOC, BASE, 3 * MIB - 1),
};
#define SIMPLE (sizeof(simple) / sizeof(simple[0]))

static void exact(void **state)
{
	struct vs_replay_recording r = recording(simple, SIMPLE);
	struct vs_replay_exactness e = baseline(&r, NULL);

	(void)state;
	assert_int_equal(e.addresses, 3);
	assert_int_equal(e.addresses_exact, 3);
	assert_int_equal(e.segments, 1);
	assert_int_equal(e.segments_exact, 1);
	assert_true(e.first_wrong == SIZE_MAX);
	assert_int_equal(e.stats.reserved, 20 * MIB);
}

/* A replay that could not notice would prove nothing. */
static void wrong_ones_are_noticed(void **state)
{
	struct vs_replay_event events[SIMPLE];
	struct vs_replay_recording r = recording(events, SIMPLE);
	struct vs_replay_exactness e;

	(void)state;
	memcpy(events, simple, sizeof(events));
	events[5].address = BASE + 8 * MIB;
	e = baseline(&r, NULL);
	assert_int_equal(e.addresses_exact, 2);
	assert_int_equal(e.first_wrong, 5);

	memcpy(events, simple, sizeof(events));
	events[0].size = 22 * MIB;
	e = baseline(&r, NULL);
	assert_true(e.segments_exact < e.segments);

	r.event_count--;
	r.events++; /* the segment comes from nowhere */
	memcpy(events, simple, sizeof(events));
	e = baseline(&r, NULL);
	assert_true(e.segments_exact < e.segments);
	assert_true(e.addresses_exact < e.addresses);
}

/* A retry and an empty_cache() leave the same events; what room the device had tells them apart. */
static void released_by_whom(void **state)
{
	static const struct vs_replay_event events[] = {
	    EVENT(SEGMENT_ALLOC, BASE, 600 * MIB), EVENT(ALLOC, BASE, 600 * MIB),
	    EVENT(FREE, BASE, 600 * MIB),          EVENT(COMPLETE, BASE, 600 * MIB),
	    EVENT(SEGMENT_FREE, BASE, 600 * MIB),  EVENT(SEGMENT_ALLOC, BASE, 700 * MIB),
	    EVENT(ALLOC, BASE, 700 * MIB),
	};
	struct vs_replay_recording r = recording(events, sizeof(events) / sizeof(events[0]));
	struct vs_replay_card card = {.total = 4096 * MIB};
	struct vs_replay_program *program;
	struct vs_replay_outcome outcome;
	struct vs_replay_exactness e = baseline(&r, &program);

	(void)state;
	assert_int_equal(e.segments_exact, 3);
	assert_int_equal(e.empty_caches, 0);
	assert_int_equal(e.stats.retries, 1);
	/* On a larger card nobody releases. */
	assert_int_equal(vs_replay_scenario(program, &r.settings, &card, &outcome), 0);
	assert_int_equal(outcome.stats.reserved_peak, 1300 * MIB);
	assert_false(outcome.refused);
	card.total = 1000 * MIB;
	assert_int_equal(vs_replay_scenario(program, &r.settings, &card, &outcome), 0);
	assert_int_equal(outcome.stats.reserved_peak, 700 * MIB);
	assert_int_equal(outcome.stats.retries, 1);
	card.total = 650 * MIB;
	assert_int_equal(vs_replay_scenario(program, &r.settings, &card, &outcome), 0);
	assert_true(outcome.refused && outcome.stopped);
	assert_int_equal(outcome.refused_size, 700 * MIB);
	assert_int_equal(outcome.refused_event, 6);
	card.total = 500 * MIB;
	card.outside = 600 * MIB; /* nothing left at all */
	assert_int_equal(vs_replay_scenario(program, &r.settings, &card, &outcome), 0);
	assert_true(outcome.stopped);
	assert_int_equal(vs_replay_perfect(program), 700 * MIB);
	vs_replay_program_free(program);

	r.room = 2000 * MIB;
	e = baseline(&r, &program);
	assert_int_equal(e.segments_exact, 3);
	assert_int_equal(e.empty_caches, 1);
	card = (struct vs_replay_card){.total = 4096 * MIB};
	assert_int_equal(vs_replay_scenario(program, &r.settings, &card, &outcome), 0);
	assert_int_equal(outcome.stats.reserved_peak, 700 * MIB);
	vs_replay_program_free(program);
}

/* The state before the first event is found from the one after the last. */
static void undone(void **state)
{
	static const struct vs_replay_block blocks[] = {
	    {.address = BASE + 4 * MIB, .size = 4 * MIB, .allocated = true},
	    {.address = BASE + 8 * MIB, .size = 2 * MIB, .allocated = true},
	};
	static const struct vs_replay_segment segments[] = {
	    {.address = BASE, .size = 20 * MIB, .blocks = blocks, .block_count = 2},
	};
	static const struct vs_replay_event events[] = {
	    EVENT(ALLOC, BASE + 8 * MIB, 2 * MIB), /* the gap behind what is freed later */
	    EVENT(FREE, BASE, 4 * MIB - 5),
	    EVENT(COMPLETE, BASE, 4 * MIB - 5),
	    EVENT(SEGMENT_FREE, BASE + 64 * MIB, 30 * MIB),
	};
	struct vs_replay_recording r = recording(events, sizeof(events) / sizeof(events[0]));
	struct vs_replay_exactness e;

	(void)state;
	r.segments = segments;
	r.segment_count = 1;
	e = baseline(&r, NULL);
	assert_int_equal(e.addresses_exact, 1);
	assert_int_equal(e.segments_exact, 1);
	assert_int_equal(e.unknown_frees, 0);
	assert_int_equal(e.overlaps, 0);
	assert_int_equal(e.stats.reserved, 20 * MIB);
	assert_int_equal(e.stats.reserved_peak, 50 * MIB);
	assert_int_equal(e.stats.allocated, 6 * MIB);
}

static void nonsense(void **state)
{
	static const struct vs_replay_block blocks[] = {
	    {.address = 5, .size = UINT64_MAX, .allocated = true},
	    {.address = BASE, .size = UINT64_MAX / 2, .pending = true},
	};
	static const struct vs_replay_segment segments[] = {
	    {.address = BASE, .size = UINT64_MAX, .blocks = blocks, .block_count = 2},
	    {.address = BASE + 1, .size = 1},
	};
	static const struct vs_replay_event events[] = {
	    EVENT(FREE, 1, UINT64_MAX),          EVENT(COMPLETE, 2, 0),
	    EVENT(SEGMENT_FREE, 0, UINT64_MAX),  EVENT(ALLOC, UINT64_MAX, UINT64_MAX),
	    EVENT(ALLOC, UINT64_MAX, 0),         EVENT(SEGMENT_ALLOC, UINT64_MAX, UINT64_MAX),
	    EVENT(OOM, 0, UINT64_MAX),           EVENT(FREE, UINT64_MAX, 0),
	    EVENT(SEGMENT_ALLOC, 4096, 1 << 21), EVENT(ALLOC, 4096, UINT64_C(1) << 63),
	};
	struct vs_replay_recording r = recording(events, sizeof(events) / sizeof(events[0]));
	struct vs_replay_exactness e;

	(void)state;
	r.segments = segments;
	r.segment_count = 2;
	e = baseline(&r, NULL);
	assert_true(e.addresses_exact < e.addresses);
}

static void published(void **state)
{
	static const struct {
		const char *name;
		uint64_t addresses, segments;
	} files[] = {
	    {"gpt-2.7b-fp32-seq128-step", 6771, 783}, {"gpt-2.7b-bf16amp-seq256-forward", 2702, 598 + 459},
	    {"qlora-llama-torch2.2-era", 3505, 152},  {"transformer-bf16-seq128-forward", 937, 0},
	    {"opt-inference-segments-only", 0, 0},
	};
	const char *folder = getenv("VS_SHARED");
	char path[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct vs_snapshot_recording r;
		struct vs_snapshot_error error;
		struct vs_replay_exactness e;
		struct vs_snapshot *s;

		snprintf(path, sizeof(path), "%s/data/snapshots/%s.pickle.gz", folder ? folder : "../shared",
		         files[i].name);
		if (access(path, R_OK) < 0) {
			print_message("%s is absent: skipped\n", path);
			skip();
		}
		assert_int_equal(vs_snapshot_load(path, &s, &error), 0);
		assert_int_equal(vs_snapshot_recording(s, 0, 0, &r), 0);
		e = baseline(&r.recording, NULL);
		assert_int_equal(e.addresses, files[i].addresses);
		assert_int_equal(e.addresses_exact, files[i].addresses);
		assert_int_equal(e.segments, files[i].segments);
		assert_int_equal(e.segments_exact, files[i].segments);
		assert_int_equal(e.unknown_frees, 0);
		assert_int_equal(e.overlaps, 0);
		vs_snapshot_recording_done(&r);
		vs_snapshot_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exact),
	    cmocka_unit_test(wrong_ones_are_noticed),
	    cmocka_unit_test(released_by_whom),
	    cmocka_unit_test(undone),
	    cmocka_unit_test(nonsense),
	    cmocka_unit_test(published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
