/* SPDX-License-Identifier: MIT */
#include "ledger/holdings.h"

#include "base/space.h"

enum kind {
	NO_BYTES,
	LINEAR,
	WHOLE,
	USED, /* of what is held: asked for, and not taken once more */
	HELD, /* taken, and asked for by those who use it */
};

static enum kind kind_of(enum vramshim_memory memory)
{
	switch (memory) {
	case VRAMSHIM_MEMORY_DEVICE:
		return LINEAR;
	case VRAMSHIM_MEMORY_POOL:
		return USED;
	case VRAMSHIM_MEMORY_HELD:
		return HELD;
	case VRAMSHIM_MEMORY_GRAPHS:
	case VRAMSHIM_MEMORY_ARRAY:    /* its layout is the driver's secret, and `address` a handle */
	case VRAMSHIM_MEMORY_PHYSICAL: /* a multiple of the page by CUDA's own rule */
		return WHOLE;
	default:
		return NO_BYTES;
	}
}

/* The pages that a range covers in part: none, one or two. *ret_whole: bytes of those it covers wholly. */
static unsigned partial_pages(uint64_t begin, uint64_t size, uint64_t pages[2], uint64_t *ret_whole)
{
	uint64_t end = size < UINT64_MAX - begin - VS_GRANULE ? begin + size : UINT64_MAX - VS_GRANULE; /* damage */
	uint64_t first = begin / VS_GRANULE, last = end / VS_GRANULE;
	uint64_t whole_from = begin % VS_GRANULE ? first + 1 : first;
	unsigned count = 0;

	if (begin % VS_GRANULE)
		pages[count++] = first;
	if (end % VS_GRANULE && (!count || last != first))
		pages[count++] = last;
	*ret_whole = last > whole_from ? (last - whole_from) * VS_GRANULE : 0;
	return count;
}

void vs_holdings_release(struct vs_holdings *holdings)
{
	vs_u64map_release(&holdings->pages);
	*holdings = (struct vs_holdings){0};
}

/* +1 because key 0 is not a key. */
static int cover(struct vs_holdings *holdings, uint64_t page)
{
	uint32_t count = 0;
	int error;

	vs_u64map_get(&holdings->pages, page + 1, &count);
	error = vs_u64map_put(&holdings->pages, page + 1, count + 1);
	if (!error && !count)
		holdings->taken += VS_GRANULE;
	return error;
}

static void uncover(struct vs_holdings *holdings, uint64_t page)
{
	uint32_t count;

	if (!vs_u64map_take(&holdings->pages, page + 1, &count))
		return;
	if (count == 1)
		holdings->taken -= VS_GRANULE;
	else
		vs_u64map_put(&holdings->pages, page + 1, count - 1); /* its place was just made */
}

int vs_holdings_add(struct vs_holdings *holdings, enum vramshim_memory memory, uint64_t address, uint64_t size,
                    uint8_t owner)
{
	enum kind kind = kind_of(memory);
	uint64_t pages[2], whole = size;
	unsigned count = 0;

	if (memory == VRAMSHIM_MEMORY_MANAGED)
		holdings->managed += size;
	if (kind == NO_BYTES || !size)
		return 0;
	if (kind == LINEAR)
		count = partial_pages(address, size, pages, &whole);
	for (unsigned i = 0; i < count; i++) {
		int error = cover(holdings, pages[i]);

		if (error) {
			if (i)
				uncover(holdings, pages[0]);
			return error;
		}
	}
	if (kind != USED)
		holdings->taken += whole;
	if (kind == HELD)
		holdings->held += whole;
	if (kind == USED)
		holdings->used += size;
	if (kind == HELD)
		return 0;
	holdings->asked += size;
	holdings->by_owner[owner] += size;
	if (kind == USED && owner == VS_OWNER_PYTORCH)
		holdings->pytorch_pool += size;
	return 0;
}

void vs_holdings_remove(struct vs_holdings *holdings, enum vramshim_memory memory, uint64_t address, uint64_t size,
                        uint8_t owner)
{
	enum kind kind = kind_of(memory);
	uint64_t pages[2], whole = size;
	unsigned count = 0;

	if (memory == VRAMSHIM_MEMORY_MANAGED)
		holdings->managed -= size;
	if (kind == NO_BYTES || !size)
		return;
	if (kind == LINEAR)
		count = partial_pages(address, size, pages, &whole);
	for (unsigned i = 0; i < count; i++)
		uncover(holdings, pages[i]);
	if (kind != USED)
		holdings->taken -= whole;
	if (kind == HELD)
		holdings->held -= whole;
	if (kind == USED)
		holdings->used -= size;
	if (kind == HELD)
		return;
	holdings->asked -= size;
	holdings->by_owner[owner] -= size;
	if (kind == USED && owner == VS_OWNER_PYTORCH)
		holdings->pytorch_pool -= size;
}
