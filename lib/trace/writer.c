/* SPDX-License-Identifier: MIT */
#include <base/clock.h>
#include <base/error.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <trace/writer_state.h>
#include <unistd.h>

#define DEFAULT_MAX_SIZE (UINT64_C(1) << 30)

static uint32_t *alive_page(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	*page = 1;
	/* A kernel before 4.14 refuses: there, only the caller's own care keeps a forked child off the file. */
	madvise(page, size, MADV_WIPEONFORK);
	return page;
}

int vs_writer_open(const char *path, uint64_t max_size, struct vs_writer **ret_writer)
{
	struct vs_arena arena = {0};
	struct vs_writer *writer = vs_arena_take(&arena, sizeof(*writer));
	uint8_t *scratch = vs_arena_take(&arena, VS_DEFINITION_MAX);
	uint32_t *alive = alive_page();
	uint8_t *chunk;
	int r;

	if (!writer || !scratch || !alive)
		return -ENOMEM;
	r = vs_file_create(&writer->file, path, max_size ? max_size : DEFAULT_MAX_SIZE);
	if (r < 0)
		return r;
	vs_clock_prepare();
	writer->alive = alive;
	pthread_mutex_init(&writer->lock, NULL);
	writer->arena = arena;
	chunk = (uint8_t *)writer->file.header;
	writer->definitions.scratch = scratch;
	writer->definitions.chunk = (struct vs_chunk_header *)(chunk + VS_HEADER_SIZE);
	writer->definitions.at = chunk + vs_chunk_records(0);
	writer->definitions.end = chunk + VS_CHUNK_SIZE;
	vs_file_publish(&writer->file);
	*ret_writer = writer;
	return 0;
}

void vs_writer_finish(struct vs_writer *writer)
{
	struct vs_trace_header *header;

	if (!writer || !vs_writer_open_here(writer))
		return;
	header = writer->file.header;
	header->exit_thread = (uint32_t)syscall(SYS_gettid);
	header->exit_time_ns = vs_clock_exact();
	/* First stop the others, then take a sequence: what they append meanwhile sorts after it, and the reader
	 * stops here. */
	__atomic_fetch_or(&header->flags, VS_HEADER_FINISHED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&header->exit_sequence, __atomic_add_fetch(&header->sequence, 1, __ATOMIC_SEQ_CST),
	                 __ATOMIC_RELEASE);
	vs_file_close(&writer->file);
}

struct vs_log *vs_log_new(struct vs_writer *writer, uint32_t thread)
{
	struct vs_log *log;

	if (!vs_writer_open_here(writer))
		return NULL;
	pthread_mutex_lock(&writer->lock);
	log = writer->idle;
	if (log)
		writer->idle = log->next_idle;
	else
		log = vs_arena_take(&writer->arena, sizeof(*log));
	pthread_mutex_unlock(&writer->lock);
	if (!log)
		return NULL;
	log->writer = writer;
	log->thread = thread;
	/* What its last thread may read, this one may not have been allowed to. */
	vs_clock_stop(&log->clock);
	return log;
}

void vs_log_stop_clock(struct vs_log *log)
{
	vs_clock_stop(&log->clock);
}

void vs_log_retire(struct vs_log *log)
{
	struct vs_writer *writer;

	if (!log || !vs_writer_open_here(log->writer))
		return;
	writer = log->writer;
	pthread_mutex_lock(&writer->lock);
	log->next_idle = writer->idle;
	writer->idle = log;
	pthread_mutex_unlock(&writer->lock);
}

static void raise_to(uint64_t *maximum, uint64_t value)
{
	uint64_t old = __atomic_load_n(maximum, __ATOMIC_RELAXED);

	while (value > old &&
	       !__atomic_compare_exchange_n(maximum, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Keep the header's totals. Relaxed: each is right by itself, and PyTorch reports under its allocator's mutex, so the
 * latest report of a device is also the last to arrive here. */
static void count(struct vs_trace_header *header, const struct vramshim_event *event)
{
	struct vramshim_device_totals *totals;
	uint64_t *counter;

	if (event->device < 0 || event->device >= VS_DEVICES || event->type > VRAMSHIM_TORCH_OOM)
		return;
	totals = &header->devices[event->device];
	if (event->type == VRAMSHIM_TORCH_OOM) {
		counter = &totals->ooms;
	} else {
		counter = event->type == VRAMSHIM_TORCH_ALLOC ? &totals->allocations : &totals->frees;
		__atomic_store_n(&totals->allocated, event->allocated, __ATOMIC_RELAXED);
		__atomic_store_n(&totals->reserved, event->reserved, __ATOMIC_RELAXED);
		raise_to(&totals->allocated_peak, event->allocated);
		raise_to(&totals->reserved_peak, event->reserved);
	}
	/* No locked addition, for the same reason: of one device, no two are reported at once. */
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/* An event that finds no room. From the first one on nothing is recorded any more, by no thread: what is recorded is
 * then a true beginning of what happened, without holes. */
static __attribute__((cold)) void lose(struct vs_trace_header *header)
{
	uint64_t sequence = __atomic_add_fetch(&header->sequence, 1, __ATOMIC_RELAXED);
	uint64_t first = __atomic_load_n(&header->first_lost, __ATOMIC_RELAXED);

	__atomic_fetch_add(&header->lost, 1, __ATOMIC_RELAXED);
	while ((!first || sequence < first) && !__atomic_compare_exchange_n(&header->first_lost, &first, sequence,
	                                                                    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static __attribute__((cold)) bool next_chunk(struct vs_log *log)
{
	struct vs_trace_header *header = log->writer->file.header;
	struct vs_chunk_header chunk = {.kind = VS_CHUNK_EVENTS, .thread = log->thread};
	uint32_t index;
	uint8_t *mapped = vs_file_claim(&log->writer->file, &index);

	if (!mapped)
		return false;
	chunk.base_sequence = __atomic_load_n(&header->sequence, __ATOMIC_RELAXED);
	chunk.base_time = vs_clock_now(&log->clock) >> VS_TIME_SHIFT;
	vs_chunk_begin((struct vs_chunk_header *)mapped, &chunk, index, log->chunk);
	vs_codec_reset(&log->codec, &chunk);
	log->chunk = (struct vs_chunk_header *)mapped;
	log->at = mapped + vs_chunk_records(index);
	log->end = mapped + VS_CHUNK_SIZE;
	return true;
}

static __attribute__((cold)) void write_thread(struct vs_log *log)
{
	uint8_t *end = vs_varint_put(log->at + 1, log->thread);

	vs_commit(log->at, VS_TAG_THREAD);
	log->at = end;
	log->codec.thread = log->thread;
}

void vs_log_append(struct vs_log *log, struct vramshim_event *event)
{
	struct vs_writer *writer = log->writer;
	struct vs_trace_header *header = writer->file.header;
	uint8_t *end, tag;

	if (!vs_writer_open_here(writer) || event->type < VRAMSHIM_TORCH_ALLOC || event->type > VRAMSHIM_EXIT ||
	    (unsigned)event->memory > VRAMSHIM_MEMORY_GRAPHS)
		return;
	count(header, event);
	if (__atomic_load_n(&header->first_lost, __ATOMIC_RELAXED) ||
	    (log->end - log->at < 2 * VS_RECORD_MAX && !next_chunk(log))) {
		lose(header);
		return;
	}
	if (log->thread != log->codec.thread)
		write_thread(log);
	event->sequence = __atomic_add_fetch(&header->sequence, 1, __ATOMIC_RELAXED);
	event->time_ns = vs_clock_now(&log->clock);
	end = vs_codec_encode(&log->codec, event, log->at, &tag);
	vs_commit(log->at, tag);
	log->at = end;
}
