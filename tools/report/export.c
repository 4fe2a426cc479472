/* SPDX-License-Identifier: MIT */
#include "export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "caching/from_trace.h"
#include "caching/map.h"
#include "ledger/analyse.h"
#include "symbol/symbol.h"

#define MAX_DEVICES 64
#define SMALL_BUFFER                                                                                                 \
	(UINT64_C(2) << 20) /* bytes: segments of the small pools, and pages of their expandable ones                \
	                     */

struct exported {
	struct vs_snapshot snapshot; /* first: what vs_export_free() gets */
	struct vs_symbols *symbols;  /* own the texts of the frames */
	uint32_t *stack_frames;
};

struct exporter {
	struct vramshim_trace *trace;
	struct exported *out;
	struct vs_snapshot *snapshot;
	size_t event_capacity, segment_capacity, block_capacity, stack_capacity, frame_capacity;
	size_t stack_frame_count, stack_frame_capacity;
	struct vs_map tags;   /* sequence of the allocation -> tag */
	struct vs_map stacks; /* the trace's id -> ours */
	struct vs_map frames; /* address of a vs_frame -> ours */
};

/* --- stacks --- */

static int export_frame(struct exporter *x, const struct vs_frame *frame, uint32_t *ret_index)
{
	struct vs_snapshot *s = x->snapshot;
	uint64_t known;

	if (vs_map_get(&x->frames, (uint64_t)(uintptr_t)frame, &known)) {
		*ret_index = (uint32_t)known;
		return 0;
	}
	if (vs_grow(&s->frames, &x->frame_capacity, s->frame_count + 1, sizeof(*s->frames)) < 0)
		return -ENOMEM;
	s->frames[s->frame_count] = (struct vs_snapshot_frame){
	    .file = frame->kind == VS_FRAME_PYTHON ? frame->file : frame->module,
	    .function = frame->function,
	    .line = frame->line,
	};
	*ret_index = (uint32_t)s->frame_count++;
	return vs_map_set(&x->frames, (uint64_t)(uintptr_t)frame, *ret_index);
}

/* Frames of a stack are offsets until the array stands still. */
static int export_stack(struct exporter *x, uint32_t id, uint32_t *ret_stack)
{
	struct vs_snapshot *s = x->snapshot;
	const struct vs_frame *frames;
	size_t count, first = x->stack_frame_count;
	uint64_t known;
	int r;

	*ret_stack = 0;
	if (vs_map_get(&x->stacks, id, &known)) {
		*ret_stack = (uint32_t)known;
		return 0;
	}
	r = vs_symbol_stack(x->out->symbols, id, &frames, &count);
	if (r < 0 || !count)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t frame;

		if (vs_grow(&x->out->stack_frames, &x->stack_frame_capacity, x->stack_frame_count + 1,
		            sizeof(uint32_t)) < 0 ||
		    export_frame(x, &frames[i], &frame) < 0)
			return -ENOMEM;
		x->out->stack_frames[x->stack_frame_count++] = frame;
	}
	if (vs_grow(&s->stacks, &x->stack_capacity, s->stack_count + 1, sizeof(*s->stacks)) < 0)
		return -ENOMEM;
	s->stacks[s->stack_count].frames = (const uint32_t *)(uintptr_t)(first * sizeof(uint32_t));
	s->stacks[s->stack_count].count = (uint32_t)count;
	*ret_stack = (uint32_t)s->stack_count++;
	return vs_map_set(&x->stacks, id, *ret_stack);
}

/* --- events --- */

static const enum vs_snapshot_action actions[] = {
    [VS_REPLAY_ALLOC] = VS_SNAPSHOT_ALLOC,
    [VS_REPLAY_FREE] = VS_SNAPSHOT_FREE_REQUESTED,
    [VS_REPLAY_COMPLETE] = VS_SNAPSHOT_FREE_COMPLETED,
    [VS_REPLAY_OOM] = VS_SNAPSHOT_OOM,
    [VS_REPLAY_SEGMENT_ALLOC] = VS_SNAPSHOT_SEGMENT_ALLOC,
    [VS_REPLAY_SEGMENT_FREE] = VS_SNAPSHOT_SEGMENT_FREE,
    [VS_REPLAY_SEGMENT_MAP] = VS_SNAPSHOT_SEGMENT_MAP,
    [VS_REPLAY_SEGMENT_UNMAP] = VS_SNAPSHOT_SEGMENT_UNMAP,
    [VS_REPLAY_OUTSIDE_FREE] = VS_SNAPSHOT_OTHER,
};

static const char *category(struct exporter *x, enum vs_replay_kind kind, uint64_t sequence)
{
	uint64_t tag;

	if (kind != VS_REPLAY_ALLOC || !vs_map_get(&x->tags, sequence, &tag))
		return "";
	return vs_tag_name((enum vs_tag)tag);
}

static int add_event(struct exporter *x, const struct vs_snapshot_event *event)
{
	struct vs_snapshot *s = x->snapshot;

	if (vs_grow(&s->events, &x->event_capacity, s->event_count + 1, sizeof(*s->events)) < 0)
		return -ENOMEM;
	s->events[s->event_count++] = *event;
	return 0;
}

/* Microseconds of Unix time. */
static uint64_t unix_time(const struct vramshim_trace_info *info, uint64_t time_ns)
{
	return (info->started_ns + (time_ns - info->started_mono_ns)) / 1000;
}

/* The recording has the events in the trace's order; times and stacks are still in the trace. */
static int export_events(struct exporter *x, const struct vs_trace_recording *recording, int device)
{
	const struct vramshim_trace_info *info = vramshim_trace_info(x->trace);
	struct vramshim_event event = {0};
	uint64_t last = 0;
	int r = 0;

	vramshim_trace_rewind(x->trace);
	for (size_t i = 0; r == 0 && i < recording->recording.event_count; i++) {
		const struct vs_replay_event *e = &recording->events[i];
		struct vs_snapshot_event out = {.action = actions[e->kind],
		                                .device = device,
		                                .address = e->address,
		                                .size = e->size,
		                                .category = category(x, e->kind, recording->sequences[i])};

		while (event.sequence < recording->sequences[i] && vramshim_trace_next(x->trace, &event) > 0)
			;
		if (out.action == VS_SNAPSHOT_OTHER)
			continue;
		last = out.time_us = unix_time(info, event.time_ns);
		r = export_stack(x, event.stack, &out.stack);
		if (r == 0)
			r = add_event(x, &out);
	}
	/* An old PyTorch viewer trips over categories without an "unknown" among them. */
	if (r == 0)
		r = add_event(
		    x, &(struct vs_snapshot_event){
		           .action = VS_SNAPSHOT_SNAPSHOT, .device = device, .time_us = last, .category = "unknown"});
	return r;
}

/* --- what is there at the end --- */

struct range {
	uint64_t address, size;
	bool expandable, small;
	uint32_t stack; /* the recording's event that made it */
};

struct holdings {
	struct range *segments, *blocks; /* by address once sorted */
	size_t segment_count, segment_capacity, block_count, block_capacity;
};

static int by_address(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

/* Which of the events' ranges are still there: each is followed from what made it to what ended it. */
static int hold(const struct vs_trace_recording *recording, struct holdings *h)
{
	struct vs_map segments = {0}, blocks = {0}, pages = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < recording->recording.event_count; i++) {
		const struct vs_replay_event *e = &recording->events[i];
		uint64_t ignored;

		switch (e->kind) {
		case VS_REPLAY_SEGMENT_ALLOC:
			r = vs_map_set(&segments, e->address, i);
			break;
		case VS_REPLAY_SEGMENT_FREE:
			vs_map_take(&segments, e->address, &ignored);
			break;
		case VS_REPLAY_SEGMENT_MAP:
			for (uint64_t at = 0; r == 0 && at < e->size; at += SMALL_BUFFER)
				r = vs_map_set(&pages, e->address + at, e->size == SMALL_BUFFER);
			break;
		case VS_REPLAY_SEGMENT_UNMAP:
			for (uint64_t at = 0; at < e->size; at += SMALL_BUFFER)
				vs_map_take(&pages, e->address + at, &ignored);
			break;
		case VS_REPLAY_ALLOC:
			r = vs_map_set(&blocks, e->address, i);
			break;
		case VS_REPLAY_FREE:
			vs_map_take(&blocks, e->address, &ignored);
			break;
		default:
			break;
		}
	}
	for (size_t i = 0; r == 0 && i < segments.capacity + pages.capacity + blocks.capacity; i++) {
		const struct vs_map_slot *slot = i < segments.capacity ? &segments.slots[i]
		                                 : i < segments.capacity + pages.capacity
		                                     ? &pages.slots[i - segments.capacity]
		                                     : &blocks.slots[i - segments.capacity - pages.capacity];
		bool is_block = i >= segments.capacity + pages.capacity,
		     is_page = !is_block && i >= segments.capacity;
		struct range range;

		if (!slot->key)
			continue;
		range.address = slot->key - 1;
		range.size = is_page ? SMALL_BUFFER : recording->events[slot->value].size;
		range.expandable = is_page;
		range.small = is_page ? slot->value : range.size == SMALL_BUFFER;
		range.stack = 0;
		if (!is_page)
			range.stack = (uint32_t)slot->value;
		if (is_block) {
			r = vs_grow(&h->blocks, &h->block_capacity, h->block_count + 1, sizeof(*h->blocks));
			if (r == 0)
				h->blocks[h->block_count++] = range;
		} else {
			r = vs_grow(&h->segments, &h->segment_capacity, h->segment_count + 1, sizeof(*h->segments));
			if (r == 0)
				h->segments[h->segment_count++] = range;
		}
	}
	vs_map_done(&segments);
	vs_map_done(&blocks);
	vs_map_done(&pages);
	if (h->segment_count)
		qsort(h->segments, h->segment_count, sizeof(*h->segments), by_address);
	if (h->block_count)
		qsort(h->blocks, h->block_count, sizeof(*h->blocks), by_address);
	return r;
}

static int add_block(struct exporter *x, uint64_t address, uint64_t size, bool live, uint32_t stack)
{
	struct vs_snapshot *s = x->snapshot;

	if (!size)
		return 0;
	if (vs_grow(&s->blocks, &x->block_capacity, s->block_count + 1, sizeof(*s->blocks)) < 0)
		return -ENOMEM;
	s->blocks[s->block_count++] = (struct vs_snapshot_block){
	    .address = address,
	    .size = size,
	    .requested_size = live ? size : 0,
	    .state = live ? VS_SNAPSHOT_ALLOCATED : VS_SNAPSHOT_INACTIVE,
	    .stack = stack,
	};
	return 0;
}

static int add_segment(struct exporter *x, const struct holdings *h, const struct range *range, int device,
                       size_t *at, const uint32_t *stacks)
{
	struct vs_snapshot *s = x->snapshot;
	struct vs_snapshot_segment segment = {.address = range->address,
	                                      .total_size = range->size,
	                                      .device = device,
	                                      .large = !range->small,
	                                      .expandable = range->expandable,
	                                      .stack = range->expandable ? 0 : stacks[range->stack],
	                                      .first_block = s->block_count};
	uint64_t here = range->address, stop = range->address + range->size;
	int r = 0;

	while (*at < h->block_count && h->blocks[*at].address < here)
		(*at)++;
	for (; r == 0 && *at < h->block_count && h->blocks[*at].address < stop; (*at)++) {
		const struct range *block = &h->blocks[*at];

		if (block->address < here || block->size > stop - block->address)
			continue; /* events were lost */
		r = add_block(x, here, block->address - here, false, 0);
		if (r == 0)
			r = add_block(x, block->address, block->size, true, stacks[block->stack]);
		here = block->address + block->size;
	}
	if (r == 0)
		r = add_block(x, here, stop - here, false, 0);
	if (r < 0 || vs_grow(&s->segments, &x->segment_capacity, s->segment_count + 1, sizeof(*s->segments)) < 0)
		return -ENOMEM;
	segment.block_count = s->block_count - segment.first_block;
	s->segments[s->segment_count++] = segment;
	return 0;
}

/* Pages side by side of the same pool are one segment, as PyTorch tells it. */
static int export_segments(struct exporter *x, const struct holdings *h, int device, const uint32_t *stacks)
{
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->segment_count;) {
		struct range range = h->segments[i++];

		while (range.expandable && i < h->segment_count && h->segments[i].expandable &&
		       h->segments[i].small == range.small && h->segments[i].address == range.address + range.size)
			range.size += h->segments[i++].size;
		r = add_segment(x, h, &range, device, &at, stacks);
	}
	return r;
}

/* Our stack of each of the recording's events. */
static uint32_t *stacks_of(struct exporter *x, const struct vs_trace_recording *recording, size_t first)
{
	uint32_t *stacks = calloc(recording->recording.event_count + 1, sizeof(*stacks));

	for (size_t i = 0, at = first; stacks && i < recording->recording.event_count; i++) {
		if (actions[recording->events[i].kind] != VS_SNAPSHOT_OTHER)
			stacks[i] = x->snapshot->events[at++].stack;
	}
	return stacks;
}

static int export_device(struct exporter *x, int device)
{
	struct vs_trace_recording recording;
	struct holdings holdings = {0};
	size_t first = x->snapshot->event_count;
	uint32_t *stacks = NULL;
	int r;

	r = vs_trace_recording(x->trace, device, &recording);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	x->snapshot->device_count = device + 1;
	r = export_events(x, &recording, device);
	if (r == 0)
		r = hold(&recording, &holdings);
	if (r == 0) {
		stacks = stacks_of(x, &recording, first);
		r = stacks ? export_segments(x, &holdings, device, stacks) : -ENOMEM;
	}
	x->snapshot->settings.present = true;
	x->snapshot->settings.text = recording.settings;
	x->snapshot->settings.max_split_size = recording.recording.settings.max_split_size;
	x->snapshot->settings.garbage_collection_threshold =
	    recording.recording.settings.garbage_collection_threshold;
	x->snapshot->settings.expandable_segments = recording.recording.settings.expandable_segments;
	for (size_t i = 0; i < 16; i++)
		x->snapshot->settings.roundup_power2_divisions[i] =
		    recording.recording.settings.roundup_power2_divisions[i];
	free(stacks);
	free(holdings.segments);
	free(holdings.blocks);
	vs_trace_recording_done(&recording);
	return r;
}

static int on_block(void *user, const struct vs_block *block)
{
	struct exporter *x = user;

	return vs_map_set(&x->tags, block->allocated_at, (uint64_t)block->tag);
}

static int export_process(struct exporter *x)
{
	struct vs_analyse_options options = {.symbols = x->out->symbols, .every_block = on_block, .user = x};
	struct vs_summary *summary = NULL;
	int r;

	r = vs_analyse(x->trace, &options, &summary);
	vs_summary_free(summary);
	for (int device = 0; r == 0 && device < MAX_DEVICES; device++)
		r = export_device(x, device);
	if (r == 0 && !x->snapshot->device_count)
		r = -ENOENT;
	return r;
}

int vs_export(const struct vs_process *process, struct vs_snapshot **ret_snapshot)
{
	struct exported *out = calloc(1, sizeof(*out));
	struct exporter x = {.trace = process->trace, .out = out};
	int r;

	if (!out)
		return -ENOMEM;
	x.snapshot = &out->snapshot;
	r = vs_symbols_new(process->trace, &out->symbols);
	if (r == 0)
		r = vs_grow(&x.snapshot->stacks, &x.stack_capacity, 1, sizeof(*x.snapshot->stacks));
	if (r == 0) {
		x.snapshot->stacks[x.snapshot->stack_count++] = (struct vs_snapshot_stack){0};
		r = export_process(&x);
	}
	for (size_t i = 1; r == 0 && i < x.snapshot->stack_count; i++)
		x.snapshot->stacks[i].frames =
		    out->stack_frames + (uintptr_t)x.snapshot->stacks[i].frames / sizeof(uint32_t);
	vs_map_done(&x.tags);
	vs_map_done(&x.stacks);
	vs_map_done(&x.frames);
	if (r < 0) {
		vs_export_free(&out->snapshot);
		return r;
	}
	*ret_snapshot = &out->snapshot;
	return 0;
}

void vs_export_free(struct vs_snapshot *snapshot)
{
	struct exported *out = (struct exported *)snapshot;

	if (!snapshot)
		return;
	vs_snapshot_free_arrays(snapshot);
	free(out->stack_frames);
	vs_symbols_free(out->symbols);
	free(out);
}
