/* SPDX-License-Identifier: MIT
 *
 * Where a reader's bytes come from: a file or memory, taken chunk by chunk.
 *
 * A file is read, not mapped: a file that somebody truncates meanwhile then
 * ends early instead of raising SIGBUS, and the pages of a long trace do not
 * pile up in the reader's memory.
 */
#ifndef VS_TRACE_SOURCE_H
#define VS_TRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <trace/format.h>

struct vs_source {
	const uint8_t *memory; /* NULL for a file */
	int fd;
	uint64_t size;
	uint32_t chunks;
	/* The writer is still at it. Then a chunk is read twice: a tag seen by the first reading was stored after its
	 * payload, so the second reading is sure to have all of the payload. */
	bool live;
};

/* Copy up to `size` bytes; returns how many there were. */
size_t vs_source_read(const struct vs_source *source, uint64_t offset, void *buffer, size_t size);

/* One chunk at a time. Zero-initialise. */
struct vs_chunk {
	struct vs_chunk_header header;
	uint32_t index;
	const uint8_t *bytes; /* from the chunk's first byte on */
	const uint8_t *tags;  /* `bytes`, or the first reading of them */
	uint32_t at;          /* offset of the next record */
	uint32_t size;        /* bytes there are: less than VS_CHUNK_SIZE where the file is cut */
	uint8_t *buffer;      /* own memory; NULL where the source is memory */
};

/* Only the header of chunk `index`: false if it is not there or not a chunk. */
bool vs_chunk_peek(const struct vs_source *source, uint32_t index, struct vs_chunk_header *ret_header);
/* 0, -ENODATA if it is not there or not a chunk, -ENOMEM. */
int vs_chunk_load(const struct vs_source *source, uint32_t index, struct vs_chunk *chunk);
/* Go on to the next chunk of the same stream: 1, 0 at the end, -EBADMSG where the link makes no sense, -ENOMEM. Links
 * only lead forward, so this ends. */
int vs_chunk_follow(const struct vs_source *source, struct vs_chunk *chunk);
void vs_chunk_free(struct vs_chunk *chunk);

/* The next tag, 0 at the end. */
static inline uint8_t vs_chunk_tag(const struct vs_chunk *chunk)
{
	return chunk->at < chunk->size && chunk->tags[chunk->at] ? chunk->bytes[chunk->at] : 0;
}

#endif
