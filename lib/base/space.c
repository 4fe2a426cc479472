/* SPDX-License-Identifier: MIT */
#include "base/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t round_up(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

/* Open a hole of one element at `at` in a growable array. */
static void *open_at(void *array, size_t *count, size_t *capacity, size_t width, size_t at)
{
	if (*count == *capacity) {
		size_t grown = *capacity ? *capacity * 2 : 4;
		void *fresh = realloc(array, grown * width);

		if (!fresh)
			return NULL;
		array = fresh;
		*capacity = grown;
	}
	memmove((char *)array + (at + 1) * width, (char *)array + at * width, (*count - at) * width);
	(*count)++;
	return array;
}

static void close_at(void *array, size_t *count, size_t width, size_t at)
{
	(*count)--;
	memmove((char *)array + at * width, (char *)array + (at + 1) * width, (*count - at) * width);
}

void vs_space_init(struct vs_space *space, uint64_t start, uint64_t size)
{
	uint64_t end = (start + size) / VS_CHUNK * VS_CHUNK;

	memset(space, 0, sizeof(*space));
	space->start = round_up(start, VS_CHUNK);
	space->end = end > space->start ? end : space->start;
}

void vs_space_done(struct vs_space *space)
{
	if (!space)
		return;
	for (size_t i = 0; i < space->count; i++)
		free(space->chunks[i].pieces);
	free(space->chunks);
	memset(space, 0, sizeof(*space));
}

/* Index of the last chunk that starts at or before `address`; count if none. */
static size_t chunk_at(const struct vs_space *space, uint64_t address)
{
	size_t low = 0, high = space->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->chunks[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : space->count;
}

static int use_piece(struct vs_chunk *chunk, size_t at, uint64_t size)
{
	struct vs_piece *piece = &chunk->pieces[at];

	if (piece->size > size) {
		struct vs_piece *grown;
		size_t next = at + 1;

		grown = open_at(chunk->pieces, &chunk->count, &chunk->capacity, sizeof(*grown), next);
		if (!grown)
			return -ENOMEM;
		chunk->pieces = grown;
		piece = &grown[at];
		grown[next] = (struct vs_piece){.address = piece->address + size, .size = piece->size - size};
		piece->size = size;
	}
	piece->used = true;
	chunk->used += size;
	return 0;
}

static int take_hole(struct vs_space *space, uint64_t size, uint64_t *ret_address)
{
	for (size_t i = 0; i < space->count; i++) {
		struct vs_chunk *chunk = &space->chunks[i];

		if (chunk->size - chunk->used < size)
			continue;
		for (size_t j = 0; j < chunk->count; j++) {
			uint64_t address = chunk->pieces[j].address;
			int r;

			if (chunk->pieces[j].used || chunk->pieces[j].size < size)
				continue;
			r = use_piece(chunk, j, size);
			if (r < 0)
				return r;
			*ret_address = address;
			return 0;
		}
	}
	return -ENOENT;
}

/* Where a new chunk goes: below the upper end of the highest gap that holds it. */
static int highest_gap(const struct vs_space *space, uint64_t size, uint64_t *ret_address, size_t *ret_index)
{
	uint64_t upper = space->end;

	for (size_t i = space->count + 1; i-- > 0;) {
		uint64_t lower = i ? space->chunks[i - 1].address + space->chunks[i - 1].size : space->start;

		if (upper - lower >= size) {
			*ret_address = upper - size;
			*ret_index = i;
			return 0;
		}
		if (i)
			upper = space->chunks[i - 1].address;
	}
	return -ENOMEM;
}

static int take_chunk(struct vs_space *space, uint64_t size, uint64_t *ret_address)
{
	struct vs_chunk chunk = {.size = round_up(size, VS_CHUNK), .count = 1, .capacity = 4};
	struct vs_chunk *grown;
	size_t at;
	int r;

	r = highest_gap(space, chunk.size, &chunk.address, &at);
	if (r < 0)
		return r;
	chunk.pieces = malloc(chunk.capacity * sizeof(*chunk.pieces));
	if (!chunk.pieces)
		return -ENOMEM;
	chunk.pieces[0] = (struct vs_piece){.address = chunk.address, .size = chunk.size};
	r = use_piece(&chunk, 0, size);
	grown = r < 0 ? NULL : open_at(space->chunks, &space->count, &space->capacity, sizeof(*grown), at);
	if (!grown) {
		free(chunk.pieces);
		return -ENOMEM;
	}
	space->chunks = grown;
	grown[at] = chunk;
	*ret_address = chunk.address;
	return 0;
}

int vs_space_take(struct vs_space *space, uint64_t size, uint64_t *ret_address)
{
	int r;

	if (!size || size > space->end - space->start)
		return -ENOMEM;
	size = round_up(size, VS_GRANULE);
	r = take_hole(space, size, ret_address);
	return r == -ENOENT ? take_chunk(space, size, ret_address) : r;
}

static struct vs_piece *piece_at(struct vs_chunk *chunk, uint64_t address, size_t *ret_index)
{
	size_t low = 0, high = chunk->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct vs_piece *piece = &chunk->pieces[middle];

		if (address < piece->address) {
			high = middle;
		} else if (address >= piece->address + piece->size) {
			low = middle + 1;
		} else {
			*ret_index = middle;
			return piece;
		}
	}
	return NULL;
}

int vs_space_give(struct vs_space *space, uint64_t address, uint64_t *ret_size)
{
	size_t i = chunk_at(space, address), j;
	struct vs_chunk *chunk;
	struct vs_piece *piece;

	if (i == space->count)
		return -ENOENT;
	chunk = &space->chunks[i];
	piece = piece_at(chunk, address, &j);
	if (!piece || !piece->used || piece->address != address)
		return -ENOENT;
	*ret_size = piece->size;
	piece->used = false;
	chunk->used -= piece->size;
	if (!chunk->used) {
		free(chunk->pieces);
		close_at(space->chunks, &space->count, sizeof(*chunk), i);
		return 0;
	}
	if (j + 1 < chunk->count && !piece[1].used) {
		piece->size += piece[1].size;
		close_at(chunk->pieces, &chunk->count, sizeof(*piece), j + 1);
	}
	if (j > 0 && !piece[-1].used) {
		piece[-1].size += piece->size;
		close_at(chunk->pieces, &chunk->count, sizeof(*piece), j);
	}
	return 0;
}

const struct vs_piece *vs_space_find(const struct vs_space *space, uint64_t address)
{
	size_t i = chunk_at(space, address), j;
	struct vs_piece *piece;

	if (i == space->count)
		return NULL;
	piece = piece_at(&space->chunks[i], address, &j);
	return piece && piece->used ? piece : NULL;
}
