/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <trace/stream.h>

/* The next event of this chunk: 1, 0 at its end, -EBADMSG. */
static int decode(struct vs_stream *stream)
{
	struct vs_chunk *chunk = &stream->chunk;
	uint8_t tag;

	while ((tag = vs_chunk_tag(chunk)) != 0) {
		struct vs_cursor payload = {chunk->bytes + chunk->at + 1, chunk->bytes + chunk->size, false};

		if (tag == VS_TAG_THREAD)
			stream->codec.thread = (uint32_t)vs_cursor_limited(&payload, UINT32_MAX);
		else
			vs_codec_decode(&stream->codec, tag, &payload, &stream->event);
		if (payload.bad) {
			chunk->at = chunk->size;
			return chunk->size == VS_CHUNK_SIZE ? -EBADMSG : 0; /* a short chunk: cut in this record */
		}
		chunk->at = (uint32_t)(payload.at - chunk->bytes);
		if (tag != VS_TAG_THREAD)
			return 1;
	}
	return 0;
}

bool vs_stream_next(struct vs_stream *stream, const struct vs_source *source, uint64_t *damaged)
{
	for (;;) {
		int r = decode(stream);

		if (r > 0)
			return true;
		if (r < 0)
			++*damaged;
		r = vs_chunk_follow(source, &stream->chunk);
		if (r < 0)
			++*damaged;
		if (r <= 0)
			return false;
		vs_codec_reset(&stream->codec, &stream->chunk.header);
	}
}

bool vs_stream_start(struct vs_stream *stream, const struct vs_source *source, uint64_t *damaged)
{
	int r = vs_chunk_load(source, stream->first, &stream->chunk);

	if (r < 0) {
		++*damaged;
		return false;
	}
	vs_codec_reset(&stream->codec, &stream->chunk.header);
	return vs_stream_next(stream, source, damaged);
}
