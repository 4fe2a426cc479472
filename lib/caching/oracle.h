/* SPDX-License-Identifier: MIT
 *
 * A device that answers as the recorded one did: it reads the segment events
 * that the recording has between two requests.
 */
#ifndef VS_CACHING_ORACLE_H
#define VS_CACHING_ORACLE_H

#include "caching/map.h"
#include "caching/replay.h"

struct vs_oracle_range {
	uint64_t address, size;
};

struct vs_oracle {
	const struct vs_replay_event *events;
	size_t count;
	size_t begin, end;                     /* the events open to be answered from */
	struct vs_map window;                  /* releases among them: kind and address -> event */
	size_t window_stop, window_end;        /* ... which is good for events before, as long as `end` is this */
	unsigned char *answered;               /* one an event: the model did this too */
	const struct vs_replay_event *request; /* the one under way */
	bool small;                            /* ... goes to a small pool */
	bool refused;                          /* ... and was refused in the end */
	struct vs_oracle_range *ranges;        /* reserved for expandable segments */
	size_t range_count, range_capacity;
	uint64_t invented; /* next address where the recording has none */
	uint64_t extra;    /* what the model did and the recording has not */
};

struct vs_caching_device vs_oracle_device(struct vs_oracle *oracle, uint64_t total);
/* A range that was reserved before the first event. */
int vs_oracle_reserved(struct vs_oracle *oracle, uint64_t address, uint64_t size);
/* The bytes that the allocator may hold by the fraction set; UINT64_MAX: no limit. */
uint64_t vs_oracle_limit(const struct vs_replay_recording *recording);
/* The bytes that the device has proved to hold for the allocator at once, `start` of them before the first event; no
 * more than it was allowed. */
uint64_t vs_oracle_most(const struct vs_replay_recording *recording, uint64_t start);
void vs_oracle_done(struct vs_oracle *oracle);

#endif
