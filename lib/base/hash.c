/* SPDX-License-Identifier: MIT */
#include <base/hash.h>
#include <string.h>

/* Odd numbers with half of their bits set, no pattern in them: the fractional digits of pi. */
#define PI_0 UINT64_C(0x243f6a8885a308d3)
#define PI_1 UINT64_C(0x13198a2e03707345)
#define PI_2 UINT64_C(0xa4093822299f31d1)

static uint64_t load(const unsigned char *bytes, size_t size)
{
	uint64_t word = 0;

	memcpy(&word, bytes, size);
	return word;
}

uint64_t vs_hash(const void *data, size_t size, uint64_t seed)
{
	const unsigned char *bytes = data;
	uint64_t hash = seed ^ vs_hash_fold(size ^ PI_0, PI_1);

	for (; size > 16; bytes += 16, size -= 16)
		hash = vs_hash_fold(load(bytes, 8) ^ PI_1, load(bytes + 8, 8) ^ hash);

	/* `size` is in the hash already, so zero padding cannot collide with zero bytes. */
	uint64_t first = load(bytes, size < 8 ? size : 8);
	uint64_t second = size > 8 ? load(bytes + 8, size - 8) : 0;

	return vs_hash_word(vs_hash_fold(first ^ PI_2, second ^ hash) ^ hash);
}
