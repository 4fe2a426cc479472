/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <trace/source.h>
#include <unistd.h>

size_t vs_source_read(const struct vs_source *source, uint64_t offset, void *buffer, size_t size)
{
	size_t done = 0;

	if (offset >= source->size)
		return 0;
	if (size > source->size - offset)
		size = (size_t)(source->size - offset);
	if (source->memory) {
		memcpy(buffer, source->memory + offset, size);
		return size;
	}
	while (done < size) {
		ssize_t got = pread(source->fd, (char *)buffer + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

bool vs_chunk_peek(const struct vs_source *source, uint32_t index, struct vs_chunk_header *ret_header)
{
	struct vs_chunk_header header;
	uint64_t offset = (uint64_t)index * VS_CHUNK_SIZE + vs_chunk_records(index) - sizeof(header);

	if (index >= source->chunks || vs_source_read(source, offset, &header, sizeof(header)) < sizeof(header) ||
	    header.magic != VS_CHUNK_MAGIC)
		return false;
	*ret_header = header;
	return true;
}

int vs_chunk_load(const struct vs_source *source, uint32_t index, struct vs_chunk *chunk)
{
	uint64_t offset = (uint64_t)index * VS_CHUNK_SIZE;
	struct vs_chunk_header header;
	size_t size;

	if (!vs_chunk_peek(source, index, &header))
		return -ENODATA;
	if (source->memory) {
		size = source->size - offset < VS_CHUNK_SIZE ? (size_t)(source->size - offset) : VS_CHUNK_SIZE;
		chunk->bytes = chunk->tags = source->memory + offset;
	} else {
		if (!chunk->buffer)
			chunk->buffer = malloc(source->live ? 2 * VS_CHUNK_SIZE : VS_CHUNK_SIZE);
		if (!chunk->buffer)
			return -ENOMEM;
		chunk->bytes = chunk->tags = chunk->buffer;
		size = vs_source_read(source, offset, chunk->buffer, VS_CHUNK_SIZE);
		if (source->live) {
			size_t again = vs_source_read(source, offset, chunk->buffer + VS_CHUNK_SIZE, size);

			chunk->bytes = chunk->buffer + VS_CHUNK_SIZE;
			size = again < size ? again : size;
		}
	}
	chunk->header = header;
	chunk->index = index;
	chunk->at = vs_chunk_records(index);
	chunk->size = (uint32_t)size;
	return 0;
}

int vs_chunk_follow(const struct vs_source *source, struct vs_chunk *chunk)
{
	struct vs_chunk_header old = chunk->header, next;

	if (!old.next || old.next >= source->chunks)
		return 0; /* the last one, or the rest is cut off */
	if (source->size - (uint64_t)old.next * VS_CHUNK_SIZE < sizeof(next))
		return 0; /* cut inside the header */
	if (old.next <= chunk->index || !vs_chunk_peek(source, old.next, &next) || next.kind != old.kind ||
	    next.first != old.first || next.ordinal != old.ordinal + 1)
		return -EBADMSG;
	return vs_chunk_load(source, old.next, chunk) < 0 ? -ENOMEM : 1;
}

void vs_chunk_free(struct vs_chunk *chunk)
{
	free(chunk->buffer);
	*chunk = (struct vs_chunk){0};
}
