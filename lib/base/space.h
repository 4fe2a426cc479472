/* SPDX-License-Identifier: MIT
 *
 * Where in a device's address range cudaMalloc puts a request. Pure address
 * arithmetic: no memory is touched, no lock taken.
 *
 * The policy is read off the segment addresses of public PyTorch snapshots: a
 * request that fits no hole opens a chunk of its size rounded up to 32 MiB at
 * the top of the highest gap that holds it; holes of open chunks serve
 * requests first, lowest address first; a chunk that is wholly free goes back
 * to the gaps. It matters because PyTorch breaks best-fit ties by address.
 */
#ifndef VS_BASE_SPACE_H
#define VS_BASE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_GRANULE (UINT64_C(2) << 20)  /* bytes: what cudaMalloc and cuMemCreate hand out on all supported GPUs */
#define VS_CHUNK   (UINT64_C(32) << 20) /* bytes: step of a chunk of address space */

struct vs_piece {
	uint64_t address;
	uint64_t size;
	bool used;
};

struct vs_chunk {
	uint64_t address;
	uint64_t size;
	uint64_t used;           /* bytes */
	struct vs_piece *pieces; /* by address, covering the chunk, no two free neighbours */
	size_t count;
	size_t capacity;
};

struct vs_space {
	uint64_t start; /* multiple of VS_CHUNK */
	uint64_t end;
	struct vs_chunk *chunks; /* by address */
	size_t count;
	size_t capacity;
};

/* Describe an empty range; `start` and `size` are rounded inwards to VS_CHUNK. */
void vs_space_init(struct vs_space *space, uint64_t start, uint64_t size);
void vs_space_done(struct vs_space *space);

/*
 * Take `size` bytes (rounded up to VS_GRANULE; not 0). Returns 0 or -ENOMEM
 * where no gap holds it or our own tables cannot grow.
 */
int vs_space_take(struct vs_space *space, uint64_t size, uint64_t *ret_address);

/* Give a taken piece back by its first address. -ENOENT: no used piece starts there. */
int vs_space_give(struct vs_space *space, uint64_t address, uint64_t *ret_size);

/* The used piece that holds `address`; NULL if none. Valid until the next take or give. */
const struct vs_piece *vs_space_find(const struct vs_space *space, uint64_t address);

#endif
