/* SPDX-License-Identifier: MIT */
#include "ledger/fragmentation.h"

#include <stdlib.h>

static int by_begin(const void *a, const void *b)
{
	const struct vs_extent *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void free_piece(struct vs_fragmentation *result, uint64_t *run, uint64_t size)
{
	*run += size;
	if (*run > result->largest_free)
		result->largest_free = *run;
}

void vs_fragmentation(const struct vs_range *segments, size_t segment_count, struct vs_extent *blocks,
                      size_t block_count, uint64_t allocated, uint64_t reserved,
                      struct vs_fragmentation *ret_fragmentation)
{
	struct vs_fragmentation result = {
	    .unallocated = reserved > allocated ? reserved - allocated : 0,
	    .segments = segment_count,
	};
	uint64_t total = 0, run = 0; /* a free piece goes on over the border of two mapped neighbours */
	size_t next = 0;

	if (block_count)
		qsort(blocks, block_count, sizeof(*blocks), by_begin);
	for (size_t i = 0; i < segment_count; i++) {
		const struct vs_range *segment = &segments[i];
		uint64_t at = segment->begin, used = 0, size = segment->end - segment->begin;

		if (!i || !segment->mapped || !segments[i - 1].mapped || segments[i - 1].end != segment->begin)
			run = 0;
		total += size;
		while (next < block_count && blocks[next].end <= segment->begin)
			next++;
		while (next < block_count && blocks[next].begin < segment->end) {
			uint64_t begin = blocks[next].begin > at ? blocks[next].begin : at;
			uint64_t end = blocks[next].end < segment->end ? blocks[next].end : segment->end;

			if (begin > at)
				free_piece(&result, &run, begin - at);
			if (end > begin) {
				used += end - begin;
				at = end;
				run = 0;
			}
			if (blocks[next].end > segment->end)
				break; /* a block over two mapped pieces: the rest is in the next one */
			next++;
		}
		if (at < segment->end)
			free_piece(&result, &run, segment->end - at);
		if (!used)
			result.releasable += size;
		else
			result.pinned += size - used;
	}
	result.exact = segment_count && total == reserved;
	if (segment_count && result.unallocated)
		result.index = 1.0 - (double)result.largest_free / (double)result.unallocated;
	if (result.index < 0)
		result.index = 0; /* only where events were lost */
	*ret_fragmentation = result;
}
