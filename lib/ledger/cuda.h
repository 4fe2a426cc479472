/* SPDX-License-Identifier: MIT
 *
 * What CUDA itself has given out, replayed from CUDA events: device bytes, by
 * whom, and the ranges that PyTorch's segments are made of.
 */
#ifndef VS_LEDGER_CUDA_H
#define VS_LEDGER_CUDA_H

#include "base/u64map.h"
#include "ledger/holdings.h"
#include <vramshim/events.h>

struct vs_range { /* of device addresses, mapped and in PyTorch's hands */
	uint64_t begin, end;
	bool mapped; /* a piece of an expandable segment: neighbours are one segment */
};

struct vs_cuda_piece {
	uint64_t address, size;
	enum vramshim_memory memory;
	uint8_t owner;
	uint32_t stack;
};

struct vs_cuda { /* of one device; all zero to begin with */
	struct vs_u64map map;
	struct vs_cuda_piece *pieces; /* a pool: `memory` 0 is unused */
	uint32_t *unused;
	size_t count, capacity, unused_count, unused_capacity;
	struct vs_holdings holdings;
};

void vs_cuda_release(struct vs_cuda *cuda);

/* Account for a CUDA_ALLOC or CUDA_FREE of this device, as resolve.h makes them. -ENOMEM. */
int vs_cuda_event(struct vs_cuda *cuda, const struct vramshim_event *event, uint8_t owner);

/* PyTorch's ranges, ascending; memory for free(3), NULL with count 0 if there are none. -ENOMEM. */
int vs_cuda_ranges(const struct vs_cuda *cuda, struct vs_range **ret_ranges, size_t *ret_count);

/* What is on the card and asked for by name: linear memory, arrays, physical memory, what is in use of pools.
 * Ascending; memory for free(3), NULL with count 0 if there is none. -ENOMEM. */
int vs_cuda_pieces(const struct vs_cuda *cuda, struct vs_cuda_piece **ret_pieces, size_t *ret_count);

#endif
