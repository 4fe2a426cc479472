/* SPDX-License-Identifier: MIT
 *
 * What the allocator held before the first recorded event.
 */
#ifndef VS_CACHING_INITIAL_H
#define VS_CACHING_INITIAL_H

#include "caching/map.h"
#include "caching/replay.h"

struct vs_initial {
	struct vs_caching_segment *segments; /* the oldest first, as far as addresses tell */
	size_t count, capacity;
	struct vs_replay_segment *about; /* of each: pools as recorded */
	struct vs_caching_piece *pieces; /* what the segments point into */
	size_t piece_count, piece_capacity;
	uint64_t overlaps;
	uint64_t blocks, bytes, guessed; /* live; of how many of them the size is a guess */
};

/* Undo the events from the final state. The segments' pool is 0: the caller sets it from `about`. */
int vs_initial_find(const struct vs_replay_recording *recording, struct vs_initial *ret_initial);
void vs_initial_done(struct vs_initial *initial);

#endif
