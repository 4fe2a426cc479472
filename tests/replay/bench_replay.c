/* SPDX-License-Identifier: MIT
 *
 * Events a second: the exact replay, and a scenario, on a made-up training job of a million events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "caching/replay.h"

#define MIB UINT64_C(1048576)

enum { EVENTS = 1000000, LIVE = 4096 };

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- a recording: the model's own run on an endless device --- */

struct recorder {
	struct vs_replay_event *events;
	size_t count;
	uint64_t next;
};

static void add(struct recorder *r, enum vs_replay_kind kind, uint64_t address, uint64_t size)
{
	r->events[r->count++] = (struct vs_replay_event){.kind = kind, .address = address, .size = size};
}

static int allocate(void *context, uint64_t size, uint64_t *ret_address)
{
	struct recorder *r = context;

	*ret_address = r->next;
	r->next += (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	add(r, VS_REPLAY_SEGMENT_ALLOC, *ret_address, size);
	return 0;
}

static void ignore(void *context, uint64_t address, uint64_t size)
{
	(void)context;
	(void)address;
	(void)size;
}

/* Sizes as layers have them: few distinct ones, from biases to activations; lifetimes as a stack with leftovers. */
static void record(struct recorder *r, const struct vs_caching_settings *settings)
{
	static const uint64_t sizes[] = {4096,    16384, 512,      8 * MIB, 32 * MIB,
	                                 2 * MIB, 12288, 96 * MIB, 40000,   5 * MIB};
	struct vs_caching_device device = {
	    .context = r, .total = UINT64_C(1) << 40, .allocate = allocate, .release = ignore};
	struct vs_caching_block *live[LIVE];
	uint64_t asked[LIVE];
	struct vs_caching *caching;
	size_t count = 0;
	uint32_t seed = 1;

	if (vs_caching_new(settings, &device, &caching) < 0)
		exit(1);
	while (r->count < EVENTS) {
		seed = seed * 1664525 + 1013904223;
		if (count < LIVE && (count < 8 || seed >> 31)) {
			struct vs_caching_request request = {.size = sizes[(seed >> 8) % 10] + (seed >> 28) * 512};

			if (vs_caching_malloc(caching, &request, &live[count]) < 0)
				exit(1);
			asked[count] = request.size;
			add(r, VS_REPLAY_ALLOC, vs_caching_address(live[count++]), request.size);
		} else {
			size_t at = seed & 7 ? count - 1 : (seed >> 4) % count;

			add(r, VS_REPLAY_FREE, vs_caching_address(live[at]), asked[at]);
			add(r, VS_REPLAY_COMPLETE, vs_caching_address(live[at]), asked[at]);
			vs_caching_free(caching, live[at]);
			live[at] = live[--count];
			asked[at] = asked[count];
		}
	}
	vs_caching_free_all(caching);
}

int main(void)
{
	struct vs_caching_settings settings;
	struct recorder r = {.events = calloc(EVENTS + 16, sizeof(*r.events)), .next = UINT64_C(1) << 40};
	struct vs_replay_card card = {.total = UINT64_C(1) << 40};
	struct vs_replay_recording recording;
	struct vs_replay_exactness e;
	struct vs_replay_program *program = NULL;
	struct vs_replay_outcome outcome;
	double start, baseline = 0, plain = 0, expandable = 0;

	vs_caching_defaults(&settings, 211);
	if (!r.events)
		return 1;
	record(&r, &settings);
	recording = (struct vs_replay_recording){.settings = settings, .events = r.events, .event_count = r.count};
	for (int i = 0; i < 3; i++) { /* the best of three: other programs run here too */
		vs_replay_program_free(program);
		start = seconds();
		if (vs_replay_baseline(&recording, &e, &program) < 0 || e.addresses_exact != e.addresses ||
		    e.segments_exact != e.segments)
			return 1;
		baseline = baseline && baseline < seconds() - start ? baseline : seconds() - start;
		settings.expandable_segments = false;
		start = seconds();
		if (vs_replay_scenario(program, &settings, &card, &outcome) < 0)
			return 1;
		plain = plain && plain < seconds() - start ? plain : seconds() - start;
		settings.expandable_segments = true;
		start = seconds();
		if (vs_replay_scenario(program, &settings, &card, &outcome) < 0)
			return 1;
		expandable = expandable && expandable < seconds() - start ? expandable : seconds() - start;
	}
	printf("exact replay            %6.2f M events/s\n", (double)r.count / baseline / 1e6);
	printf("scenario, as recorded   %6.2f M events/s\n", (double)r.count / plain / 1e6);
	printf("scenario, expandable    %6.2f M events/s\n", (double)r.count / expandable / 1e6);
	vs_replay_program_free(program);
	free(r.events);
	return 0;
}
