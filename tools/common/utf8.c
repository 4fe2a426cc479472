/* SPDX-License-Identifier: MIT */
#include "utf8.h"

#include <stddef.h>

unsigned vs_utf8_decode(const char *text, uint32_t *ret_character)
{
	const unsigned char *byte = (const unsigned char *)text;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned length = byte[0] < 0x80   ? 1
	                  : byte[0] < 0xc2 ? 0
	                  : byte[0] < 0xe0 ? 2
	                  : byte[0] < 0xf0 ? 3
	                  : byte[0] < 0xf5 ? 4
	                                   : 0;
	uint32_t character = length < 2 ? byte[0] : byte[0] & (0x7f >> length);

	for (unsigned i = 1; i < length; i++) {
		if ((byte[i] & 0xc0) != 0x80) /* the final NUL too */
			return 0;
		character = character << 6 | (byte[i] & 0x3f);
	}
	if (!length || character < least[length] || character > 0x10ffff ||
	    (character >= 0xd800 && character < 0xe000))
		return 0;
	*ret_character = character;
	return length;
}

/* Blocks of Unicode's EastAsianWidth.txt (W and F) and of its combining marks, as far as file names have them. */
static const struct {
	uint32_t first, last;
	unsigned columns;
} ranges[] = {
    {0x0300, 0x036f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},
    {0x3041, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},
    {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
};

unsigned vs_utf8_columns(uint32_t character)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && character >= ranges[i].first; i++) {
		if (character <= ranges[i].last)
			return ranges[i].columns;
	}
	return 1;
}
