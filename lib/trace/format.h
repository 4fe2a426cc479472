/* SPDX-License-Identifier: MIT
 *
 * The bytes of a trace file; FORMAT.md explains them. Little-endian, like
 * every machine CUDA runs on.
 */
#ifndef VS_TRACE_FORMAT_H
#define VS_TRACE_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <vramshim/events.h>

/* The first byte is not ASCII and a CR LF pair follows, so that a text-mode transfer is noticed (as PNG does). */
#define VS_TRACE_MAGIC "\x93VST\r\n\x1a\n"

enum {
	VS_TRACE_VERSION = 2,
	VS_TRACE_VERSION_OLDEST = 1, /* readable: had no totals in MEMINFO */
	VS_HEADER_SIZE = 4096,
	VS_CHUNK_SIZE = 64 << 10, /* a multiple of every page size in use, so that each chunk can be mapped alone */
	VS_DEVICES = 64,
	VS_TIME_SHIFT = 10,          /* times are stored in units of 2^10 ns: one byte spans 131 us */
	VS_CHUNK_MAGIC = 0x4b4e4843, /* "CHNK" */
};

enum vs_chunk_kind {
	VS_CHUNK_EVENTS = 1,
	VS_CHUNK_DEFINITIONS = 2,
};

enum vs_header_flag {
	VS_HEADER_FINISHED = 1, /* vs_writer_finish() was called; exit_* hold */
};

/* All fields after `max_size` change while the job runs; each is written by one atomic store or addition. */
struct vs_trace_header {
	char magic[8]; /* stored last when the file is created */
	uint32_t version;
	uint32_t header_size;
	uint32_t chunk_size;
	uint32_t time_shift;
	uint32_t pid;
	uint32_t reserved0;
	uint64_t start_ticks;     /* field 22 of /proc/PID/stat: tells a process from a later one of the same id */
	uint64_t started_ns;      /* CLOCK_REALTIME */
	uint64_t started_mono_ns; /* CLOCK_MONOTONIC, the same instant */
	uint64_t max_size;
	uint8_t reserved1[64];

	/* A cache line of its own: every event adds to it. */
	uint64_t sequence; /* of the latest event */
	uint8_t reserved2[56];

	uint64_t lost;       /* events not recorded */
	uint64_t first_lost; /* sequence of the first of them, 0 if none: the record ends there */
	uint32_t chunks;     /* chunks in use; the file may be longer */
	uint32_t flags;      /* enum vs_header_flag */
	uint64_t exit_sequence;
	uint64_t exit_time_ns;
	uint32_t exit_thread;
	uint8_t reserved3[276];

	struct vramshim_device_totals devices[VS_DEVICES];
};
static_assert(sizeof(struct vs_trace_header) == VS_HEADER_SIZE, "the header is one page");
static_assert(offsetof(struct vs_trace_header, sequence) % 64 == 0, "its cache line is its own");

/* At the start of each chunk; of chunk 0 behind the file's header. */
struct vs_chunk_header {
	uint32_t magic;         /* stored last */
	uint32_t kind;          /* enum vs_chunk_kind */
	uint32_t first;         /* index of the first chunk of this stream: the stream's name */
	uint32_t ordinal;       /* position in its stream, from 0 */
	uint32_t next;          /* index of the stream's next chunk; 0 none yet */
	uint32_t thread;        /* of the events up to the first thread record */
	uint64_t base_sequence; /* below every event of the chunk */
	uint64_t base_time;     /* in time units, likewise */
	uint8_t reserved[24];
};
static_assert(sizeof(struct vs_chunk_header) == 64, "");

/* Where the records of a chunk begin. */
static inline uint32_t vs_chunk_records(uint32_t index)
{
	return (index == 0 ? VS_HEADER_SIZE : 0) + (uint32_t)sizeof(struct vs_chunk_header);
}

/* Records: a tag byte, then what the tag says. 0 is "nothing here yet". */
enum {
	VS_TAG_END = 0,
	/* 1..0x7e in an events chunk: enum vramshim_event_type in the general form */
	VS_TAG_THREAD = 0x7f,  /* the following events are of another thread */
	VS_TAG_COMPACT = 0x80, /* flag: TORCH_ALLOC or TORCH_FREE in the compact form, with the flags below */
	VS_COMPACT_FREE = 0x40,
	VS_COMPACT_NEXT = 0x20,   /* sequence is the stream's last + 1 */
	VS_COMPACT_DEVICE = 0x10, /* the same device */
	VS_COMPACT_STACK = 0x08,  /* the stack that followed these two last time */
	VS_COMPACT_BLOCK = 0x04,  /* address by its slot in the table of blocks */
	VS_COMPACT_SIZE = 0x02,   /* the size of that block's, or this stack's, last event */
	VS_COMPACT_TOTALS = 0x01, /* allocated changed by the size, reserved did not change */
};

/* Tags in a definitions chunk; each is followed by the varint length of its payload. */
enum vs_definition {
	VS_DEFINE_PART = 1, /* the beginning of the next record's payload */
	VS_DEFINE_STRING = 2,
	VS_DEFINE_CODE = 3,
	VS_DEFINE_FRAME = 4,
	VS_DEFINE_STACK = 5,
	VS_DEFINE_MODULE = 6,
	VS_DEFINE_FACT = 7,
};

enum {
	VS_STACK_MAX = 256, /* entries of either kind kept of one stack */
	VS_DEFINITION_MAX =
	    1 << 20, /* bytes of one definition's payload; longer texts are cut, line tables left out */
};

#endif
