/* SPDX-License-Identifier: MIT
 *
 * A map from 128-bit fingerprints to 32-bit ids that many threads read without a lock while one adds.
 *
 * Keys are hashes of what they stand for and are compared alone. Two different stacks have the same one with a
 * probability of 2^-64, so any two of 2^20 with 2^-25: once in thirty million runs that fill the table.
 */
#ifndef VS_SHIM_IDMAP_H
#define VS_SHIM_IDMAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The most distinct stacks of a process: with 24-byte slots at most half full, 48 MiB. */
#define VS_MAX_STACKS (1u << 20)

struct vs_key {
	uint64_t low, high;
};

struct vs_idmap_table;

struct vs_idmap {
	_Atomic(struct vs_idmap_table *) table;
	uint32_t count; /* entries; the adder's */
	uint32_t limit;
};

void vs_idmap_init(struct vs_idmap *map, uint32_t limit);
/* The id of a key; 0 if it has none. Any thread, any time. */
uint32_t vs_idmap_find(const struct vs_idmap *map, struct vs_key key);
/* Add a key that is absent; `id` is not 0. One caller at a time. -ENOSPC at the limit; -ENOMEM, which
 * makes the present size the limit. */
int vs_idmap_add(struct vs_idmap *map, struct vs_key key, uint32_t id);
/* Whether vs_idmap_add() would be refused for the limit. */
static inline int vs_idmap_full(const struct vs_idmap *map)
{
	return map->count >= map->limit;
}

/* A key under way: the sum of products of NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, UMAC, 1999), with keys
 * that step through the 64-bit numbers by the golden ratio. No product waits for another. */
struct vs_hash {
	unsigned __int128 sum;
	uint64_t step;
};

#define VS_HASH_STEP 0x9e3779b97f4a7c15 /* 2^64 / golden ratio */
#define VS_HASH_TURN 0x243f6a8885a308d3 /* fraction of pi */

static inline struct vs_hash vs_hash_start(uint64_t seed)
{
	return (struct vs_hash){seed, VS_HASH_STEP};
}

/* Take in two words. */
static inline void vs_hash_add(struct vs_hash *hash, uint64_t a, uint64_t b)
{
	hash->sum += (unsigned __int128)(a + hash->step) * (b + (hash->step ^ VS_HASH_TURN));
	hash->step += VS_HASH_STEP;
}

static inline void vs_hash_words(struct vs_hash *hash, const uint64_t *words, size_t count)
{
	size_t i = 0;

	for (; i + 2 <= count; i += 2)
		vs_hash_add(hash, words[i], words[i + 1]);
	if (i < count)
		vs_hash_add(hash, words[i], 0);
}

/* The sum's low bits know only the words' low bits: spread them. */
static inline struct vs_key vs_hash_end(const struct vs_hash *hash)
{
	uint64_t low = (uint64_t)hash->sum ^ hash->step, high = (uint64_t)(hash->sum >> 64);
	unsigned __int128 spread = (unsigned __int128)(low ^ VS_HASH_TURN) * VS_HASH_STEP;

	return (struct vs_key){(uint64_t)spread ^ (uint64_t)(spread >> 64) ^ high, low + high * VS_HASH_STEP};
}

/* The hash of a row that grows at one end: each prefix has one, and the next element makes another of it. A
 * polynomial modulo 2^128 at a fixed odd number. */
struct vs_chain {
	uint64_t low, high;
};

#define VS_CHAIN_FACTOR 0xc2b2ae3d27d4eb4f /* the second prime of xxHash64 (Collet, 2012): odd, bits well spread */

static inline struct vs_chain vs_chain_start(uint64_t seed)
{
	return (struct vs_chain){seed, VS_HASH_TURN};
}

static inline struct vs_chain vs_chain_add(struct vs_chain chain, uint64_t word)
{
	unsigned __int128 sum = ((unsigned __int128)chain.high << 64 | chain.low) + word;

	sum = (unsigned __int128)(uint64_t)sum * VS_CHAIN_FACTOR +
	      ((unsigned __int128)((uint64_t)(sum >> 64) * VS_CHAIN_FACTOR) << 64);
	return (struct vs_chain){(uint64_t)sum, (uint64_t)(sum >> 64)};
}

struct vs_key vs_key_words(uint64_t seed, const uint64_t *words, size_t count);
struct vs_key vs_key_text(const char *text, size_t size);

#endif
