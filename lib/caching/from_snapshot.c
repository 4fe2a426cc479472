/* SPDX-License-Identifier: MIT */
#include "caching/from_snapshot.h"

#include "caching/settings.h"

#include <errno.h>
#include <stdlib.h>

/* What is not about memory (snapshot, annotate, ...) is left out. */
static const enum vs_replay_kind kinds[] = {
    [VS_SNAPSHOT_ALLOC] = VS_REPLAY_ALLOC,
    [VS_SNAPSHOT_FREE_REQUESTED] = VS_REPLAY_FREE,
    [VS_SNAPSHOT_FREE_COMPLETED] = VS_REPLAY_COMPLETE,
    [VS_SNAPSHOT_SEGMENT_ALLOC] = VS_REPLAY_SEGMENT_ALLOC,
    [VS_SNAPSHOT_SEGMENT_FREE] = VS_REPLAY_SEGMENT_FREE,
    [VS_SNAPSHOT_SEGMENT_MAP] = VS_REPLAY_SEGMENT_MAP,
    [VS_SNAPSHOT_SEGMENT_UNMAP] = VS_REPLAY_SEGMENT_UNMAP,
    [VS_SNAPSHOT_OOM] = VS_REPLAY_OOM,
    [VS_SNAPSHOT_ANNOTATE] = 0,
};

static void copy_events(const struct vs_snapshot *snapshot, int32_t device, struct vs_snapshot_recording *out)
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->event_count; i++) {
		const struct vs_snapshot_event *event = &snapshot->events[i];

		if (event->device != device || !kinds[event->action])
			continue;
		out->sources[count] = i;
		out->events[count++] = (struct vs_replay_event){
		    .kind = kinds[event->action],
		    .address = event->address,
		    .size = event->size,
		    .stream = event->stream,
		    .pool = {event->pool.first, event->pool.second},
		};
	}
	out->recording.event_count = count;
}

static void copy_segments(const struct vs_snapshot *snapshot, int32_t device, struct vs_snapshot_recording *out)
{
	size_t count = 0, blocks = 0;

	for (size_t i = 0; i < snapshot->segment_count; i++) {
		const struct vs_snapshot_segment *segment = &snapshot->segments[i];

		if (segment->device != device)
			continue;
		out->segments[count++] = (struct vs_replay_segment){
		    .address = segment->address,
		    .size = segment->total_size,
		    .stream = segment->stream,
		    .pool = {segment->pool.first, segment->pool.second},
		    .small = !segment->large,
		    .expandable = segment->expandable,
		    .blocks = out->blocks + blocks,
		    .block_count = segment->block_count,
		};
		for (size_t j = 0; j < segment->block_count; j++) {
			const struct vs_snapshot_block *block = &snapshot->blocks[segment->first_block + j];

			out->blocks[blocks++] = (struct vs_replay_block){
			    .address = block->address,
			    .size = block->size,
			    .requested = block->requested_size,
			    .allocated = block->state == VS_SNAPSHOT_ALLOCATED,
			    .pending = block->state == VS_SNAPSHOT_PENDING_FREE,
			};
		}
	}
	out->recording.segment_count = count;
}

static void copy_settings(const struct vs_snapshot *snapshot, struct vs_caching_settings *settings)
{
	const struct vs_snapshot_settings *told = &snapshot->settings;
	const char *where;

	/* 2.15 has the pool in its events, 2.11 does not; finer than that a layout does not tell. */
	vs_caching_defaults(settings, snapshot->has_pools ? 215 : 211);
	if (!told->present)
		return;
	/* The text has what the fields lack; where both tell, the fields are what was in force. */
	vs_caching_parse_settings(told->text, settings, &where);
	settings->max_split_size = told->max_split_size;
	settings->garbage_collection_threshold = told->garbage_collection_threshold;
	settings->expandable_segments = told->expandable_segments;
	for (size_t i = 0; i < VS_CACHING_CLASSES; i++)
		settings->roundup_power2_divisions[i] = told->roundup_power2_divisions[i];
}

int vs_snapshot_recording(const struct vs_snapshot *snapshot, int32_t device, uint64_t total,
                          struct vs_snapshot_recording *ret_recording)
{
	struct vs_snapshot_recording out = {0};

	out.events = calloc(snapshot->event_count + 1, sizeof(*out.events));
	out.sources = calloc(snapshot->event_count + 1, sizeof(*out.sources));
	out.segments = calloc(snapshot->segment_count + 1, sizeof(*out.segments));
	out.blocks = calloc(snapshot->block_count + 1, sizeof(*out.blocks));
	if (!out.events || !out.sources || !out.segments || !out.blocks) {
		vs_snapshot_recording_done(&out);
		return -ENOMEM;
	}
	copy_events(snapshot, device, &out);
	copy_segments(snapshot, device, &out);
	copy_settings(snapshot, &out.recording.settings);
	out.recording.events = out.events;
	out.recording.segments = out.segments;
	out.recording.total = total;
	*ret_recording = out;
	return 0;
}

void vs_snapshot_recording_done(struct vs_snapshot_recording *recording)
{
	if (!recording)
		return;
	free(recording->events);
	free(recording->sources);
	free(recording->segments);
	free(recording->blocks);
	*recording = (struct vs_snapshot_recording){0};
}
