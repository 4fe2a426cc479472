/* SPDX-License-Identifier: MIT
 *
 * Address space that is not cudaMalloc's: pinned and managed host memory,
 * memory the job registered, memory of other processes, reservations.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/books_private.h"

/* First region that starts above `address`. */
static size_t above(uint64_t address)
{
	size_t low = 0, high = vs_books.region_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (vs_books.regions[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct vs_region *vs_region_find(uint64_t address)
{
	size_t at = above(address);
	struct vs_region *region;

	if (!at)
		return NULL;
	region = &vs_books.regions[at - 1];
	return address - region->address < region->size ? region : NULL;
}

int vs_region_add(const struct vs_region *region)
{
	size_t at = above(region->address);

	if (vs_books.region_count == vs_books.region_capacity) {
		size_t grown = vs_books.region_capacity ? vs_books.region_capacity * 2 : 64;
		struct vs_region *fresh = realloc(vs_books.regions, grown * sizeof(*fresh));

		if (!fresh)
			return CU_OUT_OF_MEMORY;
		vs_books.regions = fresh;
		vs_books.region_capacity = grown;
	}
	memmove(&vs_books.regions[at + 1], &vs_books.regions[at],
	        (vs_books.region_count - at) * sizeof(*vs_books.regions));
	vs_books.regions[at] = *region;
	vs_books.region_count++;
	return CU_OK;
}

void vs_region_drop(struct vs_region *region)
{
	size_t at = (size_t)(region - vs_books.regions);

	free(region->mappings);
	vs_books.region_count--;
	memmove(region, region + 1, (vs_books.region_count - at) * sizeof(*region));
}

void vs_region_discard(struct vs_region *region)
{
	vs_disown(region->address);
	if (region->kind != VS_REGION_REGISTERED)
		munmap((void *)(uintptr_t)region->address, region->size);
	vs_region_drop(region);
}

static int add_mapped(void *memory, const struct vs_region *region, uint64_t *ret_address)
{
	int r;

	pthread_mutex_lock(&vs_books.lock);
	r = vs_region_add(region);
	pthread_mutex_unlock(&vs_books.lock);
	if (r == CU_OK)
		*ret_address = region->address;
	else
		munmap(memory, region->size);
	return r;
}

int vs_region_give(uint64_t address, enum vs_region_kind kind)
{
	struct vs_region *region = vs_region_find(address);

	if (!region || region->address != address || region->kind != kind)
		return CU_INVALID_VALUE;
	vs_region_discard(region);
	return CU_OK;
}

static int drop(uint64_t address, enum vs_region_kind kind, int error)
{
	int r;

	pthread_mutex_lock(&vs_books.lock);
	r = vs_region_give(address, kind);
	pthread_mutex_unlock(&vs_books.lock);
	return r == CU_OK ? r : error;
}

int vs_books_host_alloc(int device, uint64_t size, bool managed, uint64_t *ret_address)
{
	struct vs_region region = {.size = size, .kind = managed ? VS_REGION_MANAGED : VS_REGION_PINNED};
	void *memory;

	/* Without MAP_POPULATE: a real card pins the pages, here they cost host memory only once touched. */
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	region.device = device;
	region.address = (uint64_t)(uintptr_t)memory;
	return add_mapped(memory, &region, ret_address);
}

int vs_books_host_free(uint64_t address, bool managed)
{
	return drop(address, managed ? VS_REGION_MANAGED : VS_REGION_PINNED, CU_INVALID_VALUE);
}

int vs_books_host_register(int device, uint64_t address, uint64_t size)
{
	struct vs_region region = {.address = address, .size = size, .kind = VS_REGION_REGISTERED, .device = device};
	size_t next;
	int r = CU_ALREADY_REGISTERED;

	if (!address || !size || address + size < address)
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&vs_books.lock);
	next = above(address);
	if (!vs_region_find(address) &&
	    (next == vs_books.region_count || vs_books.regions[next].address >= address + size))
		r = vs_region_add(&region);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_books_host_unregister(uint64_t address)
{
	return drop(address, VS_REGION_REGISTERED, CU_NOT_REGISTERED);
}

int vs_books_addresses(int device, uint64_t size, enum vs_region_kind kind, uint64_t *ret_address)
{
	struct vs_region region = {.size = size, .kind = kind, .device = device};
	void *memory = vs_map_guarded(size);

	if (!memory)
		return CU_OUT_OF_MEMORY;
	region.address = (uint64_t)(uintptr_t)memory;
	return add_mapped(memory, &region, ret_address);
}

int vs_books_foreign_open(int device, uint64_t size, uint64_t *ret_address)
{
	return vs_books_addresses(device, size, VS_REGION_FOREIGN, ret_address);
}

int vs_books_code(int device, uint64_t size, uint64_t *ret_address)
{
	return vs_books_addresses(device, size, VS_REGION_CODE, ret_address);
}

int vs_books_external(int device, uint64_t size, uint64_t *ret_address)
{
	return vs_books_addresses(device, size, VS_REGION_EXTERNAL, ret_address);
}

void vs_regions_reset(int device)
{
	for (size_t i = vs_books.region_count; i--;) {
		struct vs_region *region = &vs_books.regions[i];

		if (region->device != device || vs_owned(region->address))
			continue;
		switch (region->kind) {
		case VS_REGION_PINNED:
		case VS_REGION_MANAGED:
		case VS_REGION_REGISTERED:
		case VS_REGION_FOREIGN:
			vs_region_discard(region);
			break;
		default:
			break;
		}
	}
}

int vs_books_foreign_close(uint64_t address)
{
	return drop(address, VS_REGION_FOREIGN, CU_INVALID_VALUE);
}
