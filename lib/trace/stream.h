/* SPDX-License-Identifier: MIT
 *
 * One log's events, read from its chunks one after the other.
 */
#ifndef VS_TRACE_STREAM_H
#define VS_TRACE_STREAM_H

#include <trace/codec.h>
#include <trace/source.h>

struct vs_stream {
	struct vs_chunk chunk;
	struct vs_codec codec;
	uint32_t first;              /* chunk */
	struct vramshim_event event; /* the one at hand */
};

/* Start at the first chunk. Then, and by each vs_stream_next(): true with an event at hand, false at the end. What
 * makes no sense is skipped up to the next chunk and adds to *damaged; so does an end for want of memory. */
bool vs_stream_start(struct vs_stream *stream, const struct vs_source *source, uint64_t *damaged);
bool vs_stream_next(struct vs_stream *stream, const struct vs_source *source, uint64_t *damaged);

#endif
