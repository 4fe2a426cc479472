/* SPDX-License-Identifier: MIT
 *
 * A row is an unbroken run of allocations with one stack. It is in the shapes of others if each of its blocks finds
 * one of its size among those that lived when it began. Few blocks, or all of one size, may well do so by chance.
 */
#include "import_shapes.h"

#include <errno.h>
#include <stdlib.h>

#include "caching/map.h"

enum {
	BLOCKS_LEAST = 4,
	SIZES_LEAST = 2,
};

struct search {
	const struct vs_snapshot_recording *recording;
	const struct vs_snapshot *snapshot;
	unsigned char *marked;
	struct vs_map live;   /* address -> event that made it */
	struct vs_map sizes;  /* of blocks older than the row -> how many */
	struct vs_map stacks; /* likewise */
	struct vs_map used;   /* sizes of the row's own blocks -> how many */
	size_t begin, count;  /* the row: its first allocation, and how many */
	uint32_t stack;
	bool fits;
};

static uint64_t number_of(const struct vs_map *map, uint64_t key)
{
	uint64_t number = 0;

	vs_map_get(map, key, &number);
	return number;
}

static uint32_t stack_of(const struct search *s, size_t event)
{
	return s->snapshot->events[s->recording->sources[event]].stack;
}

static int change(struct search *s, size_t event, uint64_t by)
{
	uint64_t size = s->recording->events[event].size;
	uint32_t stack = stack_of(s, event);

	if (vs_map_set(&s->sizes, size, number_of(&s->sizes, size) + by) < 0 ||
	    vs_map_set(&s->stacks, stack, number_of(&s->stacks, stack) + by) < 0)
		return -ENOMEM;
	return 0;
}

/* The row is over: its blocks are older than what follows. */
static int end_row(struct search *s, size_t end)
{
	const struct vs_replay_event *events = s->recording->events;
	bool shaped = s->fits && s->count >= BLOCKS_LEAST && s->used.count >= SIZES_LEAST;
	uint64_t made;
	int r = 0;

	for (size_t i = s->begin; r == 0 && i < end; i++) {
		if (events[i].kind != VS_REPLAY_ALLOC)
			continue;
		s->marked[i] = shaped;
		if (vs_map_get(&s->live, events[i].address, &made) && made == i)
			r = change(s, i, 1);
	}
	s->count = 0;
	return r;
}

static int on_alloc(struct search *s, size_t event)
{
	const struct vs_replay_event *e = &s->recording->events[event];
	uint32_t stack = stack_of(s, event);
	uint64_t used, made;
	int r = 0;

	if (s->count && stack != s->stack)
		r = end_row(s, event);
	if (r < 0)
		return r;
	if (!s->count) {
		vs_map_done(&s->used);
		s->begin = event;
		s->stack = stack;
		s->fits = stack && !number_of(&s->stacks, stack);
	}
	s->count++;
	used = number_of(&s->used, e->size) + 1;
	s->fits &= used <= number_of(&s->sizes, e->size);
	if (vs_map_get(&s->live, e->address, &made) && made < s->begin)
		r = change(s, made, (uint64_t)-1); /* whose end was not seen */
	if (r == 0)
		r = vs_map_set(&s->used, e->size, used);
	return r < 0 ? r : vs_map_set(&s->live, e->address, event);
}

static int on_free(struct search *s, size_t event)
{
	uint64_t made;

	if (!vs_map_take(&s->live, s->recording->events[event].address, &made))
		return 0;
	/* What is freed within its own row was no state. */
	if (s->count && made >= s->begin) {
		s->fits = false;
		return 0;
	}
	return change(s, made, (uint64_t)-1);
}

int vs_shapes_find(const struct vs_snapshot *snapshot, const struct vs_snapshot_recording *recording,
                   unsigned char **ret_marked)
{
	struct search s = {.recording = recording, .snapshot = snapshot};
	size_t count = recording->recording.event_count;
	int r = 0;

	s.marked = calloc(count + 1, 1);
	if (!s.marked)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++) {
		enum vs_replay_kind kind = recording->events[i].kind;

		if (kind == VS_REPLAY_ALLOC)
			r = on_alloc(&s, i);
		else if (kind == VS_REPLAY_FREE)
			r = on_free(&s, i);
	}
	if (r == 0 && s.count)
		r = end_row(&s, count);
	vs_map_done(&s.live);
	vs_map_done(&s.sizes);
	vs_map_done(&s.stacks);
	vs_map_done(&s.used);
	if (r < 0)
		free(s.marked);
	else
		*ret_marked = s.marked;
	return r;
}
