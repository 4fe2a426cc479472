/* SPDX-License-Identifier: MIT */
#include "sim/books.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/books_private.h"

struct vs_books vs_books = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Address space per byte of memory. Holes that fit nothing would else end a
 * job before its memory does; the driver's range is far larger as well.
 */
enum { SPACE_FACTOR = 4 };

void *vs_map_guarded(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void vs_books_open(int device, uint64_t total, uint64_t context_bytes)
{
	pthread_mutex_lock(&vs_books.lock);
	vs_books.cards[device].total = total;
	vs_books.cards[device].context_bytes = context_bytes;
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_books_close(void)
{
	pthread_mutex_lock(&vs_books.lock);
	vs_pools_forget(-1);
	vs_graphs_forget(-1);
	vs_arrays_forget(-1);
	vs_owned_forget();
	for (int i = 0; i < VS_DEVICES; i++) {
		struct vs_card *card = &vs_books.cards[i];

		if (card->spaced)
			munmap(card->range, card->range_size);
		vs_space_done(&card->space);
		vs_slabs_done(&card->slabs);
		memset(card, 0, sizeof(*card));
	}
	while (vs_books.region_count)
		vs_region_discard(&vs_books.regions[vs_books.region_count - 1]);
	vs_physical_forget();
	vs_books.others = NULL;
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_books_hold(void)
{
	pthread_mutex_lock(&vs_books.lock);
}

void vs_books_let(void)
{
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_books_others(uint64_t (*others)(int device, uint64_t used))
{
	pthread_mutex_lock(&vs_books.lock);
	vs_books.others = others;
	pthread_mutex_unlock(&vs_books.lock);
}

static uint64_t others(int device, uint64_t used)
{
	return vs_books.others ? vs_books.others(device, used) : 0;
}

int vs_books_charge(int device, uint64_t size)
{
	struct vs_card *card = &vs_books.cards[device];
	uint64_t theirs;

	if (size > card->total || card->used > card->total - size)
		return CU_OUT_OF_MEMORY;
	/* Told first, asked then: of two processes that want the last bytes, not both get them. */
	theirs = others(device, card->used + size);
	if (theirs > card->total - card->used - size) {
		others(device, card->used);
		return CU_OUT_OF_MEMORY;
	}
	card->used += size;
	if (card->used > card->high)
		card->high = card->used;
	return CU_OK;
}

void vs_books_discharge(int device, uint64_t size)
{
	vs_books.cards[device].used -= size;
	others(device, vs_books.cards[device].used);
}

int vs_books_context(int device, bool present)
{
	uint64_t size;
	int r = CU_OK;

	pthread_mutex_lock(&vs_books.lock);
	size = vs_books.cards[device].context_bytes;
	if (present)
		r = vs_books_charge(device, size);
	else
		vs_books_discharge(device, size);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static int give_linear(int device, uint64_t address)
{
	uint64_t granule;
	int given = vs_slabs_give(&vs_books.cards[device].slabs, address, &granule);

	if (given == 1)
		return vs_books_give(device, granule);
	if (given == 0)
		return CU_OK;
	return given == -ENOENT ? vs_books_give(device, address) : CU_INVALID_VALUE;
}

static void drop(int device, uint64_t address)
{
	if (!vs_owned(address))
		give_linear(device, address);
}

void vs_books_reset(int device)
{
	struct vs_card *card = &vs_books.cards[device];

	pthread_mutex_lock(&vs_books.lock);
	vs_pools_forget(device);
	vs_graphs_forget(device);
	vs_arrays_forget(device);
	/* Giving moves what comes after: from the end. */
	for (size_t i = card->slabs.count; i--;)
		for (size_t unit = VS_SLAB_UNITS; unit-- && i < card->slabs.count;)
			if (card->slabs.slabs[i]->length[unit])
				drop(device, card->slabs.slabs[i]->address + unit * VS_SLAB_UNIT);
	for (size_t i = card->space.count; i--;)
		for (size_t j = i < card->space.count ? card->space.chunks[i].count : 0;
		     j-- && i < card->space.count;)
			if (j < card->space.chunks[i].count && card->space.chunks[i].pieces[j].used)
				drop(device, card->space.chunks[i].pieces[j].address);
	vs_regions_reset(device);
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_books_info(int device, uint64_t *ret_free, uint64_t *ret_total)
{
	struct vs_card *card = &vs_books.cards[device];
	uint64_t used;

	pthread_mutex_lock(&vs_books.lock);
	used = card->used + others(device, card->used);
	*ret_free = used < card->total ? card->total - used : 0;
	*ret_total = card->total;
	pthread_mutex_unlock(&vs_books.lock);
}

uint64_t vs_books_used(int device)
{
	uint64_t used;

	pthread_mutex_lock(&vs_books.lock);
	used = vs_books.cards[device].used;
	pthread_mutex_unlock(&vs_books.lock);
	return used;
}

uint64_t vs_books_high(int device)
{
	uint64_t high;

	pthread_mutex_lock(&vs_books.lock);
	high = vs_books.cards[device].high;
	pthread_mutex_unlock(&vs_books.lock);
	return high;
}

void vs_books_lower(int device)
{
	pthread_mutex_lock(&vs_books.lock);
	vs_books.cards[device].high = vs_books.cards[device].used;
	pthread_mutex_unlock(&vs_books.lock);
}

/* The card's address range is taken on first use: a process that never allocates shows none. */
static int open_space(struct vs_card *card)
{
	uint64_t size = card->total * SPACE_FACTOR + 2 * VS_CHUNK;
	void *range;

	if (card->spaced)
		return CU_OK;
	range = vs_map_guarded(size);
	if (!range)
		return CU_OUT_OF_MEMORY;
	/* Huge address ranges would swell a core dump of the job. */
	madvise(range, size, MADV_DONTDUMP);
	vs_space_init(&card->space, (uint64_t)(uintptr_t)range, size);
	card->range = range;
	card->range_size = size;
	card->spaced = true;
	return CU_OK;
}

int vs_books_take(int device, uint64_t size, uint64_t *ret_address)
{
	uint64_t rounded;
	int r;

	if (size > vs_books.cards[device].total)
		return CU_OUT_OF_MEMORY;
	rounded = (size + VS_GRANULE - 1) / VS_GRANULE * VS_GRANULE;
	r = open_space(&vs_books.cards[device]);
	if (r == CU_OK)
		r = vs_books_charge(device, rounded);
	if (r != CU_OK)
		return r;
	if (vs_space_take(&vs_books.cards[device].space, rounded, ret_address) < 0) {
		vs_books_discharge(device, rounded);
		return CU_OUT_OF_MEMORY;
	}
	return CU_OK;
}

int vs_books_give(int device, uint64_t address)
{
	uint64_t size;

	if (vs_space_give(&vs_books.cards[device].space, address, &size) < 0)
		return CU_INVALID_VALUE;
	vs_books_discharge(device, size);
	return CU_OK;
}

static int take_small(int device, uint64_t size, uint64_t *ret_address)
{
	struct vs_slabs *slabs = &vs_books.cards[device].slabs;
	uint64_t granule;
	int r;

	if (vs_slabs_take(slabs, size, ret_address) == 0)
		return CU_OK;
	r = vs_books_take(device, VS_GRANULE, &granule);
	if (r != CU_OK)
		return r;
	if (vs_slabs_add(slabs, granule) < 0 || vs_slabs_take(slabs, size, ret_address) < 0) {
		vs_books_give(device, granule);
		return CU_OUT_OF_MEMORY;
	}
	return CU_OK;
}

static int take(int device, uint64_t size, uint64_t *ret_address)
{
	return size <= VS_SLAB_MAX ? take_small(device, size, ret_address) : vs_books_take(device, size, ret_address);
}

int vs_books_malloc(int device, uint64_t size, uint64_t *ret_address)
{
	int r;

	pthread_mutex_lock(&vs_books.lock);
	r = take(device, size, ret_address);
	if (r == CU_OUT_OF_MEMORY && vs_pools_squeeze(device))
		r = take(device, size, ret_address);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static int card_of(uint64_t address)
{
	for (int i = 0; i < VS_DEVICES; i++) {
		const struct vs_card *card = &vs_books.cards[i];

		if (card->spaced && address >= card->space.start && address < card->space.end)
			return i;
	}
	return -1;
}

int vs_books_free(uint64_t address)
{
	int device, r;

	pthread_mutex_lock(&vs_books.lock);
	device = card_of(address);
	if (device >= 0)
		r = vs_pools_give(address);
	else
		r = vs_graphs_give(address);
	if (r == CU_NOT_FOUND)
		r = device >= 0 ? give_linear(device, address) : vs_region_give(address, VS_REGION_EXTERNAL);
	if (r == CU_OK)
		vs_disown(address);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static int find_device(int device, uint64_t address, struct vs_allocation *ret_allocation)
{
	const struct vs_card *card = &vs_books.cards[device];
	struct vs_allocation found = {.type = VS_TYPE_DEVICE, .device = device};
	const struct vs_piece *piece = vs_space_find(&card->space, address);
	struct vs_pool *pool;

	if (!piece)
		return CU_INVALID_VALUE;
	if (vs_pools_own(address)) {
		if (!vs_pools_find(address, &found.address, &found.size, &pool))
			return CU_INVALID_VALUE;
		*ret_allocation = found;
		return CU_OK;
	}
	found.address = piece->address;
	found.size = piece->size;
	if (piece->size == VS_GRANULE)
		vs_slabs_find(&card->slabs, address, &found.address, &found.size);
	*ret_allocation = found;
	return CU_OK;
}

static int find_region(uint64_t address, struct vs_allocation *ret_allocation)
{
	static const enum vs_memory_type types[] = {
	    [VS_REGION_PINNED] = VS_TYPE_HOST,     [VS_REGION_MANAGED] = VS_TYPE_MANAGED,
	    [VS_REGION_REGISTERED] = VS_TYPE_HOST, [VS_REGION_FOREIGN] = VS_TYPE_DEVICE,
	    [VS_REGION_EXTERNAL] = VS_TYPE_DEVICE, [VS_REGION_CODE] = VS_TYPE_DEVICE,     [VS_REGION_GRAPH] = VS_TYPE_DEVICE,
	    [VS_REGION_RESERVED] = VS_TYPE_DEVICE,
	};
	const struct vs_region *region = vs_region_find(address);
	struct vs_allocation found;

	if (!region)
		return CU_INVALID_VALUE;
	found = (struct vs_allocation){types[region->kind], region->device, region->address, region->size,
	                               region->kind == VS_REGION_REGISTERED};
	if (region->kind == VS_REGION_RESERVED) {
		const struct vs_mapping *mapping = vs_mapping_find(region, address);

		if (!mapping)
			return CU_INVALID_VALUE;
		found.address = mapping->address;
		found.size = mapping->size;
		found.device = vs_physical_device(mapping->handle);
	}
	*ret_allocation = found;
	return CU_OK;
}

int vs_books_find(uint64_t address, struct vs_allocation *ret_allocation)
{
	int device, r;

	pthread_mutex_lock(&vs_books.lock);
	device = card_of(address);
	r = device >= 0 ? find_device(device, address, ret_allocation) : find_region(address, ret_allocation);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}
