/* SPDX-License-Identifier: MIT
 *
 * Before torch 2.15 events do not tell their pool, but the final segments do.
 * So follow each segment from the event that made it to the one that released
 * it, or to the end; what it was used for in between was its pool's. Of one
 * that was released no final segment tells. It counts as the default pools',
 * as private ones are released after their pool is gone; but for what
 * untold.c knows better.
 */
#include "caching/lives.h"

#include "base/buffer.h"
#include "caching/internal.h"
#include "caching/untold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More segments at once than this are no expandable ones, and private pools do not have them. */
#define MAX_LIVES 65536

/* Where the last that begins at or before an address is among those alive, plus 1; 0: there is none. */
static size_t place_before(const struct vs_lives *lives, uint64_t address)
{
	size_t low = 0, high = lives->alive_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (lives->all[lives->alive[middle]].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct vs_life *life_before(const struct vs_lives *lives, uint64_t address)
{
	size_t place = place_before(lives, address);

	return place ? &lives->all[lives->alive[place - 1]] : NULL;
}

static struct vs_life *life_at(const struct vs_lives *lives, uint64_t address)
{
	struct vs_life *life = life_before(lives, address);

	return life && address - life->address < life->size ? life : NULL;
}

static int begin_life(struct vs_lives *lives, const struct vs_life *life)
{
	size_t at = place_before(lives, life->address);

	if (lives->alive_count == MAX_LIVES || lives->count == VS_NO_LIFE)
		return -EOVERFLOW;
	if (vs_grow(&lives->all, &lives->capacity, lives->count + 1, sizeof(*lives->all)) < 0 ||
	    vs_grow(&lives->alive, &lives->alive_capacity, lives->alive_count + 1, sizeof(*lives->alive)) < 0)
		return -ENOMEM;
	memmove(&lives->alive[at + 1], &lives->alive[at], (lives->alive_count - at) * sizeof(*lives->alive));
	lives->alive[at] = (uint32_t)lives->count;
	lives->alive_count++;
	lives->all[lives->count++] = *life;
	return 0;
}

static void end_life(struct vs_lives *lives, struct vs_life *life)
{
	size_t at = place_before(lives, life->address) - 1;

	life->released = true;
	memmove(&lives->alive[at], &lives->alive[at + 1], (--lives->alive_count - at) * sizeof(*lives->alive));
}

/* An expandable segment is mapped from its beginning on, without holes but where it was unmapped again: a mapping
 * that neither lies in what was mapped nor follows it begins another segment. */
static int on_map(struct vs_lives *lives, const struct vs_replay_event *event)
{
	struct vs_life *life = life_before(lives, event->address);
	bool small = event->size == SMALL_BUFFER;
	uint64_t offset = life ? event->address - life->address : 0;

	if (!life || offset > life->size || !life->expandable || life->stream != event->stream ||
	    life->small != small)
		return begin_life(lives, &(struct vs_life){.address = event->address,
		                                           .size = event->size,
		                                           .mapped = event->size,
		                                           .stream = event->stream,
		                                           .expandable = true,
		                                           .small = small});
	life->mapped += event->size;
	if (offset + event->size > life->size)
		life->size = offset + event->size;
	return 0;
}

static int on_event(struct vs_lives *lives, const struct vs_replay_event *event)
{
	switch (event->kind) {
	case VS_REPLAY_SEGMENT_ALLOC:
		return begin_life(lives, &(struct vs_life){.address = event->address,
		                                           .size = event->size,
		                                           .stream = event->stream,
		                                           .small = event->size == SMALL_BUFFER});
	case VS_REPLAY_SEGMENT_MAP:
		return on_map(lives, event);
	default:
		break;
	}
	return 0;
}

static void after_event(struct vs_lives *lives, const struct vs_replay_event *event)
{
	struct vs_life *life = life_at(lives, event->address);

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

/* Of expandable segments only what the events map is followed: what was there before, the final segments decide. */
static int begin_with(struct vs_lives *lives, const struct vs_initial *initial)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < initial->count; i++) {
		lives->of_initial[i] = initial->segments[i].expandable ? VS_NO_LIFE : (uint32_t)lives->count;
		if (!initial->segments[i].expandable)
			r = begin_life(lives, &(struct vs_life){.address = initial->about[i].address,
			                                        .size = initial->about[i].size,
			                                        .stream = initial->about[i].stream,
			                                        .small = initial->about[i].small});
	}
	return r;
}

static int follow(const struct vs_replay_recording *recording, struct vs_lives *lives)
{
	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		const struct vs_life *life;
		int r = on_event(lives, event);

		if (r < 0)
			return r;
		life = event->kind == VS_REPLAY_OOM ? NULL : life_at(lives, event->address);
		lives->of_event[i] = life ? (uint32_t)(life - lives->all) : VS_NO_LIFE;
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

/* Any final segment in the range of one that lives at the end is its, or the remains of it. */
static int take_final(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                      const struct vs_lives *lives)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < recording->segment_count; i++) {
		struct vs_life *life = life_at(lives, recording->segments[i].address);

		if (life)
			r = vs_program_pool(program, recording->segments[i].pool, &life->pool);
	}
	return r;
}

static int assign(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                  const struct vs_lives *lives, uint16_t *pools)
{
	struct vs_initial *initial = &program->initial;
	int r = 0;

	for (size_t i = 0; r == 0 && i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		const struct vs_replay_segment *segment;

		if (lives->of_event[i] != VS_NO_LIFE) {
			pools[i] = lives->all[lives->of_event[i]].pool;
		} else if (event->kind == VS_REPLAY_ALLOC) {
			segment = final_at(recording, event->address);
			r = segment ? vs_program_pool(program, segment->pool, &pools[i]) : 0;
		}
	}
	for (size_t i = 0; i < initial->count; i++) {
		const struct vs_pool_id *id;

		if (lives->of_initial[i] == VS_NO_LIFE)
			continue;
		id = &program->pools.ids[lives->all[lives->of_initial[i]].pool];
		initial->about[i].pool[0] = id->first;
		initial->about[i].pool[1] = id->second;
	}
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

static bool tells_pools(const struct vs_replay_recording *recording)
{
	return recording->event_count && recording->events[0].pool[0] != VS_REPLAY_NO_POOL;
}

static int find(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                struct vs_lives *lives, uint16_t *pools)
{
	int r;

	lives->of_event = calloc(recording->event_count + 1, sizeof(*lives->of_event));
	lives->of_initial = calloc(program->initial.count + 1, sizeof(*lives->of_initial));
	if (!lives->of_event || !lives->of_initial || !pools)
		return -ENOMEM;
	for (size_t i = 0; i < recording->event_count; i++)
		pools[i] = recording->events[i].kind == VS_REPLAY_OOM ? VS_NO_POOL : 0;
	r = begin_with(lives, &program->initial);
	if (r == 0)
		r = follow(recording, lives);
	if (r == 0)
		r = take_final(recording, program, lives);
	if (r == 0)
		r = vs_untold_solve(recording, program, lives, pools);
	return r < 0 ? r : assign(recording, program, lives, pools);
}

int vs_lives_find_pools(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                        uint16_t **ret_pools)
{
	struct vs_lives lives = {0};
	uint16_t *pools;
	int r;

	*ret_pools = NULL;
	if (!has_private(recording) || tells_pools(recording))
		return 0;
	pools = calloc(recording->event_count + 1, sizeof(*pools));
	r = find(recording, program, &lives, pools);
	free(lives.all);
	free(lives.alive);
	free(lives.of_event);
	free(lives.of_initial);
	if (r < 0) {
		free(pools);
		return r == -EOVERFLOW ? 0 : r;
	}
	*ret_pools = pools;
	return 0;
}
