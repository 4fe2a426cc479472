/* SPDX-License-Identifier: MIT
 *
 * One instant of one device looked at closely: which blocks live there, by
 * stack, and how PyTorch's segments are filled.
 */
#ifndef VS_LEDGER_PROBE_H
#define VS_LEDGER_PROBE_H

#include "base/u64map.h"
#include "ledger/fragmentation.h"
#include "ledger/summary.h"

struct vs_probe { /* all zero but the first two to begin with */
	int device;
	uint64_t sequence; /* the instant after this event; 0: none */
	bool want_blocks, want_stacks;

	struct vs_range *segments; /* taken when the stream gets there */
	size_t segment_count;
	struct vs_cuda_piece *pieces; /* likewise, where blocks are wanted */
	size_t piece_count;
	bool taken;
	struct vs_extent *extents;
	size_t extent_count, extent_capacity;
	struct vs_block *blocks;
	size_t block_count, block_capacity;
	struct vs_stack_bytes *stacks;
	size_t stack_count, stack_capacity;
	struct vs_u64map stack_map;
};

void vs_probe_release(struct vs_probe *probe);

/* The stream is about to go past `next_sequence` (UINT64_MAX: its end): take the segments if the instant is before
 * it. -ENOMEM. */
int vs_probe_pass(struct vs_probe *probe, uint64_t next_sequence, const struct vs_cuda *cuda);

/* A block with its verdict, of any device and time. -ENOMEM. */
int vs_probe_block(struct vs_probe *probe, const struct vs_block *block);

/* Sort blocks by address and stacks by bytes. */
void vs_probe_finish(struct vs_probe *probe);

#endif
