/* SPDX-License-Identifier: MIT
 *
 * What the parts of the writer share.
 */
#ifndef VS_TRACE_WRITER_STATE_H
#define VS_TRACE_WRITER_STATE_H

#include <base/arena.h>
#include <base/clock.h>
#include <trace/codec.h>
#include <trace/file.h>
#include <trace/writer.h>

/* The stream of definitions. */
struct vs_definitions {
	struct vs_chunk_header *chunk;
	uint8_t *at, *end;
	uint32_t strings, codes, frames, stacks; /* latest ids */
	uint8_t *scratch;                        /* VS_DEFINITION_MAX bytes, to put a payload together */
	/* The latest stack: the next one is told by its difference. */
	uint64_t native[VS_STACK_MAX];
	uint32_t python[VS_STACK_MAX];
	uint32_t native_count, python_count;
};

struct vs_writer {
	struct vs_file file;
	/* 1 in the process that opened the trace, 0 in every child it forks (MADV_WIPEONFORK): a child must never
	 * touch the file, which it shares, nor wait for a lock that a thread it does not have was holding. */
	const uint32_t *alive;

	pthread_mutex_t lock; /* for what follows; held over memory copies and vs_file_claim() only */
	struct vs_arena arena;
	struct vs_log *idle; /* retired logs */
	struct vs_definitions definitions;
};

struct vs_log {
	struct vs_writer *writer;
	struct vs_log *next_idle;
	struct vs_chunk_header *chunk; /* NULL before the first event */
	uint8_t *at, *end;
	uint32_t thread;
	struct vs_clock clock;
	struct vs_codec codec;
};

/* May this process still write? */
static inline bool vs_writer_open_here(const struct vs_writer *writer)
{
	return *(const volatile uint32_t *)writer->alive &&
	       !(__atomic_load_n(&writer->file.header->flags, __ATOMIC_RELAXED) & VS_HEADER_FINISHED);
}

/* The tag makes the record: whoever sees it sees all of the payload. */
static inline void vs_commit(uint8_t *at, uint8_t tag)
{
	__atomic_store_n(at, tag, __ATOMIC_RELEASE);
}

#endif
