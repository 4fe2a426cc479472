/* SPDX-License-Identifier: MIT */
#ifndef VS_TRACE_READER_STATE_H
#define VS_TRACE_READER_STATE_H

#include <trace/stream.h>
#include <trace/tables.h>
#include <vramshim/trace.h>

struct vramshim_trace {
	struct vs_source source;
	struct vs_trace_header header;
	struct vramshim_trace_info info;
	struct vs_tables tables;
	uint64_t last_sequence;

	struct vs_stream **streams;
	size_t stream_count, stream_room;
	struct vs_stream **heap; /* the streams that have an event at hand, the earliest on top */
	size_t heap_count;
	uint64_t given;   /* sequence of the latest event handed out */
	uint64_t time_ns; /* ... and its time */
	bool ended;       /* EXIT was handed out */
};

#endif
