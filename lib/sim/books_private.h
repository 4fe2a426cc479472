/* SPDX-License-Identifier: MIT
 *
 * Shared by the books' own files only. Everything here is called with the lock
 * held, except the lock itself.
 */
#ifndef VS_SIM_BOOKS_PRIVATE_H
#define VS_SIM_BOOKS_PRIVATE_H

#include <pthread.h>

#include "sim/books.h"
#include "sim/slab.h"
#include "base/space.h"

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

/* The region that holds `address`, NULL if none. Valid until the next add or drop. */
struct vs_region *vs_region_find(uint64_t address);
int vs_region_add(const struct vs_region *region);
void vs_region_drop(struct vs_region *region);
void vs_region_discard(struct vs_region *region); /* ... and give its address space back, where it is ours */

/* Address space nobody may touch: a stray access by the host is a clean crash. NULL when there is none. */
void *vs_map_guarded(uint64_t size);

/* The mapping of a reservation that holds `address`, NULL if none; the device of its physical memory. */
const struct vs_mapping *vs_mapping_find(const struct vs_region *region, uint64_t address);
int vs_physical_device(uint64_t handle);
void vs_physical_forget(void);

#endif
