/* SPDX-License-Identifier: MIT
 *
 * A small hash map from 64-bit keys to 32-bit values: open addressing, linear
 * probing, deletion by backward shift (no tombstones, so a map that churns for
 * hours stays as fast as a fresh one). Key 0 is not a key. Header only: the
 * look-ups are the inner loop of every analysis.
 */
#ifndef VS_BASE_U64MAP_H
#define VS_BASE_U64MAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct vs_u64slot {
	uint64_t key;
	uint32_t value;
};

struct vs_u64map { /* all zero is an empty map */
	struct vs_u64slot *slots;
	size_t size; /* a power of two, or 0 */
	size_t used;
};

static inline size_t vs_u64map_home(const struct vs_u64map *map, uint64_t key)
{
	/* Fibonacci hashing (2^64 / golden ratio), then the well-mixed upper half: addresses are multiples of 512. */
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (map->size - 1);
}

static inline bool vs_u64map_get(const struct vs_u64map *map, uint64_t key, uint32_t *ret_value)
{
	if (!map->size || !key)
		return false;
	for (size_t i = vs_u64map_home(map, key);; i = (i + 1) & (map->size - 1)) {
		if (map->slots[i].key == key) {
			*ret_value = map->slots[i].value;
			return true;
		}
		if (!map->slots[i].key)
			return false;
	}
}

static inline void vs_u64map_place(struct vs_u64map *map, uint64_t key, uint32_t value)
{
	size_t i = vs_u64map_home(map, key);

	while (map->slots[i].key && map->slots[i].key != key)
		i = (i + 1) & (map->size - 1);
	if (!map->slots[i].key)
		map->used++;
	map->slots[i] = (struct vs_u64slot){key, value};
}

/* Insert or replace. -ENOMEM, or -EINVAL for key 0. */
static inline int vs_u64map_put(struct vs_u64map *map, uint64_t key, uint32_t value)
{
	if (!key)
		return -EINVAL;
	if (map->used * 4 >= map->size * 3) {
		struct vs_u64map bigger = {.size = map->size ? map->size * 2 : 64};

		if (bigger.size > UINT32_MAX) /* home() gives 32 bits */
			return -ENOMEM;
		bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
		if (!bigger.slots)
			return -ENOMEM;
		for (size_t i = 0; i < map->size; i++)
			if (map->slots[i].key)
				vs_u64map_place(&bigger, map->slots[i].key, map->slots[i].value);
		free(map->slots);
		*map = bigger;
	}
	vs_u64map_place(map, key, value);
	return 0;
}

/* Remove, and give what was there. */
static inline bool vs_u64map_take(struct vs_u64map *map, uint64_t key, uint32_t *ret_value)
{
	size_t mask = map->size - 1, hole;

	if (!map->size || !key)
		return false;
	for (hole = vs_u64map_home(map, key); map->slots[hole].key != key; hole = (hole + 1) & mask)
		if (!map->slots[hole].key)
			return false;
	*ret_value = map->slots[hole].value;
	map->used--;
	for (size_t i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
		size_t home = vs_u64map_home(map, map->slots[i].key);

		/* An entry may fill the hole when its home is not cyclically within (hole, i]. */
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole].key = 0;
	return true;
}

static inline void vs_u64map_release(struct vs_u64map *map)
{
	free(map->slots);
	*map = (struct vs_u64map){0};
}

#endif
