/* SPDX-License-Identifier: MIT
 *
 * A trace's events of one device as a recording to replay.
 *
 * A trace tells less than a snapshot: sizes are those of blocks, so a large block may have been up to 1 MiB less in
 * the request; streams, pools and record_stream are not in it, all requests count as one stream's.
 */
#ifndef VS_CACHING_FROM_TRACE_H
#define VS_CACHING_FROM_TRACE_H

#include "caching/replay.h"
#include <vramshim/trace.h>

struct vs_trace_recording {
	struct vs_replay_recording recording;
	struct vs_replay_event *events; /* what the recording points into */
	uint64_t *sequences;            /* of each event, its position in the trace */
	uint64_t context;               /* bytes the CUDA context takes; 0 unknown */
	const char *settings;           /* PYTORCH_CUDA_ALLOC_CONF as the process had it; "" */
	const char *unknown;            /* the part of it that could not be read; NULL: all could */
	char device_name[96];
	bool lost; /* events were dropped: the replay cannot be exact */
};

/* Rewinds the trace, which must outlive the recording. -ENOENT: no PyTorch events of this device. */
int vs_trace_recording(struct vramshim_trace *trace, int device, struct vs_trace_recording *ret_recording);
void vs_trace_recording_done(struct vs_trace_recording *recording);

#endif
