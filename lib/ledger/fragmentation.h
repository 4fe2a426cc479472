/* SPDX-License-Identifier: MIT */
#ifndef VS_LEDGER_FRAGMENTATION_H
#define VS_LEDGER_FRAGMENTATION_H

#include "ledger/cuda.h"
#include "ledger/summary.h"

struct vs_extent {
	uint64_t begin, end;
};

/* From segments (ascending, disjoint) and live blocks (sorted here), with the counters of the same instant. Blocks
 * outside all segments and overlaps, which only a trace with gaps has, are cut to what fits. */
void vs_fragmentation(const struct vs_range *segments, size_t segment_count, struct vs_extent *blocks,
                      size_t block_count, uint64_t allocated, uint64_t reserved,
                      struct vs_fragmentation *ret_fragmentation);

#endif
