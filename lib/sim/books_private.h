/* SPDX-License-Identifier: MIT
 *
 * Shared by the books' own files only. Everything here is called with the lock
 * held, except the lock itself.
 */
#ifndef VS_SIM_BOOKS_PRIVATE_H
#define VS_SIM_BOOKS_PRIVATE_H

#include <pthread.h>

#include "base/space.h"
#include "sim/books.h"
#include "sim/slab.h"

struct vs_card {
	uint64_t total;
	uint64_t context_bytes;
	uint64_t used; /* bytes held, contexts included */
	uint64_t high; /* the most of it */
	struct vs_space space;
	struct vs_slabs slabs;
	void *range; /* the address range of `space` */
	uint64_t range_size;
	bool spaced; /* it has one */
};

enum vs_region_kind {
	VS_REGION_PINNED,
	VS_REGION_MANAGED,
	VS_REGION_REGISTERED,
	VS_REGION_FOREIGN,
	VS_REGION_EXTERNAL, /* another owner's memory, which cudaFree() unmaps */
	VS_REGION_CODE,     /* variables of device code: addresses without bytes of their own */
	VS_REGION_GRAPH,    /* memory of a graph's node (graph_memory.c) */
	VS_REGION_RESERVED
};

struct vs_mapping {
	uint64_t address;
	uint64_t size;
	uint64_t handle;
	bool accessible;
};

/* A stretch of address space that is not cudaMalloc's. */
struct vs_region {
	uint64_t address;
	uint64_t size;
	enum vs_region_kind kind;
	int device;
	struct vs_mapping *mappings; /* RESERVED: by address */
	size_t count;
	size_t capacity;
};

struct vs_books {
	pthread_mutex_t lock;
	struct vs_card cards[VS_DEVICES];
	uint64_t (*others)(int device, uint64_t used);
	struct vs_region *regions; /* by address, no overlap */
	size_t region_count;
	size_t region_capacity;
};

extern struct vs_books vs_books;

/* Take or give `size` bytes of the card. CU_OUT_OF_MEMORY when it does not have them. */
int vs_books_charge(int device, uint64_t size);
void vs_books_discharge(int device, uint64_t size);

/* Whole granules of the card, for somebody who divides them up. */
int vs_books_take(int device, uint64_t size, uint64_t *ret_address);
int vs_books_give(int device, uint64_t address);

/* pool.c: what pools keep without use goes back to the card (true: there was some); everything of a device's pools
 * (-1: of all) is gone; a block in use is given back (CU_NOT_FOUND: of no pool), or looked at. */
struct vs_pool;
bool vs_pools_squeeze(int device);
void vs_pools_forget(int device);
int vs_pools_give(uint64_t address);
bool vs_pools_find(uint64_t address, uint64_t *ret_start, uint64_t *ret_size, struct vs_pool **ret_pool);
bool vs_pools_own(uint64_t address);

/* graph_memory.c: the same. */
int vs_graphs_give(uint64_t address);
void vs_graphs_forget(int device);

/* arrays.c: those of a device that no context of the job's own has. */
void vs_arrays_forget(int device);

/* owned.c: whether a context that the job made has the allocation; it was given back, and nobody has it. */
bool vs_owned(uint64_t address);
void vs_disown(uint64_t address);
void vs_owned_forget(void);

/* Address space of a kind, without bytes. Takes the lock itself. */
int vs_books_addresses(int device, uint64_t size, enum vs_region_kind kind, uint64_t *ret_address);

/* The region that holds `address`, NULL if none. Valid until the next add or drop. */
struct vs_region *vs_region_find(uint64_t address);
int vs_region_add(const struct vs_region *region);
void vs_region_drop(struct vs_region *region);
void vs_region_discard(struct vs_region *region); /* ... and give its address space back, where it is ours */
/* Discard the region of `kind` that starts at `address`. CU_INVALID_VALUE. */
int vs_region_give(uint64_t address, enum vs_region_kind kind);

/* The regions of a device that its primary context has. */
void vs_regions_reset(int device);

/* Address space nobody may touch: a stray access by the host is a clean crash. NULL when there is none. */
void *vs_map_guarded(uint64_t size);

/* The mapping of a reservation that holds `address`, NULL if none; the device of its physical memory. */
const struct vs_mapping *vs_mapping_find(const struct vs_region *region, uint64_t address);
int vs_physical_device(uint64_t handle);
void vs_physical_forget(void);

#endif
