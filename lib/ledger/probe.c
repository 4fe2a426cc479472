/* SPDX-License-Identifier: MIT */
#include "ledger/probe.h"

#include "base/buffer.h"
#include "ledger/samples.h"

#include <errno.h>
#include <stdlib.h>

void vs_probe_release(struct vs_probe *probe)
{
	free(probe->segments);
	free(probe->pieces);
	free(probe->extents);
	free(probe->blocks);
	free(probe->stacks);
	vs_u64map_release(&probe->stack_map);
}

int vs_probe_pass(struct vs_probe *probe, uint64_t next_sequence, const struct vs_cuda *cuda)
{
	if (probe->taken || !probe->sequence || next_sequence <= probe->sequence)
		return 0;
	probe->taken = true;
	if (probe->want_blocks && vs_cuda_pieces(cuda, &probe->pieces, &probe->piece_count))
		return -ENOMEM;
	return vs_cuda_ranges(cuda, &probe->segments, &probe->segment_count);
}

static int add_to_stack(struct vs_probe *probe, const struct vs_block *block)
{
	/* A stack may stand for several verdicts; +1 because key 0 is not a key. */
	uint64_t key = ((uint64_t)block->stack << 16 | (uint64_t)block->tag << 8 | (uint64_t)block->detail) + 1;
	uint32_t index;
	int error;

	if (!vs_u64map_get(&probe->stack_map, key, &index)) {
		if (vs_grow(&probe->stacks, &probe->stack_capacity, probe->stack_count + 1, sizeof(*probe->stacks)))
			return -ENOMEM;
		index = (uint32_t)probe->stack_count;
		error = vs_u64map_put(&probe->stack_map, key, index);
		if (error)
			return error;
		probe->stacks[probe->stack_count++] = (struct vs_stack_bytes){
		    .stack = block->stack,
		    .tag = block->tag,
		    .detail = block->detail,
		};
	}
	probe->stacks[index].bytes += block->size;
	probe->stacks[index].blocks++;
	return 0;
}

int vs_probe_block(struct vs_probe *probe, const struct vs_block *block)
{
	if (block->device != probe->device || !probe->sequence || !vs_alive_at(block, probe->sequence))
		return 0;
	if (vs_grow(&probe->extents, &probe->extent_capacity, probe->extent_count + 1, sizeof(*probe->extents)))
		return -ENOMEM;
	probe->extents[probe->extent_count++] = (struct vs_extent){block->address, block->address + block->size};
	if (probe->want_blocks) {
		if (vs_grow(&probe->blocks, &probe->block_capacity, probe->block_count + 1, sizeof(*probe->blocks)))
			return -ENOMEM;
		probe->blocks[probe->block_count++] = *block;
	}
	return probe->want_stacks ? add_to_stack(probe, block) : 0;
}

static int by_address(const void *a, const void *b)
{
	const struct vs_block *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vs_stack_bytes *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void vs_probe_finish(struct vs_probe *probe)
{
	if (probe->block_count)
		qsort(probe->blocks, probe->block_count, sizeof(*probe->blocks), by_address);
	if (probe->stack_count)
		qsort(probe->stacks, probe->stack_count, sizeof(*probe->stacks), by_bytes);
}
