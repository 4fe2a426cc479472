/* SPDX-License-Identifier: MIT
 *
 * Sums per tag at chosen instants, without keeping blocks: a block that is
 * alive over instants i..j-1 adds its size to a difference array at i and
 * takes it away at j; one prefix sum in the end gives every instant.
 */
#ifndef VS_LEDGER_SAMPLES_H
#define VS_LEDGER_SAMPLES_H

#include "ledger/summary.h"

struct vs_samples;

/* `points`: instants of one device; their .sequence is read now, their sums are written by vs_samples_finish(). The
 * array of pointers is copied, the points must stay. -ENOMEM. */
int vs_samples_new(struct vs_point *const *points, size_t count, struct vs_samples **ret_samples);
/* Accepts NULL. */
void vs_samples_free(struct vs_samples *samples);

/* Blocks in any order; fastest in order of their frees. */
void vs_samples_add(struct vs_samples *samples, const struct vs_block *block);

void vs_samples_finish(struct vs_samples *samples);

/* Does the block live at the instant after event `sequence`? */
static inline bool vs_alive_at(const struct vs_block *block, uint64_t sequence)
{
	return block->allocated_at <= sequence && (!block->freed_at || block->freed_at > sequence);
}

#endif
