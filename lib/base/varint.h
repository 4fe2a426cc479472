/* SPDX-License-Identifier: MIT
 *
 * Variable-length integers: seven bits a byte, least significant first, the
 * high bit set on all but the last byte (LEB128). Small numbers take one byte.
 * Signed numbers are folded by zigzag (0, -1, 1, -2, ... to 0, 1, 2, 3, ...).
 */
#ifndef VS_BASE_VARINT_H
#define VS_BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VS_VARINT_MAX = 10 }; /* bytes that 64 bits take at most */

static inline uint64_t vs_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t vs_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Store `value` at `at`, where VS_VARINT_MAX bytes must be free; returns the end. */
static inline uint8_t *vs_varint_put(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

/* A reading position in untrusted bytes. Once something did not fit, `bad` stays set and every further read gives 0,
 * so that a decoder can check once, at its end. */
struct vs_cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static inline uint64_t vs_cursor_fail(struct vs_cursor *cursor)
{
	cursor->bad = true;
	cursor->at = cursor->end;
	return 0;
}

static inline uint64_t vs_cursor_varint(struct vs_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		if (shift == 63 && byte > 1)
			break; /* more than 64 bits */
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return vs_cursor_fail(cursor);
}

static inline int64_t vs_cursor_zigzag(struct vs_cursor *cursor)
{
	return vs_unzigzag(vs_cursor_varint(cursor));
}

/* A number that must not exceed `max`. */
static inline uint64_t vs_cursor_limited(struct vs_cursor *cursor, uint64_t max)
{
	uint64_t value = vs_cursor_varint(cursor);

	return value <= max ? value : vs_cursor_fail(cursor);
}

static inline size_t vs_cursor_left(const struct vs_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* The next `size` bytes, or NULL. */
static inline const uint8_t *vs_cursor_bytes(struct vs_cursor *cursor, uint64_t size)
{
	const uint8_t *bytes = cursor->at;

	if (cursor->bad || size > vs_cursor_left(cursor)) {
		vs_cursor_fail(cursor);
		return NULL;
	}
	cursor->at += size;
	return bytes;
}

#endif
