/* SPDX-License-Identifier: MIT */
#include "snapshot/snapshot.h"

#include "snapshot/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Snapshots compress 15 to 40 times; deflate itself ends near 1030. Beyond this it is a bomb. */
#define MAX_RATIO 256
#define MIN_LIMIT ((size_t)1 << 20) /* bytes that any file may expand to */

static int fail(struct vs_snapshot_error *error, int code, const char *what)
{
	snprintf(error->text, sizeof(error->text), "%s", what);
	return code;
}

static bool is_gzip(const uint8_t *data, size_t size)
{
	return size >= 2 && data[0] == 0x1f && data[1] == 0x8b; /* RFC 1952 */
}

static int inflate_all(z_stream *stream, uint8_t **buffer, size_t limit, size_t *ret_size,
                       struct vs_snapshot_error *error)
{
	size_t size = 0, capacity = 0;

	for (;;) {
		int z;

		if (size == capacity) {
			size_t grown = capacity ? capacity * 2 : 65536;
			uint8_t *fresh;

			if (capacity >= limit)
				return fail(error, -EOVERFLOW, "the gzip expands more than 256 times");
			fresh = realloc(*buffer, grown > limit ? limit : grown);
			if (!fresh)
				return fail(error, -ENOMEM, "out of memory");
			*buffer = fresh;
			capacity = grown > limit ? limit : grown;
		}
		stream->next_out = *buffer + size;
		stream->avail_out = capacity - size > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)(capacity - size);
		uInt room = stream->avail_out;

		z = inflate(stream, Z_NO_FLUSH);
		size += room - stream->avail_out;
		if (z == Z_STREAM_END) {
			/* gzip files may be several members in a row. */
			if (!stream->avail_in || !is_gzip(stream->next_in, stream->avail_in)) {
				*ret_size = size;
				return 0;
			}
			if (inflateReset(stream) != Z_OK)
				return fail(error, -EBADMSG, "a broken gzip file");
		} else if (z == Z_BUF_ERROR && stream->avail_out) {
			return fail(error, -EBADMSG, "the gzip file is cut short");
		} else if (z != Z_OK && z != Z_BUF_ERROR) {
			return fail(error, z == Z_MEM_ERROR ? -ENOMEM : -EBADMSG, "a broken gzip file");
		}
	}
}

static int gunzip(const uint8_t *data, size_t size, uint8_t **ret_data, size_t *ret_size,
                  struct vs_snapshot_error *error)
{
	size_t limit = size > SIZE_MAX / 2 / MAX_RATIO ? SIZE_MAX / 2 : size * MAX_RATIO;
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
	uint8_t *buffer = NULL;
	int r;

	if (size > UINT32_MAX)
		return fail(error, -EOVERFLOW, "a gzip file of 4 GiB or more: decompress it first");
	if (limit < MIN_LIMIT)
		limit = MIN_LIMIT;
	if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) /* 16: with a gzip header, see zlib.h */
		return fail(error, -ENOMEM, "out of memory");
	r = inflate_all(&stream, &buffer, limit, ret_size, error);
	inflateEnd(&stream);
	if (r < 0) {
		free(buffer);
		return r;
	}
	*ret_data = buffer;
	return 0;
}

static int parse_pickle(const uint8_t *data, size_t size, struct vs_snapshot **ret_snapshot,
                        struct vs_snapshot_error *error)
{
	struct vs_snapshot_owned *owned;
	struct vs_pickle_error why = {0};
	struct vs_pickle *pickle;
	int r;

	r = vs_pickle_parse(data, size, &pickle, &why);
	if (r < 0)
		return fail(error, r, why.text);
	owned = calloc(1, sizeof(*owned));
	r = owned ? vs_snapshot_layout(pickle, owned, error) : fail(error, -ENOMEM, "out of memory");
	vs_pickle_free(pickle);
	if (r < 0) {
		vs_snapshot_free(owned ? &owned->snapshot : NULL);
		return r;
	}
	*ret_snapshot = &owned->snapshot;
	return 0;
}

int vs_snapshot_parse(const void *data, size_t size, struct vs_snapshot **ret_snapshot,
                      struct vs_snapshot_error *error)
{
	uint8_t *inflated = NULL;
	size_t inflated_size;
	int r;

	if (!is_gzip(data, size))
		return parse_pickle(data, size, ret_snapshot, error);
	r = gunzip(data, size, &inflated, &inflated_size, error);
	if (r < 0)
		return r;
	r = parse_pickle(inflated, inflated_size, ret_snapshot, error);
	free(inflated);
	return r;
}

/* Read, not mapped: a file that is being rewritten must not end us with SIGBUS. */
static int read_all(int fd, size_t size, uint8_t **ret_data, size_t *ret_size)
{
	uint8_t *data = malloc(size ? size : 1);
	size_t got = 0;

	if (!data)
		return -ENOMEM;
	while (got < size) {
		ssize_t n = read(fd, data + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			free(data);
			return r;
		}
		if (!n)
			break;
		got += (size_t)n;
	}
	*ret_data = data;
	*ret_size = got;
	return 0;
}

int vs_snapshot_load(const char *path, struct vs_snapshot **ret_snapshot, struct vs_snapshot_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;
	uint8_t *data = NULL;
	struct stat st;
	size_t size = 0;

	if (fd < 0)
		return fail(error, -errno, strerror(errno));
	r = fstat(fd, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
	if (r == 0)
		r = read_all(fd, (size_t)st.st_size, &data, &size);
	if (r < 0)
		fail(error, r, strerror(-r));
	else if (!size)
		r = fail(error, -EBADMSG, "an empty file");
	else
		r = vs_snapshot_parse(data, size, ret_snapshot, error);
	free(data);
	close(fd);
	return r;
}

void vs_snapshot_free_arrays(struct vs_snapshot *snapshot)
{
	free(snapshot->segments);
	free(snapshot->blocks);
	free(snapshot->events);
	free(snapshot->stacks);
	free(snapshot->frames);
}

void vs_snapshot_free(struct vs_snapshot *snapshot)
{
	struct vs_snapshot_owned *owned = (struct vs_snapshot_owned *)snapshot;

	if (!snapshot)
		return;
	vs_snapshot_free_arrays(snapshot);
	free(owned->stack_frames);
	vs_snapshot_texts_free(owned->texts);
	free(owned);
}

bool vs_snapshot_probe(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t head[2] = {0};
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, head, sizeof(head));
	close(fd);
	return got == sizeof(head) && (is_gzip(head, 2) || (head[0] == 0x80 && head[1] >= 2 && head[1] <= 5));
}
