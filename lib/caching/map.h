/* SPDX-License-Identifier: MIT
 *
 * A hash map from addresses to numbers, open addressing with linear probing.
 * Key 0 is kept apart by storing keys plus one.
 */
#ifndef VS_CACHING_MAP_H
#define VS_CACHING_MAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct vs_map_slot {
	uint64_t key; /* plus 1; 0: free */
	uint64_t value;
};

struct vs_map {
	struct vs_map_slot *slots;
	size_t count, capacity; /* a power of two, at most 3/4 full */
};

static inline size_t vs_map_home(const struct vs_map *map, uint64_t key)
{
	/* Fibonacci hashing (Knuth, volume 3, 6.4): addresses differ in their middle bits. */
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->capacity - 1);
}

static inline struct vs_map_slot *vs_map_find(const struct vs_map *map, uint64_t address)
{
	uint64_t key = address + 1;

	if (!map->capacity)
		return NULL;
	for (size_t i = vs_map_home(map, key);; i = (i + 1) & (map->capacity - 1)) {
		if (!map->slots[i].key)
			return NULL;
		if (map->slots[i].key == key)
			return &map->slots[i];
	}
}

static inline bool vs_map_get(const struct vs_map *map, uint64_t address, uint64_t *ret_value)
{
	const struct vs_map_slot *slot = vs_map_find(map, address);

	if (slot)
		*ret_value = slot->value;
	return slot;
}

static inline void vs_map_place(struct vs_map *map, uint64_t key, uint64_t value)
{
	size_t i = vs_map_home(map, key);

	while (map->slots[i].key)
		i = (i + 1) & (map->capacity - 1);
	map->slots[i] = (struct vs_map_slot){.key = key, .value = value};
}

static inline int vs_map_reserve(struct vs_map *map)
{
	struct vs_map grown = {.count = map->count, .capacity = map->capacity ? map->capacity * 2 : 64};

	if (map->count + 1 <= map->capacity / 4 * 3)
		return 0;
	grown.slots = calloc(grown.capacity, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->slots[i].key)
			vs_map_place(&grown, map->slots[i].key, map->slots[i].value);
	}
	free(map->slots);
	*map = grown;
	return 0;
}

/* Set or replace. */
static inline int vs_map_set(struct vs_map *map, uint64_t address, uint64_t value)
{
	struct vs_map_slot *slot = vs_map_find(map, address);
	int r;

	if (slot) {
		slot->value = value;
		return 0;
	}
	r = vs_map_reserve(map);
	if (r < 0)
		return r;
	vs_map_place(map, address + 1, value);
	map->count++;
	return 0;
}

/* Remove and hand back; false if absent. */
static inline bool vs_map_take(struct vs_map *map, uint64_t address, uint64_t *ret_value)
{
	struct vs_map_slot *slot = vs_map_find(map, address);
	size_t hole, i;

	if (!slot)
		return false;
	*ret_value = slot->value;
	/* Close the gap: move back whatever may live in it. */
	hole = (size_t)(slot - map->slots);
	for (i = (hole + 1) & (map->capacity - 1); map->slots[i].key; i = (i + 1) & (map->capacity - 1)) {
		size_t home = vs_map_home(map, map->slots[i].key);

		if (((i - home) & (map->capacity - 1)) >= ((i - hole) & (map->capacity - 1))) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].key = 0;
	map->count--;
	return true;
}

static inline void vs_map_done(struct vs_map *map)
{
	free(map->slots);
	*map = (struct vs_map){0};
}

#endif
