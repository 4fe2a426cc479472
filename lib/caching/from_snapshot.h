/* SPDX-License-Identifier: MIT
 *
 * A PyTorch snapshot's history of one device as a recording to replay.
 */
#ifndef VS_CACHING_FROM_SNAPSHOT_H
#define VS_CACHING_FROM_SNAPSHOT_H

#include "caching/replay.h"
#include "snapshot/snapshot.h"

struct vs_snapshot_recording {
	struct vs_replay_recording recording;
	struct vs_replay_event *events; /* what the recording points into */
	struct vs_replay_segment *segments;
	struct vs_replay_block *blocks;
	size_t *sources; /* of each event, its index in the snapshot */
};

/* `total`: the card's bytes, 0 if unknown. -ENOMEM. The settings are the snapshot's, or the defaults where it tells
 * none; the caller may change them before the replay. */
int vs_snapshot_recording(const struct vs_snapshot *snapshot, int32_t device, uint64_t total,
                          struct vs_snapshot_recording *ret_recording);
void vs_snapshot_recording_done(struct vs_snapshot_recording *recording);

#endif
