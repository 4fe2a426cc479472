/* SPDX-License-Identifier: MIT */
#include "base/texels.h"

#include <stddef.h>

/* Formats from .. to, by cuda.h of CUDA 13.2: bits of an element, for each channel or all together. */
static const struct format {
	uint8_t from, to;
	uint8_t bits;
	uint8_t block;
	uint8_t each; /* `bits` are those of one channel */
} formats[] = {
    {0x01, 0x01, 8, 1, 1},   {0x02, 0x02, 16, 1, 1}, {0x03, 0x03, 32, 1, 1}, {0x08, 0x08, 8, 1, 1},
    {0x09, 0x09, 16, 1, 1},  {0x0a, 0x0a, 32, 1, 1}, {0x10, 0x10, 16, 1, 1}, {0x20, 0x20, 32, 1, 1},
    {0x50, 0x50, 32, 1, 0}, /* 10, 10, 10 and 2 bits */
    {0x51, 0x51, 16, 1, 0},  {0x52, 0x52, 32, 1, 0}, {0x53, 0x53, 12, 1, 0}, {0x54, 0x54, 24, 1, 0},
    {0x55, 0x55, 16, 1, 0},  {0x56, 0x56, 32, 1, 0}, {0x57, 0x57, 24, 1, 0}, {0x58, 0x58, 48, 1, 0},
    {0x59, 0x59, 12, 1, 0},  {0x5a, 0x5a, 24, 1, 0}, {0x5b, 0x5b, 16, 1, 0}, {0x5c, 0x5c, 32, 1, 0},
    {0x5d, 0x5d, 24, 1, 0},  {0x5e, 0x5e, 48, 1, 0}, {0x91, 0x92, 64, 4, 0}, /* BC1 */
    {0x93, 0x96, 128, 4, 0}, {0x97, 0x98, 64, 4, 0},                         /* BC4 */
    {0x99, 0x9e, 128, 4, 0}, {0x9f, 0xa1, 24, 1, 0},                         /* 4:2:0 in 16 bits */
    {0xa2, 0xa2, 16, 1, 0},  {0xa3, 0xa4, 32, 1, 0}, {0xa5, 0xa5, 16, 1, 0}, {0xa6, 0xa7, 32, 1, 0},
    {0xa8, 0xa9, 32, 1, 0},  {0xb0, 0xb0, 12, 1, 0}, /* 4:2:0 in 8 bits */
    {0xb1, 0xb1, 64, 1, 0},  {0xb2, 0xb2, 24, 1, 0}, {0xb3, 0xb3, 48, 1, 0}, {0xb4, 0xb4, 24, 1, 0},
    {0xb5, 0xb5, 48, 1, 0},  {0xc0, 0xc0, 8, 1, 0},  {0xc1, 0xc1, 16, 1, 0}, {0xc2, 0xc2, 32, 1, 0},
    {0xc3, 0xc3, 16, 1, 0},  {0xc4, 0xc4, 32, 1, 0}, {0xc5, 0xc5, 64, 1, 0}, {0xc6, 0xc6, 8, 1, 0},
    {0xc7, 0xc7, 16, 1, 0},  {0xc8, 0xc8, 32, 1, 0}, {0xc9, 0xc9, 16, 1, 0}, {0xca, 0xca, 32, 1, 0},
    {0xcb, 0xcb, 64, 1, 0},
};

void vs_texels_driver_format(struct vs_texels *texels, int format, unsigned int channels)
{
	texels->bits = 0;
	texels->block = 1;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (format < formats[i].from || format > formats[i].to)
			continue;
		texels->bits = formats[i].bits * (formats[i].each ? channels & 7 : 1);
		texels->block = formats[i].block;
	}
}

/* cudaChannelFormatKind: where the four numbers are not the bits that are stored. */
enum { KIND_NV12 = 4, KIND_BC1 = 17, KIND_BC2 = 19, KIND_BC4 = 23, KIND_BC5 = 25, KIND_BC_LAST = 30 };

void vs_texels_runtime_format(struct vs_texels *texels, const int bits[4], int kind)
{
	texels->bits = 0;
	texels->block = 1;
	if (kind >= KIND_BC1 && kind <= KIND_BC_LAST) {
		texels->block = 4;
		texels->bits = kind < KIND_BC2 || (kind >= KIND_BC4 && kind < KIND_BC5) ? 64 : 128;
	} else if (kind == KIND_NV12) {
		texels->bits = 12;
	} else {
		for (int i = 0; i < 4; i++)
			texels->bits += (uint32_t)bits[i] & 63;
	}
}

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t result;

	return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t at_least_1(uint64_t n)
{
	return n ? n : 1;
}

static uint64_t blocks(uint64_t n, uint32_t block)
{
	return n / block + (n % block != 0);
}

uint64_t vs_texels_bytes(const struct vs_texels *texels)
{
	uint64_t width = texels->width, height = at_least_1(texels->height), depth = at_least_1(texels->depth),
	         sum = 0;
	int layered = (texels->flags & (VS_TEXELS_LAYERED | VS_TEXELS_CUBEMAP)) != 0;

	if (texels->flags & (VS_TEXELS_SPARSE | VS_TEXELS_DEFERRED))
		return 0;
	for (uint32_t level = 0; level < at_least_1(texels->levels) && level < 64; level++) {
		uint64_t bits = product(product(blocks(width, texels->block), blocks(height, texels->block)),
		                        product(depth, texels->bits));

		if (bits > UINT64_MAX - 7 || __builtin_add_overflow(sum, (bits + 7) / 8, &sum))
			return UINT64_MAX;
		width = at_least_1(width / 2);
		height = at_least_1(height / 2);
		depth = layered ? depth : at_least_1(depth / 2);
	}
	return sum;
}
