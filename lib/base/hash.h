/* SPDX-License-Identifier: MIT
 *
 * 64-bit hashing for tables in memory. Not for storage (values may change
 * between versions) and not against an adversary.
 */
#ifndef VS_BASE_HASH_H
#define VS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Both halves of the 128-bit product, folded: every input bit reaches every output bit. */
static inline uint64_t vs_hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Mix one word. A bijection (the finaliser of MurmurHash3 with the constants of splitmix64), so distinct words stay
 * distinct. */
static inline uint64_t vs_hash_word(uint64_t word)
{
	word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
	return word ^ (word >> 31);
}

/* Hash `size` bytes; no alignment is needed. Different seeds give independent hashes. */
uint64_t vs_hash(const void *data, size_t size, uint64_t seed);

#endif
