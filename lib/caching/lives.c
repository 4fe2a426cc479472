/* SPDX-License-Identifier: MIT
 *
 * Before torch 2.15 events do not tell their pool, but the final segments do.
 * So follow each segment from the event that made it to the one that released
 * it, or to the end; what it was used for in between was its pool's. Segments
 * that were released count as the default pools': private ones are only
 * released after their pool is gone.
 */
#include "caching/lives.h"

#include "base/buffer.h"
#include "caching/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More segments at once than this are no expandable ones, and private pools do not have them. */
#define MAX_LIVES 65536

struct life {
	uint64_t address;
	uint64_t end;    /* of an expandable segment: as far as it was ever mapped */
	uint64_t mapped; /* bytes; at 0 it is gone */
	uint64_t stream;
	bool expandable, small;
	uint32_t id; /* from 1 */
};

struct lives {
	struct life *alive; /* by address */
	size_t count, capacity;
	uint32_t ids;
};

/* The last that begins at or before an address; NULL if none. */
static struct life *life_before(struct lives *lives, uint64_t address)
{
	size_t low = 0, high = lives->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (lives->alive[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &lives->alive[low - 1] : NULL;
}

static struct life *life_at(struct lives *lives, uint64_t address)
{
	struct life *life = life_before(lives, address);

	return life && address < life->end ? life : NULL;
}

static int begin_life(struct lives *lives, const struct life *life)
{
	struct life *before = life_before(lives, life->address);
	size_t at = before ? (size_t)(before - lives->alive) + 1 : 0;

	if (lives->count == MAX_LIVES)
		return -EOVERFLOW;
	if (vs_grow(&lives->alive, &lives->capacity, lives->count + 1, sizeof(*lives->alive)) < 0)
		return -ENOMEM;
	memmove(&lives->alive[at + 1], &lives->alive[at], (lives->count - at) * sizeof(*lives->alive));
	lives->alive[at] = *life;
	lives->alive[at].id = ++lives->ids;
	lives->count++;
	return 0;
}

static void end_life(struct lives *lives, struct life *life)
{
	size_t at = (size_t)(life - lives->alive);

	memmove(life, life + 1, (--lives->count - at) * sizeof(*life));
}

/* An expandable segment is mapped from its beginning on, without holes but where it was unmapped again: a mapping
 * that neither lies in what was mapped nor follows it begins another segment. */
static int on_map(struct lives *lives, const struct vs_replay_event *event)
{
	struct life *life = life_before(lives, event->address);
	bool small = event->size == SMALL_BUFFER;

	if (!life || event->address > life->end || !life->expandable || life->stream != event->stream ||
	    life->small != small)
		return begin_life(lives, &(struct life){.address = event->address,
		                                        .end = event->address + event->size,
		                                        .mapped = event->size,
		                                        .stream = event->stream,
		                                        .expandable = true,
		                                        .small = small});
	life->mapped += event->size;
	if (event->address + event->size > life->end)
		life->end = event->address + event->size;
	return 0;
}

static int on_event(struct lives *lives, const struct vs_replay_event *event)
{
	switch (event->kind) {
	case VS_REPLAY_SEGMENT_ALLOC:
		return begin_life(lives,
		                  &(struct life){.address = event->address, .end = event->address + event->size});
	case VS_REPLAY_SEGMENT_MAP:
		return on_map(lives, event);
	default:
		break;
	}
	return 0;
}

static void after_event(struct lives *lives, const struct vs_replay_event *event)
{
	struct life *life = life_at(lives, event->address);

	if (!life)
		return;
	if (event->kind == VS_REPLAY_SEGMENT_UNMAP && life->expandable) {
		life->mapped -= event->size < life->mapped ? event->size : life->mapped;
		if (!life->mapped)
			end_life(lives, life);
	} else if (event->kind == VS_REPLAY_SEGMENT_FREE && life->address == event->address) {
		end_life(lives, life);
	}
}

/* What the events do not begin was there before them; it is not in `ids`, and the final segments decide alone. */
static int follow(const struct vs_replay_recording *recording, struct lives *lives, uint32_t *ids)
{
	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		const struct life *life;
		int r = on_event(lives, event);

		if (r < 0)
			return r;
		life = event->kind == VS_REPLAY_OOM ? NULL : life_at(lives, event->address);
		ids[i] = life ? life->id : 0;
		after_event(lives, event);
	}
	return 0;
}

/* The final segment that covers an address. */
static const struct vs_replay_segment *final_at(const struct vs_replay_recording *recording, uint64_t address)
{
	size_t low = 0, high = recording->segment_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (recording->segments[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - recording->segments[low - 1].address >= recording->segments[low - 1].size)
		return NULL;
	return &recording->segments[low - 1];
}

static int pool_of(struct vs_replay_program *program, const struct vs_replay_segment *segment, uint16_t *ret_pool)
{
	return segment ? vs_program_pool(program, segment->pool, ret_pool) : 0;
}

static int assign(const struct vs_replay_recording *recording, struct vs_replay_program *program, struct lives *lives,
                  const uint32_t *ids, uint16_t *pools)
{
	uint16_t *by_id = calloc(lives->ids + 1U, sizeof(*by_id));
	int r = by_id ? 0 : -ENOMEM;

	/* Any final segment in the range of one that lives at the end is its, or the remains of it. */
	for (size_t i = 0; r == 0 && i < recording->segment_count; i++) {
		const struct life *life = life_at(lives, recording->segments[i].address);

		if (life)
			r = pool_of(program, &recording->segments[i], &by_id[life->id]);
	}
	for (size_t i = 0; r == 0 && i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];

		if (ids[i])
			pools[i] = by_id[ids[i]];
		else if (event->kind == VS_REPLAY_ALLOC)
			r = pool_of(program, final_at(recording, event->address), &pools[i]);
	}
	free(by_id);
	return r;
}

static bool has_private(const struct vs_replay_recording *recording)
{
	for (size_t i = 0; i < recording->segment_count; i++) {
		if (recording->segments[i].pool[0] || recording->segments[i].pool[1])
			return true;
	}
	return false;
}

int vs_lives_find_pools(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                        uint16_t **ret_pools)
{
	struct lives lives = {0};
	uint16_t *pools;
	uint32_t *ids;
	int r;

	*ret_pools = NULL;
	if (!has_private(recording))
		return 0;
	pools = calloc(recording->event_count + 1, sizeof(*pools));
	ids = calloc(recording->event_count + 1, sizeof(*ids));
	r = pools && ids ? follow(recording, &lives, ids) : -ENOMEM;
	if (r == 0)
		r = assign(recording, program, &lives, ids, pools);
	free(lives.alive);
	free(ids);
	if (r < 0) {
		free(pools);
		return r == -EOVERFLOW ? 0 : r;
	}
	*ret_pools = pools;
	return 0;
}
