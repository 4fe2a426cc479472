/* SPDX-License-Identifier: MIT
 *
 * Sums over what CUDA has given out on one device: bytes asked for, by owner,
 * and bytes that the card lost to it. The card gives whole pages, and small
 * requests share them, so the two differ.
 */
#ifndef VS_LEDGER_HOLDINGS_H
#define VS_LEDGER_HOLDINGS_H

#include "base/u64map.h"
#include "ledger/owner.h"
#include <vramshim/events.h>

struct vs_holdings {                      /* all zero to begin with */
	uint64_t asked;                   /* bytes of device memory, all owners */
	uint64_t by_owner[VS_OWNERS_MAX]; /* ... of each */
	uint64_t pytorch_pool;            /* ... of PyTorch's allocator in a memory pool of CUDA's */
	uint64_t taken;                   /* bytes gone from the card */
	uint64_t held, used;              /* ... to CUDA's memory pools; what of that is asked for */
	uint64_t managed;                 /* bytes of managed memory: in none of the others */
	struct vs_u64map pages;           /* those that allocations cover in part -> how many do */
};

void vs_holdings_release(struct vs_holdings *holdings);

/* An allocation comes (or goes, with the same arguments). Only memory on the card counts: managed memory is on either
 * side, mappings and reservations take nothing, foreign bytes are counted where they were made. -ENOMEM, then nothing
 * was added. */
int vs_holdings_add(struct vs_holdings *holdings, enum vramshim_memory memory, uint64_t address, uint64_t size,
                    uint8_t owner);
void vs_holdings_remove(struct vs_holdings *holdings, enum vramshim_memory memory, uint64_t address, uint64_t size,
                        uint8_t owner);

#endif
