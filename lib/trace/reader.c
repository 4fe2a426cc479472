/* SPDX-License-Identifier: MIT */
#include <base/error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <trace/process.h>
#include <trace/reader_state.h>
#include <unistd.h>

/* Events up to here are read, even if the job goes on: every pass over the trace sees the same ones. */
static uint64_t last_sequence(const struct vs_trace_header *header)
{
	uint64_t last = header->sequence;

	if (header->first_lost && header->first_lost - 1 < last)
		last = header->first_lost - 1;
	if (header->exit_sequence && header->exit_sequence - 1 < last)
		last = header->exit_sequence - 1;
	return last;
}

static int check_header(const struct vs_source *source, struct vs_trace_header *ret_header)
{
	static const char none[sizeof(ret_header->magic)];
	size_t size = vs_source_read(source, 0, ret_header, sizeof(*ret_header));

	/* The magic is stored last: a process that ended between making its file and that leaves zeros. */
	if (!size || (size >= sizeof(none) && memcmp(ret_header->magic, none, sizeof(none)) == 0))
		return -ENODATA;
	if (size < sizeof(ret_header->magic) + sizeof(ret_header->version) ||
	    memcmp(ret_header->magic, VS_TRACE_MAGIC, sizeof(ret_header->magic)) != 0)
		return -EBADMSG;
	if (ret_header->version < VS_TRACE_VERSION_OLDEST || ret_header->version > VS_TRACE_VERSION)
		return -EPROTO;
	if (size < sizeof(*ret_header) || ret_header->header_size != VS_HEADER_SIZE ||
	    ret_header->chunk_size != VS_CHUNK_SIZE || ret_header->time_shift != VS_TIME_SHIFT)
		return -EBADMSG;
	return 0;
}

static int read_header(struct vramshim_trace *trace)
{
	struct vs_trace_header *header = &trace->header;
	struct vramshim_trace_info *info = &trace->info;
	uint64_t there;
	int r = check_header(&trace->source, header);

	if (r < 0)
		return r;
	trace->last_sequence = last_sequence(header);
	/* Once more, for the count of chunks: it must be no older than the sequence taken from the first reading, or
	 * a running job's newest chunk could be missed. */
	r = check_header(&trace->source, header);
	if (r < 0)
		return r;
	there = trace->source.size / VS_CHUNK_SIZE + (trace->source.size % VS_CHUNK_SIZE != 0);
	trace->source.chunks = header->chunks < there ? header->chunks : (uint32_t)there;
	info->version = header->version;
	info->pid = header->pid;
	info->started_ns = header->started_ns;
	info->started_mono_ns = header->started_mono_ns;
	info->lost = header->lost;
	info->clean_exit = (header->flags & VS_HEADER_FINISHED) && header->exit_sequence;
	info->running = !trace->source.memory && !info->clean_exit && header->start_ticks &&
	                vs_process_start(header->pid) == header->start_ticks;
	trace->source.live = info->running;
	return 0;
}

static int find_streams(struct vramshim_trace *trace)
{
	for (uint32_t i = 1; i < trace->source.chunks; i++) {
		struct vs_chunk_header header;
		struct vs_stream *stream;

		if (!vs_chunk_peek(&trace->source, i, &header) || header.kind != VS_CHUNK_EVENTS ||
		    header.first != i || header.ordinal != 0)
			continue;
		if (vs_grow(&trace->streams, &trace->stream_room, trace->stream_count + 1, sizeof(*trace->streams)) <
		    0)
			return -ENOMEM;
		stream = calloc(1, sizeof(*stream));
		if (!stream)
			return -ENOMEM;
		stream->first = i;
		trace->streams[trace->stream_count++] = stream;
	}
	if (trace->stream_count) {
		trace->heap = calloc(trace->stream_count, sizeof(*trace->heap));
		if (!trace->heap)
			return -ENOMEM;
	}
	return 0;
}

static int open_source(struct vs_source source, struct vramshim_trace **ret_trace)
{
	struct vramshim_trace *trace = calloc(1, sizeof(*trace));
	int r = -ENOMEM;

	if (!trace)
		goto fail;
	trace->source = source;
	r = read_header(trace);
	if (r < 0)
		goto fail;
	r = vs_tables_read(&trace->tables, &trace->source);
	if (r < 0)
		goto fail;
	r = find_streams(trace);
	if (r < 0)
		goto fail;
	vramshim_trace_rewind(trace);
	*ret_trace = trace;
	return 0;

fail:
	if (trace)
		vramshim_trace_close(trace);
	else if (!source.memory)
		close(source.fd);
	return r;
}

int vramshim_trace_open(const char *path, struct vramshim_trace **ret_trace)
{
	/* O_NONBLOCK: a FIFO in the place of a trace must not make the reader wait. */
	struct vs_source source = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	struct stat status;

	if (source.fd < 0)
		return vs_errno();
	if (fstat(source.fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		close(source.fd);
		return -EBADMSG;
	}
	source.size = (uint64_t)status.st_size;
	return open_source(source, ret_trace);
}

int vramshim_trace_open_memory(const void *data, size_t size, struct vramshim_trace **ret_trace)
{
	if (!size)
		return -ENODATA;
	return open_source((struct vs_source){.memory = data, .fd = -1, .size = size}, ret_trace);
}

void vramshim_trace_close(struct vramshim_trace *trace)
{
	if (!trace)
		return;
	for (size_t i = 0; i < trace->stream_count; i++) {
		vs_chunk_free(&trace->streams[i]->chunk);
		free(trace->streams[i]);
	}
	free(trace->streams);
	free(trace->heap);
	vs_tables_free(&trace->tables);
	if (!trace->source.memory)
		close(trace->source.fd);
	free(trace);
}

/* Let the stream at `at` sink to its place: a binary heap, the lowest sequence on top. */
static void sink(struct vramshim_trace *trace, size_t at)
{
	struct vs_stream *stream = trace->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= trace->heap_count)
			break;
		if (child + 1 < trace->heap_count &&
		    trace->heap[child + 1]->event.sequence < trace->heap[child]->event.sequence)
			child++;
		if (trace->heap[child]->event.sequence >= stream->event.sequence)
			break;
		trace->heap[at] = trace->heap[child];
		at = child;
	}
	trace->heap[at] = stream;
}

void vramshim_trace_rewind(struct vramshim_trace *trace)
{
	trace->given = 0;
	trace->time_ns = 0;
	trace->ended = false;
	trace->heap_count = 0;
	trace->info.damaged = trace->tables.damaged;
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct vs_stream *stream = trace->streams[i];

		if (vs_stream_start(stream, &trace->source, &trace->info.damaged))
			trace->heap[trace->heap_count++] = stream;
	}
	for (size_t i = trace->heap_count / 2; i-- > 0;)
		sink(trace, i);
}

/* Take the top stream's event and put the stream in its new place. */
static struct vramshim_event advance(struct vramshim_trace *trace)
{
	struct vs_stream *stream = trace->heap[0];
	struct vramshim_event event = stream->event;

	if (!vs_stream_next(stream, &trace->source, &trace->info.damaged))
		trace->heap[0] = trace->heap[--trace->heap_count];
	if (trace->heap_count)
		sink(trace, 0);
	return event;
}

int vramshim_trace_next(struct vramshim_trace *trace, struct vramshim_event *ret_event)
{
	while (trace->heap_count) {
		struct vramshim_event event;

		if (trace->heap[0]->event.sequence > trace->last_sequence) {
			trace->heap_count = 0;
			break;
		}
		event = advance(trace);
		if (event.sequence <= trace->given) /* two streams claim the same place: one of them is damaged */
			continue;
		trace->given = event.sequence;
		/* Sequence is the order; two threads may read the clock the other way round. */
		if (event.time_ns < trace->time_ns)
			event.time_ns = trace->time_ns;
		trace->time_ns = event.time_ns;
		*ret_event = event;
		return 1;
	}
	if (!trace->info.clean_exit || trace->ended)
		return 0;
	trace->ended = true;
	*ret_event = (struct vramshim_event){.type = VRAMSHIM_EXIT,
	                                     .thread = trace->header.exit_thread,
	                                     .sequence = trace->header.exit_sequence,
	                                     .time_ns = trace->header.exit_time_ns};
	if (ret_event->time_ns < trace->time_ns)
		ret_event->time_ns = trace->time_ns;
	return 1;
}
