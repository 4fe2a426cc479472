/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/idmap.h"

struct slot {
	uint64_t low, high;
	_Atomic uint32_t id; /* 0: free. Written last */
};

struct vs_idmap_table {
	uint64_t mask; /* slots - 1 */
	struct slot slots[];
};

/* 4096 slots: 96 KiB, what a small job needs. */
#define FIRST_SLOTS 4096

void vs_idmap_init(struct vs_idmap *map, uint32_t limit)
{
	atomic_init(&map->table, NULL);
	map->count = 0;
	map->limit = limit;
}

uint32_t vs_idmap_find(const struct vs_idmap *map, struct vs_key key)
{
	struct vs_idmap_table *table = atomic_load_explicit(&map->table, memory_order_acquire);

	if (!table)
		return 0;
	for (uint64_t i = key.low & table->mask;; i = (i + 1) & table->mask) {
		struct slot *slot = &table->slots[i];
		/* Acquire: pairs with put(), so that the key is there when the id is. */
		uint32_t id = atomic_load_explicit(&slot->id, memory_order_acquire);

		if (!id)
			return 0;
		if (slot->low == key.low && slot->high == key.high)
			return id;
	}
}

static void put(struct vs_idmap_table *table, struct vs_key key, uint32_t id)
{
	uint64_t i = key.low & table->mask;

	while (atomic_load_explicit(&table->slots[i].id, memory_order_relaxed))
		i = (i + 1) & table->mask;
	table->slots[i].low = key.low;
	table->slots[i].high = key.high;
	atomic_store_explicit(&table->slots[i].id, id, memory_order_release);
}

/* A table twice as large. The old one stays mapped for those who are reading it: half of the new one's size,
 * and so all old ones together are no larger than the last. */
static int grow(struct vs_idmap *map)
{
	struct vs_idmap_table *old = atomic_load_explicit(&map->table, memory_order_relaxed), *new;
	uint64_t slots = old ? (old->mask + 1) * 2 : FIRST_SLOTS;
	size_t size = sizeof(*new) + slots * sizeof(struct slot);

	new = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (new == MAP_FAILED)
		return -ENOMEM;
	new->mask = slots - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		uint32_t id = atomic_load_explicit(&old->slots[i].id, memory_order_relaxed);

		if (id)
			put(new, (struct vs_key){old->slots[i].low, old->slots[i].high}, id);
	}
	atomic_store_explicit(&map->table, new, memory_order_release);
	return 0;
}

int vs_idmap_add(struct vs_idmap *map, struct vs_key key, uint32_t id)
{
	struct vs_idmap_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
	uint64_t slots = table ? table->mask + 1 : 0;

	if (vs_idmap_full(map))
		return -ENOSPC;
	/* Without memory to grow, it goes on more slowly for a while; a free slot must remain, where a search ends.
	 */
	if ((uint64_t)map->count * 2 >= slots && grow(map) < 0 && (uint64_t)map->count * 8 >= slots * 7) {
		map->limit = map->count;
		return -ENOMEM;
	}
	put(atomic_load_explicit(&map->table, memory_order_relaxed), key, id);
	map->count++;
	return 0;
}

struct vs_key vs_key_words(uint64_t seed, const uint64_t *words, size_t count)
{
	struct vs_hash hash = vs_hash_start(seed);

	vs_hash_words(&hash, words, count);
	return vs_hash_end(&hash);
}

struct vs_key vs_key_text(const char *text, size_t size)
{
	struct vs_hash hash = vs_hash_start(size);

	for (size_t i = 0; i < size; i += 16) {
		uint64_t words[2] = {0};

		memcpy(words, text + i, size - i < 16 ? size - i : 16);
		vs_hash_add(&hash, words[0], words[1]);
	}
	return vs_hash_end(&hash);
}
