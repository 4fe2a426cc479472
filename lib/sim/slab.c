/* SPDX-License-Identifier: MIT */
#include "sim/slab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/space.h"

static bool is_taken(const struct vs_slab *slab, size_t unit)
{
	return slab->taken[unit / 64] >> (unit % 64) & 1;
}

static void mark(struct vs_slab *slab, size_t unit, size_t units, bool taken)
{
	for (size_t i = unit; i < unit + units; i++) {
		uint64_t bit = UINT64_C(1) << (i % 64);

		if (taken)
			slab->taken[i / 64] |= bit;
		else
			slab->taken[i / 64] &= ~bit;
	}
}

static size_t first_fit(const struct vs_slab *slab, size_t units)
{
	size_t run = 0;

	for (size_t unit = 0; unit < VS_SLAB_UNITS; unit++) {
		run = is_taken(slab, unit) ? 0 : run + 1;
		if (run == units)
			return unit + 1 - units;
	}
	return VS_SLAB_UNITS;
}

int vs_slabs_take(struct vs_slabs *slabs, uint64_t size, uint64_t *ret_address)
{
	size_t units = (size + VS_SLAB_UNIT - 1) / VS_SLAB_UNIT;

	for (size_t i = 0; i < slabs->count; i++) {
		struct vs_slab *slab = slabs->slabs[i];
		size_t unit;

		if (VS_SLAB_UNITS - slab->used < units)
			continue;
		unit = first_fit(slab, units);
		if (unit == VS_SLAB_UNITS)
			continue;
		mark(slab, unit, units, true);
		slab->length[unit] = (uint16_t)units;
		slab->used += (uint16_t)units;
		*ret_address = slab->address + unit * VS_SLAB_UNIT;
		return 0;
	}
	return -ENOENT;
}

int vs_slabs_add(struct vs_slabs *slabs, uint64_t address)
{
	struct vs_slab *slab;
	size_t at = 0;

	if (slabs->count == slabs->capacity) {
		size_t grown = slabs->capacity ? slabs->capacity * 2 : 8;
		struct vs_slab **fresh = realloc(slabs->slabs, grown * sizeof(*fresh));

		if (!fresh)
			return -ENOMEM;
		slabs->slabs = fresh;
		slabs->capacity = grown;
	}
	slab = calloc(1, sizeof(*slab));
	if (!slab)
		return -ENOMEM;
	slab->address = address;
	while (at < slabs->count && slabs->slabs[at]->address < address)
		at++;
	memmove(&slabs->slabs[at + 1], &slabs->slabs[at], (slabs->count - at) * sizeof(slab));
	slabs->slabs[at] = slab;
	slabs->count++;
	return 0;
}

static size_t slab_at(const struct vs_slabs *slabs, uint64_t address)
{
	size_t low = 0, high = slabs->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address < slabs->slabs[middle]->address)
			high = middle;
		else if (address >= slabs->slabs[middle]->address + VS_GRANULE)
			low = middle + 1;
		else
			return middle;
	}
	return slabs->count;
}

int vs_slabs_give(struct vs_slabs *slabs, uint64_t address, uint64_t *ret_granule)
{
	size_t at = slab_at(slabs, address), unit;
	struct vs_slab *slab;

	if (at == slabs->count)
		return -ENOENT;
	slab = slabs->slabs[at];
	unit = (address - slab->address) / VS_SLAB_UNIT;
	if (address % VS_SLAB_UNIT || !slab->length[unit])
		return -EINVAL;
	mark(slab, unit, slab->length[unit], false);
	slab->used -= slab->length[unit];
	slab->length[unit] = 0;
	if (slab->used)
		return 0;
	*ret_granule = slab->address;
	free(slab);
	slabs->count--;
	memmove(&slabs->slabs[at], &slabs->slabs[at + 1], (slabs->count - at) * sizeof(slab));
	return 1;
}

int vs_slabs_find(const struct vs_slabs *slabs, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	size_t at = slab_at(slabs, address), unit;
	const struct vs_slab *slab;

	if (at == slabs->count)
		return -ENOENT;
	slab = slabs->slabs[at];
	unit = (address - slab->address) / VS_SLAB_UNIT;
	if (!is_taken(slab, unit))
		return -ENOENT;
	while (!slab->length[unit])
		unit--;
	*ret_start = slab->address + unit * VS_SLAB_UNIT;
	*ret_size = (uint64_t)slab->length[unit] * VS_SLAB_UNIT;
	return 0;
}

void vs_slabs_done(struct vs_slabs *slabs)
{
	for (size_t i = 0; i < slabs->count; i++)
		free(slabs->slabs[i]);
	free(slabs->slabs);
	memset(slabs, 0, sizeof(*slabs));
}
