/* SPDX-License-Identifier: MIT */
#include "ledger/cuda.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void vs_cuda_release(struct vs_cuda *cuda)
{
	vs_u64map_release(&cuda->map);
	vs_holdings_release(&cuda->holdings);
	free(cuda->pieces);
	free(cuda->unused);
	*cuda = (struct vs_cuda){0};
}

/* Handles and addresses are different worlds with the same numbers. Device addresses have 57 bits at most. */
static uint64_t key_of(enum vramshim_memory memory, uint64_t address)
{
	return address ^ ((uint64_t)memory << 58);
}

static void take(struct vs_cuda *cuda, enum vramshim_memory memory, uint64_t address)
{
	struct vs_cuda_piece *piece;
	uint32_t index;

	if (!vs_u64map_take(&cuda->map, key_of(memory, address), &index))
		return;
	piece = &cuda->pieces[index];
	vs_holdings_remove(&cuda->holdings, piece->memory, piece->address, piece->size, piece->owner);
	piece->memory = 0;
	cuda->unused[cuda->unused_count++] = index;
}

static int add(struct vs_cuda *cuda, const struct vs_cuda_piece *piece)
{
	uint32_t index;
	int error;

	take(cuda, piece->memory, piece->address); /* its free was lost */
	if (cuda->unused_count) {
		index = cuda->unused[cuda->unused_count - 1];
	} else {
		/* As many may become unused, so that giving one back never fails. */
		if (cuda->count == UINT32_MAX ||
		    vs_grow(&cuda->pieces, &cuda->capacity, cuda->count + 1, sizeof(*cuda->pieces)) ||
		    vs_grow(&cuda->unused, &cuda->unused_capacity, cuda->count + 1, sizeof(*cuda->unused)))
			return -ENOMEM;
		index = (uint32_t)cuda->count;
	}
	error = vs_u64map_put(&cuda->map, key_of(piece->memory, piece->address), index);
	if (error)
		return error == -EINVAL ? 0 : error; /* a null address is no allocation */
	if (cuda->unused_count)
		cuda->unused_count--;
	else
		cuda->count++;
	cuda->pieces[index] = *piece;
	return vs_holdings_add(&cuda->holdings, piece->memory, piece->address, piece->size, piece->owner);
}

int vs_cuda_event(struct vs_cuda *cuda, const struct vramshim_event *event, uint8_t owner)
{
	if (event->type == VRAMSHIM_CUDA_ALLOC)
		return add(cuda,
		           &(struct vs_cuda_piece){event->address, event->size, event->memory, owner, event->stack});
	take(cuda, event->memory, event->address);
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct vs_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

int vs_cuda_ranges(const struct vs_cuda *cuda, struct vs_range **ret_ranges, size_t *ret_count)
{
	struct vs_range *ranges;
	size_t count = 0;

	ranges = calloc(cuda->count ? cuda->count : 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < cuda->count; i++) {
		const struct vs_cuda_piece *piece = &cuda->pieces[i];

		if (piece->owner > VS_OWNER_PYTORCH ||
		    (piece->memory != VRAMSHIM_MEMORY_DEVICE && piece->memory != VRAMSHIM_MEMORY_MAPPED))
			continue;
		ranges[count++] = (struct vs_range){piece->address, piece->address + piece->size,
		                                    piece->memory == VRAMSHIM_MEMORY_MAPPED};
	}
	qsort(ranges, count, sizeof(*ranges), by_address);
	*ret_ranges = ranges;
	*ret_count = count;
	return 0;
}

static bool is_named(enum vramshim_memory memory)
{
	return memory == VRAMSHIM_MEMORY_DEVICE || memory == VRAMSHIM_MEMORY_ARRAY ||
	       memory == VRAMSHIM_MEMORY_PHYSICAL || memory == VRAMSHIM_MEMORY_POOL ||
	       memory == VRAMSHIM_MEMORY_GRAPHS;
}

static int piece_by_address(const void *a, const void *b)
{
	const struct vs_cuda_piece *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

int vs_cuda_pieces(const struct vs_cuda *cuda, struct vs_cuda_piece **ret_pieces, size_t *ret_count)
{
	struct vs_cuda_piece *pieces = calloc(cuda->count ? cuda->count : 1, sizeof(*pieces));
	size_t count = 0;

	if (!pieces)
		return -ENOMEM;
	for (size_t i = 0; i < cuda->count; i++)
		if (is_named(cuda->pieces[i].memory))
			pieces[count++] = cuda->pieces[i];
	qsort(pieces, count, sizeof(*pieces), piece_by_address);
	*ret_pieces = pieces;
	*ret_count = count;
	return 0;
}
