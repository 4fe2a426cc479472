/* SPDX-License-Identifier: MIT
 *
 * A block or segment was there at the start if the first event about its
 * address gives it back, or if it is there at the end and no event is about
 * it. The sizes of blocks given back later are only known as requested; what
 * rounding does not tell is found from the neighbours (block_end()).
 */
#include "caching/initial.h"

#include "base/buffer.h"
#include "caching/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Address space of an expandable segment where the card's size is unknown: more than any card's. */
#define UNKNOWN_RANGE (UINT64_C(1) << 40)

struct start_block {
	uint64_t address, size;
	bool pending;
	bool sure;    /* the size is the block's, not only its request's */
	bool placed;  /* in a segment */
	size_t until; /* the event that gives it back; SIZE_MAX: none */
};

struct stretch { /* of an expandable segment */
	uint64_t address, size;
	bool mapped; /* at the start */
	struct vs_replay_segment about;
};

struct finder {
	const struct vs_replay_recording *recording;
	struct vs_initial *initial;
	struct vs_map first_block, first_segment; /* address -> index of the first event about it */
	struct start_block *blocks;
	size_t block_count, block_capacity;
	struct vs_replay_segment *segments;
	size_t segment_count, segment_capacity;
	struct stretch *stretches;
	size_t stretch_count, stretch_capacity;
	uint64_t *allocs; /* indices of the alloc events, by address; NULL until needed */
	size_t alloc_count;
};

static int index_events(struct finder *f)
{
	for (size_t i = 0; i < f->recording->event_count; i++) {
		const struct vs_replay_event *event = &f->recording->events[i];
		struct vs_map *map;

		switch (event->kind) {
		case VS_REPLAY_ALLOC:
		case VS_REPLAY_FREE:
		case VS_REPLAY_COMPLETE:
			map = &f->first_block;
			break;
		case VS_REPLAY_SEGMENT_ALLOC:
		case VS_REPLAY_SEGMENT_FREE:
			map = &f->first_segment;
			break;
		default:
			continue;
		}
		if (!vs_map_find(map, event->address) && vs_map_set(map, event->address, i) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_block(struct finder *f, const struct start_block *block)
{
	if (vs_grow(&f->blocks, &f->block_capacity, f->block_count + 1, sizeof(*f->blocks)) < 0)
		return -ENOMEM;
	f->blocks[f->block_count++] = *block;
	return 0;
}

static int find_blocks(struct finder *f)
{
	const struct vs_replay_recording *recording = f->recording;

	for (size_t i = 0; i < recording->segment_count; i++) {
		for (size_t j = 0; j < recording->segments[i].block_count; j++) {
			const struct vs_replay_block *block = &recording->segments[i].blocks[j];
			struct start_block start = {.address = block->address,
			                            .size = block->size,
			                            .pending = block->pending,
			                            .sure = true,
			                            .until = SIZE_MAX};

			if (!block->allocated && !block->pending)
				continue;
			if (!vs_map_find(&f->first_block, block->address) && add_block(f, &start) < 0)
				return -ENOMEM;
		}
	}
	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		struct start_block start = {.address = event->address, .until = i};
		uint64_t first;

		if (event->kind != VS_REPLAY_FREE && event->kind != VS_REPLAY_COMPLETE)
			continue;
		if (!vs_map_get(&f->first_block, event->address, &first) || first != i)
			continue;
		start.size = vs_caching_round(&recording->settings, event->size);
		start.pending = event->kind == VS_REPLAY_COMPLETE;
		if (add_block(f, &start) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_segment(struct finder *f, const struct vs_replay_segment *segment)
{
	if (vs_grow(&f->segments, &f->segment_capacity, f->segment_count + 1, sizeof(*f->segments)) < 0)
		return -ENOMEM;
	f->segments[f->segment_count++] = *segment;
	return 0;
}

static int find_segments(struct finder *f)
{
	const struct vs_replay_recording *recording = f->recording;

	for (size_t i = 0; i < recording->segment_count; i++) {
		const struct vs_replay_segment *segment = &recording->segments[i];

		if (!segment->expandable && !vs_map_find(&f->first_segment, segment->address) &&
		    add_segment(f, segment) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		struct vs_replay_segment segment = {.address = event->address,
		                                    .size = event->size,
		                                    .stream = event->stream,
		                                    .small = event->size == SMALL_BUFFER};
		uint64_t first;

		if (event->kind != VS_REPLAY_SEGMENT_FREE || !vs_map_get(&f->first_segment, event->address, &first) ||
		    first != i)
			continue;
		if (event->pool[0] != VS_REPLAY_NO_POOL)
			memcpy(segment.pool, event->pool, sizeof(segment.pool));
		if (add_segment(f, &segment) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int by_block_address(const void *left, const void *right)
{
	const struct start_block *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static int by_segment_address(const void *left, const void *right)
{
	const struct vs_replay_segment *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static int by_alloc_address(const void *left, const void *right, void *events_pointer)
{
	const struct vs_replay_event *events = events_pointer;
	uint64_t i = *(const uint64_t *)left, j = *(const uint64_t *)right;

	if (events[i].address != events[j].address)
		return events[i].address < events[j].address ? -1 : 1;
	return i < j ? -1 : i > j;
}

static int index_allocs(struct finder *f)
{
	if (f->allocs)
		return 0;
	f->allocs = calloc(f->recording->event_count + 1, sizeof(*f->allocs));
	if (!f->allocs)
		return -ENOMEM;
	for (size_t i = 0; i < f->recording->event_count; i++) {
		if (f->recording->events[i].kind == VS_REPLAY_ALLOC)
			f->allocs[f->alloc_count++] = i;
	}
	qsort_r(f->allocs, f->alloc_count, sizeof(*f->allocs), by_alloc_address,
	        (void *)(uintptr_t)f->recording->events);
	return 0;
}

/* The lowest address in [low, high] that was handed out before event `until`; 0: none. */
static uint64_t first_alloc_in(const struct finder *f, uint64_t low, uint64_t high, size_t until)
{
	const struct vs_replay_event *events = f->recording->events;
	size_t begin = 0, end = f->alloc_count;

	while (begin < end) {
		size_t middle = begin + (end - begin) / 2;

		if (events[f->allocs[middle]].address < low)
			begin = middle + 1;
		else
			end = middle;
	}
	for (; begin < f->alloc_count && events[f->allocs[begin]].address <= high; begin++) {
		if (f->allocs[begin] < until)
			return events[f->allocs[begin]].address;
	}
	return 0;
}

/* Where a block ends. Small and expandable blocks are cut to size. A large one may keep up to 1 MiB that was too
 * little to split off: so a gap of at most that much before the next block is its own, for a free large block is
 * always more. Behind a wider gap, what was handed out first in it shows where the gap began. */
static int block_end(struct finder *f, const struct vs_replay_segment *segment, const struct start_block *block,
                     uint64_t limit, uint64_t *ret_end)
{
	const struct vs_caching_settings *settings = &f->recording->settings;
	uint64_t end = block->address + block->size, found;
	int r;

	*ret_end = end;
	if (block->sure || segment->small || segment->expandable || end >= limit)
		return 0;
	if (limit - end <= SMALL_SIZE || block->size >= settings->max_split_size) {
		*ret_end = limit;
		return 0;
	}
	r = index_allocs(f);
	if (r < 0)
		return r;
	found = first_alloc_in(f, end, end + SMALL_SIZE, block->until);
	if (found)
		*ret_end = found;
	else
		f->initial->guessed++;
	return 0;
}

static int add_piece(struct vs_initial *initial, uint64_t address, uint64_t size, enum vs_caching_piece_state state)
{
	if (!size)
		return 0;
	if (vs_grow(&initial->pieces, &initial->piece_capacity, initial->piece_count + 1, sizeof(*initial->pieces)) <
	    0)
		return -ENOMEM;
	initial->pieces[initial->piece_count++] =
	    (struct vs_caching_piece){.address = address, .size = size, .state = state};
	return 0;
}

/* The pieces of one mapped range, from the blocks in it; *at steps over the sorted blocks. */
static int add_range(struct finder *f, const struct vs_replay_segment *segment, size_t *at)
{
	uint64_t here = segment->address, stop = segment->address + segment->size;
	int r = 0;

	while (*at < f->block_count && f->blocks[*at].address < here)
		(*at)++;
	for (; r == 0 && *at < f->block_count && f->blocks[*at].address < stop; (*at)++) {
		struct start_block *block = &f->blocks[*at];
		uint64_t limit = *at + 1 < f->block_count && block[1].address < stop ? block[1].address : stop, end;

		if (block->address < here || block->size > limit - block->address)
			continue;
		block->placed = true;
		r = block_end(f, segment, block, limit, &end);
		if (r == 0)
			r = add_piece(f->initial, here, block->address - here, VS_PIECE_FREE);
		if (r == 0)
			r = add_piece(f->initial, block->address, end - block->address,
			              block->pending ? VS_PIECE_PENDING : VS_PIECE_ALLOCATED);
		f->initial->blocks++;
		f->initial->bytes += end - block->address;
		here = end;
	}
	return r < 0 ? r : add_piece(f->initial, here, stop - here, VS_PIECE_FREE);
}

static int open_segment(struct vs_initial *initial, const struct vs_replay_segment *about)
{
	size_t capacity = initial->capacity;

	if (vs_grow(&initial->segments, &capacity, initial->count + 1, sizeof(*initial->segments)) < 0 ||
	    vs_grow(&initial->about, &initial->capacity, initial->count + 1, sizeof(*initial->about)) < 0)
		return -ENOMEM;
	initial->about[initial->count] = *about;
	initial->segments[initial->count++] = (struct vs_caching_segment){
	    .stream = about->stream,
	    .small = about->small,
	    .expandable = about->expandable,
	    /* An index until the array stands still. */
	    .piece_count = initial->piece_count,
	};
	return 0;
}

static int add_plain_segments(struct finder *f)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->segment_count; i++) {
		/* Overlapping ones are nonsense: the later is dropped. */
		if (i && f->segments[i].address - f->segments[i - 1].address < f->segments[i - 1].size) {
			f->segments[i] = f->segments[i - 1];
			continue;
		}
		r = open_segment(f->initial, &f->segments[i]);
		if (r == 0)
			r = add_range(f, &f->segments[i], &at);
	}
	return r;
}

/* Expandable segments: ranges of addresses that are mapped and unmapped piece by piece. */

enum { KIND_LARGE = 1, KIND_SMALL };

/* All places where a mapping begins or ends cut the addresses into stretches; every event covers whole ones. */
struct cuts {
	uint64_t *at; /* ascending, each once */
	size_t count;
	size_t *next;    /* of each stretch, the next that no event was about yet, or itself */
	uint64_t *stamp; /* a tree over the stretches: when, and as what, one was mapped last */
	size_t leaves;
};

static int by_number(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static bool is_mapping(const struct vs_replay_event *event)
{
	return event->kind == VS_REPLAY_SEGMENT_MAP || event->kind == VS_REPLAY_SEGMENT_UNMAP;
}

static int add_cut(struct cuts *cuts, uint64_t address, uint64_t size)
{
	if (size > UINT64_MAX - address)
		return -EOVERFLOW;
	cuts->at[cuts->count++] = address;
	cuts->at[cuts->count++] = address + size;
	return 0;
}

static int make_cuts(const struct vs_replay_recording *recording, struct cuts *cuts)
{
	size_t count = 0;
	int r = 0;

	cuts->at = calloc(2 * (recording->event_count + recording->segment_count) + 1, sizeof(*cuts->at));
	if (!cuts->at)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < recording->event_count; i++) {
		if (is_mapping(&recording->events[i]))
			r = add_cut(cuts, recording->events[i].address, recording->events[i].size);
	}
	for (size_t i = 0; r == 0 && i < recording->segment_count; i++) {
		if (recording->segments[i].expandable)
			r = add_cut(cuts, recording->segments[i].address, recording->segments[i].size);
	}
	if (r < 0)
		return r;
	qsort(cuts->at, cuts->count, sizeof(*cuts->at), by_number);
	for (size_t i = 0; i < cuts->count; i++) {
		if (!count || cuts->at[i] != cuts->at[count - 1])
			cuts->at[count++] = cuts->at[i];
	}
	cuts->count = count;
	for (cuts->leaves = 1; cuts->leaves < count; cuts->leaves *= 2)
		;
	cuts->next = calloc(count + 1, sizeof(*cuts->next));
	cuts->stamp = calloc(2 * cuts->leaves, sizeof(*cuts->stamp));
	if (!cuts->next || !cuts->stamp)
		return -ENOMEM;
	for (size_t i = 0; i <= count; i++)
		cuts->next[i] = i;
	return 0;
}

static void cuts_done(struct cuts *cuts)
{
	free(cuts->at);
	free(cuts->next);
	free(cuts->stamp);
}

/* The stretch that begins at an address which is a cut. */
static size_t stretch_at(const struct cuts *cuts, uint64_t address)
{
	const uint64_t *found = bsearch(&address, cuts->at, cuts->count, sizeof(*cuts->at), by_number);

	return (size_t)(found - cuts->at);
}

/* The first one from `i` on that no event was about yet. Paths are halved, so all look-ups together are nearly
 * linear. */
static size_t untold(struct cuts *cuts, size_t i)
{
	while (cuts->next[i] != i)
		i = cuts->next[i] = cuts->next[cuts->next[i]];
	return i;
}

/* Stretches [from, to) are mapped as `kind` now; later stamps are greater. */
static void stamp(struct cuts *cuts, size_t from, size_t to, uint64_t when, unsigned kind)
{
	for (from += cuts->leaves, to += cuts->leaves; from < to; from /= 2, to /= 2) {
		if (from & 1)
			cuts->stamp[from++] = when << 2 | kind;
		if (to & 1)
			cuts->stamp[--to] = when << 2 | kind;
	}
}

/* What a stretch was mapped as last; 0: it was not. */
static unsigned last_kind(const struct cuts *cuts, size_t i)
{
	uint64_t latest = 0;

	for (i += cuts->leaves; i; i /= 2) {
		if (cuts->stamp[i] > latest)
			latest = cuts->stamp[i];
	}
	return latest & 3;
}

/* The final expandable segment that covers an address, or NULL. */
static const struct vs_replay_segment *final_expandable(const struct finder *f, uint64_t address)
{
	const struct vs_replay_segment *segments = f->recording->segments;
	size_t low = 0, high = f->recording->segment_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (segments[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - segments[low - 1].address >= segments[low - 1].size)
		return NULL;
	return segments[low - 1].expandable ? &segments[low - 1] : NULL;
}

/* An event that maps tells the pool by its size: a small request maps one page of 2 MiB. One that unmaps does not;
 * the mapping before it knows, or, of what was mapped before the first event, the final segment. */
static bool is_small(const struct finder *f, const struct cuts *cuts, const struct vs_replay_event *event)
{
	uint64_t large = f->recording->settings.large_segment_size;
	unsigned kind;
	const struct vs_replay_segment *segment;

	if (event->size == SMALL_BUFFER)
		return large != SMALL_BUFFER;
	if (!large || event->size % large)
		return true;
	if (event->kind == VS_REPLAY_SEGMENT_MAP)
		return false;
	kind = last_kind(cuts, stretch_at(cuts, event->address));
	if (kind)
		return kind == KIND_SMALL;
	segment = final_expandable(f, event->address);
	return segment && segment->small;
}

/* A range was mapped, or unmapped (so it had been mapped): what that tells of the start. */
static int add_stretches(struct finder *f, struct cuts *cuts, const struct vs_replay_segment *range, bool mapped)
{
	size_t from = stretch_at(cuts, range->address), to = stretch_at(cuts, range->address + range->size);

	for (size_t i = untold(cuts, from); i < to; i = untold(cuts, i + 1)) {
		if (vs_grow(&f->stretches, &f->stretch_capacity, f->stretch_count + 1, sizeof(*f->stretches)) < 0)
			return -ENOMEM;
		f->stretches[f->stretch_count++] = (struct stretch){
		    .address = cuts->at[i], .size = cuts->at[i + 1] - cuts->at[i], .mapped = mapped, .about = *range};
		cuts->next[i] = i + 1;
	}
	return 0;
}

static int find_stretches(struct finder *f)
{
	const struct vs_replay_recording *recording = f->recording;
	struct cuts cuts = {0};
	int r = make_cuts(recording, &cuts);

	for (size_t i = 0; r == 0 && i < recording->event_count; i++) {
		const struct vs_replay_event *event = &recording->events[i];
		struct vs_replay_segment range = {
		    .address = event->address, .size = event->size, .stream = event->stream, .expandable = true};

		if (!is_mapping(event))
			continue;
		range.small = is_small(f, &cuts, event);
		if (event->pool[0] != VS_REPLAY_NO_POOL)
			memcpy(range.pool, event->pool, sizeof(range.pool));
		r = add_stretches(f, &cuts, &range, event->kind == VS_REPLAY_SEGMENT_UNMAP);
		stamp(&cuts, stretch_at(&cuts, range.address), stretch_at(&cuts, range.address + range.size), i + 1,
		      range.small ? KIND_SMALL : KIND_LARGE);
	}
	for (size_t i = 0; r == 0 && i < recording->segment_count; i++) {
		if (recording->segments[i].expandable)
			r = add_stretches(f, &cuts, &recording->segments[i], true);
	}
	cuts_done(&cuts);
	return r;
}

/* The address space of the expandable segment that begins with `first`. */
static uint64_t range_of(const struct finder *f, const struct stretch *first)
{
	uint64_t total = f->recording->total, range = total ? total + total / 8 : UNKNOWN_RANGE;
	uint64_t page = first->about.small ? SMALL_BUFFER : f->recording->settings.large_segment_size;

	return page ? (range + page - 1) / page * page : range;
}

/* Of one segment, as far as stream and pool tell; in a segment by address. */
static int by_segment(const void *left, const void *right)
{
	const struct stretch *a = left, *b = right;

	if (a->about.stream != b->about.stream)
		return a->about.stream < b->about.stream ? -1 : 1;
	if (a->about.small != b->about.small)
		return a->about.small ? 1 : -1;
	for (int i = 0; i < 2; i++) {
		if (a->about.pool[i] != b->about.pool[i])
			return a->about.pool[i] < b->about.pool[i] ? -1 : 1;
	}
	return a->address < b->address ? -1 : a->address > b->address;
}

static bool same_segment(const struct stretch *first, const struct stretch *other, uint64_t range)
{
	return first->about.stream == other->about.stream && first->about.small == other->about.small &&
	       first->about.pool[0] == other->about.pool[0] && first->about.pool[1] == other->about.pool[1] &&
	       other->address - first->address < range;
}

/* The first block at or above an address. */
static size_t block_from(const struct finder *f, uint64_t address)
{
	size_t low = 0, high = f->block_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->blocks[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* One expandable segment: its mapped runs, and what lies between and behind them. */
static int add_expandable(struct finder *f, const struct stretch *stretches, size_t count)
{
	uint64_t start = stretches[0].address, stop = start + range_of(f, &stretches[0]), here = start;
	size_t first = f->initial->count;
	int r;

	if (stop < start)
		return -EOVERFLOW;
	r = open_segment(f->initial, &stretches[0].about);
	if (r == 0) {
		f->initial->about[first].address = start;
		f->initial->about[first].size = stop - start;
	}
	for (size_t i = 0; r == 0 && i < count;) {
		struct vs_replay_segment run = stretches[i].about;
		size_t at;

		if (!stretches[i].mapped) {
			i++;
			continue;
		}
		run.address = stretches[i].address;
		for (run.size = 0; i < count && stretches[i].mapped && stretches[i].address == run.address + run.size;
		     i++)
			run.size += stretches[i].size;
		r = add_piece(f->initial, here, run.address - here, VS_PIECE_UNMAPPED);
		at = block_from(f, run.address);
		if (r == 0)
			r = add_range(f, &run, &at);
		here = run.address + run.size;
	}
	if (r < 0)
		return r;
	if (here == start) { /* nothing was mapped: it did not exist */
		f->initial->count = first;
		return 0;
	}
	return here < stop ? add_piece(f->initial, here, stop - here, VS_PIECE_UNMAPPED) : 0;
}

struct group {
	const struct stretch *stretches;
	size_t count;
};

static int by_group_address(const void *left, const void *right)
{
	const struct group *a = left, *b = right;

	return a->stretches->address < b->stretches->address ? -1 : a->stretches->address > b->stretches->address;
}

static int add_expandables(struct finder *f)
{
	struct group *groups = calloc(f->stretch_count + 1, sizeof(*groups));
	size_t count = 0;
	int r = groups ? 0 : -ENOMEM;

	if (r == 0 && f->stretch_count)
		qsort(f->stretches, f->stretch_count, sizeof(*f->stretches), by_segment);
	for (size_t i = 0; r == 0 && i < f->stretch_count; i++) {
		const struct stretch *stretch = &f->stretches[i];
		struct group *last = count ? &groups[count - 1] : NULL;

		if (last && same_segment(last->stretches, stretch, range_of(f, last->stretches)))
			last->count++;
		else
			groups[count++] = (struct group){stretch, 1};
	}
	if (r == 0 && count)
		qsort(groups, count, sizeof(*groups), by_group_address);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_expandable(f, groups[i].stretches, groups[i].count);
	free(groups);
	return r;
}

/* Indices become pointers; the oldest segment comes first, as the device's policy goes from the top down. */
static void settle(struct vs_initial *initial)
{
	for (size_t i = initial->count; i-- > 0;) {
		size_t end = i + 1 < initial->count ? initial->about[i + 1].block_count : initial->piece_count;

		initial->about[i].block_count = initial->segments[i].piece_count;
		if (initial->pieces)
			initial->segments[i].pieces = initial->pieces + initial->segments[i].piece_count;
		initial->segments[i].piece_count = end - initial->segments[i].piece_count;
	}
	for (size_t i = 0, j = initial->count; i + 1 < j--; i++) {
		struct vs_caching_segment segment = initial->segments[i];
		struct vs_replay_segment about = initial->about[i];

		initial->segments[i] = initial->segments[j];
		initial->segments[j] = segment;
		initial->about[i] = initial->about[j];
		initial->about[j] = about;
	}
}

int vs_initial_find(const struct vs_replay_recording *recording, struct vs_initial *ret_initial)
{
	struct vs_initial initial = {0};
	struct finder f = {.recording = recording, .initial = &initial};
	int r;

	r = index_events(&f);
	if (r == 0)
		r = find_blocks(&f);
	if (r == 0)
		r = find_segments(&f);
	if (r == 0)
		r = find_stretches(&f);
	if (r == 0) {
		if (f.block_count)
			qsort(f.blocks, f.block_count, sizeof(*f.blocks), by_block_address);
		if (f.segment_count)
			qsort(f.segments, f.segment_count, sizeof(*f.segments), by_segment_address);
		r = add_plain_segments(&f);
	}
	if (r == 0)
		r = add_expandables(&f);
	for (size_t i = 0; i < f.block_count; i++)
		initial.overlaps += !f.blocks[i].placed;
	vs_map_done(&f.first_block);
	vs_map_done(&f.first_segment);
	free(f.blocks);
	free(f.segments);
	free(f.stretches);
	free(f.allocs);
	if (r < 0) {
		vs_initial_done(&initial);
		return r;
	}
	settle(&initial);
	*ret_initial = initial;
	return 0;
}

void vs_initial_done(struct vs_initial *initial)
{
	if (!initial)
		return;
	free(initial->segments);
	free(initial->about);
	free(initial->pieces);
	*initial = (struct vs_initial){0};
}
