/* SPDX-License-Identifier: MIT */
#include "caching/oracle.h"

#include "base/buffer.h"
#include "caching/internal.h"

#include <errno.h>
#include <stdlib.h>

/* The first event not answered yet; NULL at the end. Completions are the allocator's own business. */
static const struct vs_replay_event *head(struct vs_oracle *oracle)
{
	while (oracle->begin < oracle->end &&
	       (oracle->answered[oracle->begin] || oracle->events[oracle->begin].kind == VS_REPLAY_COMPLETE))
		oracle->begin++;
	return oracle->begin < oracle->end ? &oracle->events[oracle->begin] : NULL;
}

static void answer(struct vs_oracle *oracle, const struct vs_replay_event *event)
{
	oracle->answered[event - oracle->events] = 1;
}

static bool is_release(const struct vs_replay_event *event)
{
	return event->kind == VS_REPLAY_SEGMENT_FREE || event->kind == VS_REPLAY_SEGMENT_UNMAP;
}

/* Where the recording goes on to release, or to give up, the device was full. */
static bool was_full(const struct vs_oracle *oracle, const struct vs_replay_event *event)
{
	if (!event)
		return oracle->refused;
	return is_release(event);
}

static uint64_t invent(struct vs_oracle *oracle, uint64_t size)
{
	uint64_t address = oracle->invented;

	/* Far above any device address; 2 MiB steps as the device has. */
	oracle->invented += (size + (UINT64_C(2) << 20) - 1) >> 21 << 21;
	oracle->extra++;
	return address;
}

static int oracle_allocate(void *context, uint64_t size, uint64_t *ret_address)
{
	struct vs_oracle *oracle = context;
	const struct vs_replay_event *event = head(oracle);

	if (was_full(oracle, event))
		return -ENOMEM;
	if (!event || event->kind != VS_REPLAY_SEGMENT_ALLOC || event->size != size) {
		if (size >> 50)
			return -ENOMEM;
		*ret_address = invent(oracle, size);
		return 0;
	}
	answer(oracle, event);
	*ret_address = event->address;
	return 0;
}

static uint64_t release_key(enum vs_replay_kind kind, uint64_t address)
{
	return address ^ (uint64_t)(kind == VS_REPLAY_SEGMENT_UNMAP) << 63;
}

/* The releases that the recording has next, up to where it gets memory: the model's may come in another order. */
static void open_window(struct vs_oracle *oracle)
{
	size_t i = oracle->begin;

	if (i < oracle->window_stop && oracle->window_end == oracle->end)
		return;
	vs_map_done(&oracle->window);
	for (; i < oracle->end; i++) {
		const struct vs_replay_event *event = &oracle->events[i];
		uint64_t key = release_key(event->kind, event->address);

		if (event->kind == VS_REPLAY_SEGMENT_ALLOC || event->kind == VS_REPLAY_SEGMENT_MAP)
			break;
		/* Without memory for the map they count as not matched. */
		if (is_release(event) && !oracle->answered[i] && !vs_map_find(&oracle->window, key) &&
		    vs_map_set(&oracle->window, key, i) < 0)
			break;
	}
	oracle->window_stop = i;
	oracle->window_end = oracle->end;
}

static void oracle_match(struct vs_oracle *oracle, enum vs_replay_kind kind, uint64_t address, uint64_t size)
{
	const struct vs_replay_event *event = head(oracle);
	uint64_t index;

	if (event && event->kind == kind && event->address == address && event->size == size) {
		answer(oracle, event);
		return;
	}
	open_window(oracle);
	if (!vs_map_get(&oracle->window, release_key(kind, address), &index) || oracle->answered[index] ||
	    oracle->events[index].size != size)
		oracle->extra++;
	else
		answer(oracle, &oracle->events[index]);
}

static void oracle_release(void *context, uint64_t address, uint64_t size)
{
	oracle_match(context, VS_REPLAY_SEGMENT_FREE, address, size);
}

int vs_oracle_reserved(struct vs_oracle *oracle, uint64_t address, uint64_t size)
{
	if (vs_grow(&oracle->ranges, &oracle->range_capacity, oracle->range_count + 1, sizeof(*oracle->ranges)) < 0)
		return -ENOMEM;
	oracle->ranges[oracle->range_count++] = (struct vs_oracle_range){address, size};
	return 0;
}

static bool in_known_range(const struct vs_oracle *oracle, uint64_t address)
{
	for (size_t i = 0; i < oracle->range_count; i++) {
		if (address - oracle->ranges[i].address < oracle->ranges[i].size)
			return true;
	}
	return false;
}

/* Could this event have mapped into the range that the request under way needs? */
static bool maps_alike(const struct vs_oracle *oracle, const struct vs_replay_event *event)
{
	return event->kind == VS_REPLAY_SEGMENT_MAP && event->stream == oracle->request->stream &&
	       (event->size == SMALL_BUFFER) == oracle->small && event->pool[0] == oracle->request->pool[0] &&
	       event->pool[1] == oracle->request->pool[1];
}

/* Reserving leaves no event, and a range may stay empty for long where the device was full: it begins where the next
 * mapping of the same kind outside all known ranges does. */
static int oracle_reserve(void *context, uint64_t size, uint64_t *ret_address)
{
	struct vs_oracle *oracle = context;
	uint64_t address = oracle->invented;

	for (size_t i = oracle->begin; i < oracle->count; i++) {
		const struct vs_replay_event *event = &oracle->events[i];

		if (maps_alike(oracle, event) && !oracle->answered[i] && !in_known_range(oracle, event->address)) {
			address = event->address;
			break;
		}
	}
	if (address == oracle->invented)
		oracle->invented += size + (UINT64_C(1) << 30);
	*ret_address = address;
	return vs_oracle_reserved(oracle, address, size);
}

static void oracle_unreserve(void *context, uint64_t address, uint64_t size)
{
	struct vs_oracle *oracle = context;

	(void)size;
	for (size_t i = 0; i < oracle->range_count; i++) {
		if (oracle->ranges[i].address == address) {
			oracle->ranges[i] = oracle->ranges[--oracle->range_count];
			return;
		}
	}
}

static int oracle_map(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	struct vs_oracle *oracle = context;
	const struct vs_replay_event *event = head(oracle);

	(void)page;
	if (was_full(oracle, event))
		return -ENOMEM;
	if (!event || event->kind != VS_REPLAY_SEGMENT_MAP || event->address != address || event->size != size)
		oracle->extra++;
	else
		answer(oracle, event);
	return 0;
}

static void oracle_unmap(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	(void)page;
	oracle_match(context, VS_REPLAY_SEGMENT_UNMAP, address, size);
}

/* An unknown card is one whose limits never matter. */
static uint64_t device_total(uint64_t total)
{
	return total ? total : UINT64_C(1) << 40;
}

struct vs_caching_device vs_oracle_device(struct vs_oracle *oracle, uint64_t total)
{
	return (struct vs_caching_device){
	    .context = oracle,
	    .total = device_total(total),
	    .allocate = oracle_allocate,
	    .release = oracle_release,
	    .reserve = oracle_reserve,
	    .unreserve = oracle_unreserve,
	    .map = oracle_map,
	    .unmap = oracle_unmap,
	};
}

uint64_t vs_oracle_limit(const struct vs_replay_recording *recording)
{
	double fraction = recording->settings.memory_fraction;

	return fraction < 1 ? (uint64_t)(fraction * (double)device_total(recording->total)) : UINT64_MAX;
}

uint64_t vs_oracle_most(const struct vs_replay_recording *recording, uint64_t start)
{
	uint64_t now = start, most = start, limit = vs_oracle_limit(recording);

	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];

		if (event->kind == VS_REPLAY_SEGMENT_ALLOC || event->kind == VS_REPLAY_SEGMENT_MAP)
			now += event->size;
		else if (is_release(event))
			now -= event->size < now ? event->size : now;
		if (now > most)
			most = now;
	}
	if (recording->room > most)
		most = recording->room;
	return limit < most ? limit : most;
}

void vs_oracle_done(struct vs_oracle *oracle)
{
	vs_map_done(&oracle->window);
	free(oracle->ranges);
	free(oracle->answered);
}
