/* SPDX-License-Identifier: MIT
 *
 * Small requests share granules. CUDA does the same: cudaMalloc(1) takes a
 * whole granule from the card, the next one costs nothing. The unit of 512
 * bytes is the alignment that drivers since CUDA 10 show; the order inside a
 * granule is first fit (assumed: nothing public tells it).
 */
#ifndef VS_SIM_SLAB_H
#define VS_SIM_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define VS_SLAB_UNIT  512u            /* bytes */
#define VS_SLAB_UNITS 4096u           /* units in a granule */
#define VS_SLAB_MAX   (1024u * 1024u) /* bytes: larger requests get granules of their own */

struct vs_slab {
	uint64_t address;               /* of the granule */
	uint16_t used;                  /* units */
	uint16_t length[VS_SLAB_UNITS]; /* units of the block that starts here, 0: none starts here */
	uint64_t taken[VS_SLAB_UNITS / 64];
};

struct vs_slabs {
	struct vs_slab **slabs; /* by address */
	size_t count;
	size_t capacity;
};

/* A place of `size` bytes (1 to VS_SLAB_MAX) in the granules at hand. -ENOENT: none has room, add a granule. */
int vs_slabs_take(struct vs_slabs *slabs, uint64_t size, uint64_t *ret_address);

/* Let the granule at `address` serve. -ENOMEM. */
int vs_slabs_add(struct vs_slabs *slabs, uint64_t address);

/*
 * Give a block back by its first address. Returns -ENOENT when the address is in
 * none of the granules, -EINVAL when it is but no block starts there, 1 when
 * the granule `*ret_granule` is empty now and no longer ours, else 0.
 */
int vs_slabs_give(struct vs_slabs *slabs, uint64_t address, uint64_t *ret_granule);

/* The block that holds `address`, rounded to units. -ENOENT. */
int vs_slabs_find(const struct vs_slabs *slabs, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);

void vs_slabs_done(struct vs_slabs *slabs);

#endif
