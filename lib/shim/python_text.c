/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "shim/python_text.h"

static uint32_t character(const void *characters, uint64_t index, unsigned int kind)
{
	const char *at = (const char *)characters + index * kind;
	uint32_t wide;
	uint16_t half;

	switch (kind) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		memcpy(&half, at, sizeof(half));
		return half;
	default:
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
}

static size_t encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

size_t vs_python_text(const void *characters, uint64_t length, unsigned int kind, char *buffer, size_t size)
{
	size_t used = 0;

	for (uint64_t i = 0; i < length; i++) {
		uint32_t c = character(characters, i, kind);
		char encoded[4];
		size_t bytes;

		if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			c = '?';
		bytes = encode(c, encoded);
		if (bytes > size - used)
			break;
		memcpy(buffer + used, encoded, bytes);
		used += bytes;
	}
	return used;
}
