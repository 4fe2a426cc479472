/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management: physical handles, reservations, mappings.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/books_private.h"

/*
 * A handle is the address of one of these. A job that releases once too often
 * must get an error, not a crash: a dead handle stays in the list, with refs
 * and maps both 0, until a new one takes its place.
 */
struct physical {
	uint64_t size;
	int device; /* -1: host memory */
	uint32_t refs;
	uint32_t maps;
	struct physical *next; /* all of them, dead or alive */
};

static struct physical *physicals;
static struct physical *spare; /* where the search for a dead one starts */

static struct physical *alive(uint64_t handle)
{
	/* Handles are few (one a 20 MiB segment) and calls with them rare. */
	for (struct physical *p = physicals; p; p = p->next)
		if ((uint64_t)(uintptr_t)p == handle)
			return p->refs || p->maps ? p : NULL;
	return NULL;
}

int vs_physical_device(uint64_t handle)
{
	return ((struct physical *)(uintptr_t)handle)->device;
}

void vs_physical_forget(void)
{
	while (physicals) {
		struct physical *next = physicals->next;

		free(physicals);
		physicals = next;
	}
	spare = NULL;
}

static struct physical *fresh(void)
{
	struct physical *p;

	for (p = spare; p; p = p->next)
		if (!p->refs && !p->maps)
			break;
	if (p) {
		spare = p->next;
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (p) {
		p->next = physicals;
		physicals = p;
	}
	return p;
}

int vs_books_create(int device, uint64_t size, uint64_t *ret_handle)
{
	struct physical *p;
	int r = CU_OK;

	if (!size || size % VS_GRANULE)
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&vs_books.lock);
	if (device >= 0)
		r = vs_books_charge(device, size);
	if (r == CU_OK) {
		p = fresh();
		if (p) {
			p->size = size;
			p->device = device;
			p->refs = 1;
			*ret_handle = (uint64_t)(uintptr_t)p;
		} else {
			if (device >= 0)
				vs_books_discharge(device, size);
			r = CU_OUT_OF_MEMORY;
		}
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static void settle(struct physical *p)
{
	if (p->refs || p->maps)
		return;
	if (p->device >= 0)
		vs_books_discharge(p->device, p->size);
	spare = physicals;
}

int vs_books_release(uint64_t handle)
{
	struct physical *p;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	p = alive(handle);
	if (p && p->refs) {
		p->refs--;
		settle(p);
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_books_handle(uint64_t handle, int *ret_device, uint64_t *ret_size)
{
	struct physical *p;

	pthread_mutex_lock(&vs_books.lock);
	p = alive(handle);
	if (p) {
		*ret_device = p->device;
		*ret_size = p->size;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return p ? CU_OK : CU_INVALID_VALUE;
}

/* First mapping of the region that ends above `address`. */
static size_t mapping_at(const struct vs_region *region, uint64_t address)
{
	size_t low = 0, high = region->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (region->mappings[middle].address + region->mappings[middle].size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct vs_mapping *vs_mapping_find(const struct vs_region *region, uint64_t address)
{
	size_t at = mapping_at(region, address);

	return at < region->count && region->mappings[at].address <= address ? &region->mappings[at] : NULL;
}

static struct vs_region *reservation(uint64_t address, uint64_t size)
{
	struct vs_region *region = vs_region_find(address);

	if (!region || region->kind != VS_REGION_RESERVED || !size)
		return NULL;
	return size <= region->size - (address - region->address) ? region : NULL;
}

int vs_books_retain(uint64_t address, uint64_t *ret_handle)
{
	const struct vs_mapping *mapping;
	struct vs_region *region;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	region = reservation(address, 1);
	mapping = region ? vs_mapping_find(region, address) : NULL;
	if (mapping) {
		((struct physical *)(uintptr_t)mapping->handle)->refs++;
		*ret_handle = mapping->handle;
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_books_reserve(uint64_t size, uint64_t *ret_address)
{
	struct vs_region region = {.size = size, .kind = VS_REGION_RESERVED, .device = -1};
	uint64_t slack = size + VS_GRANULE, before;
	char *memory;
	int r;

	if (!size || size % VS_GRANULE || slack < size)
		return CU_INVALID_VALUE;
	memory = vs_map_guarded(slack);
	if (!memory)
		return CU_OUT_OF_MEMORY;
	before = -(uint64_t)(uintptr_t)memory % VS_GRANULE;
	if (before)
		munmap(memory, before);
	if (VS_GRANULE - before)
		munmap(memory + before + size, VS_GRANULE - before);
	memory += before;
	madvise(memory, size, MADV_DONTDUMP);
	region.address = (uint64_t)(uintptr_t)memory;
	pthread_mutex_lock(&vs_books.lock);
	r = vs_region_add(&region);
	pthread_mutex_unlock(&vs_books.lock);
	if (r == CU_OK)
		*ret_address = region.address;
	else
		munmap(memory, size);
	return r;
}

int vs_books_unreserve(uint64_t address, uint64_t size)
{
	struct vs_region *region;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	region = reservation(address, size);
	if (region && region->address == address && region->size == size && !region->count) {
		vs_region_discard(region);
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static int map(struct vs_region *region, const struct vs_mapping *mapping)
{
	size_t at = mapping_at(region, mapping->address);

	if (at < region->count && region->mappings[at].address < mapping->address + mapping->size)
		return CU_ALREADY_MAPPED;
	if (region->count == region->capacity) {
		size_t grown = region->capacity ? region->capacity * 2 : 64;
		struct vs_mapping *larger = realloc(region->mappings, grown * sizeof(*larger));

		if (!larger)
			return CU_OUT_OF_MEMORY;
		region->mappings = larger;
		region->capacity = grown;
	}
	memmove(&region->mappings[at + 1], &region->mappings[at], (region->count - at) * sizeof(*mapping));
	region->mappings[at] = *mapping;
	region->count++;
	return CU_OK;
}

int vs_books_map(uint64_t address, uint64_t size, uint64_t handle)
{
	struct vs_mapping mapping = {.address = address, .size = size, .handle = handle};
	struct vs_region *region;
	struct physical *p;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	region = reservation(address, size);
	p = alive(handle);
	/* The whole handle or nothing: "size must be the size of the handle" (cuMemMap). */
	if (region && p && size == p->size && address % VS_GRANULE == 0) {
		r = map(region, &mapping);
		if (r == CU_OK)
			p->maps++;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_books_unmap(uint64_t address, uint64_t size)
{
	struct vs_region *region;
	uint64_t covered = 0;
	size_t at, n = 0;

	pthread_mutex_lock(&vs_books.lock);
	region = reservation(address, size);
	at = region ? mapping_at(region, address) : 0;
	/* Whole mappings only, without a hole between them. */
	while (region && at + n < region->count && covered < size &&
	       region->mappings[at + n].address == address + covered)
		covered += region->mappings[at + n++].size;
	if (!region || covered != size) {
		pthread_mutex_unlock(&vs_books.lock);
		return CU_INVALID_VALUE;
	}
	for (size_t i = at; i < at + n; i++) {
		struct physical *p = (struct physical *)(uintptr_t)region->mappings[i].handle;

		p->maps--;
		settle(p);
	}
	region->count -= n;
	memmove(&region->mappings[at], &region->mappings[at + n], (region->count - at) * sizeof(*region->mappings));
	pthread_mutex_unlock(&vs_books.lock);
	return CU_OK;
}

int vs_books_set_access(uint64_t address, uint64_t size)
{
	struct vs_region *region;
	uint64_t end = address + size;
	size_t at;
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	region = reservation(address, size);
	for (at = region ? mapping_at(region, address) : 0; region && at < region->count; at++) {
		struct vs_mapping *mapping = &region->mappings[at];

		if (mapping->address > address)
			break;
		mapping->accessible = true;
		address = mapping->address + mapping->size;
		if (address >= end) {
			r = CU_OK;
			break;
		}
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}
