/* SPDX-License-Identifier: MIT
 *
 * The bytes of CUDA arrays, by their format and extent as cuda.h and driver_types.h number them. What the card lays
 * out for one is the driver's secret; this is what its elements need.
 */
#ifndef VS_BASE_TEXELS_H
#define VS_BASE_TEXELS_H

#include <stdint.h>

/* CUDA_ARRAY3D_* and cudaArray*: the flags that matter here. */
#define VS_TEXELS_LAYERED  0x01u
#define VS_TEXELS_CUBEMAP  0x04u
#define VS_TEXELS_SPARSE   0x40u /* memory is mapped into it later, as with ... */
#define VS_TEXELS_DEFERRED 0x80u

struct vs_texels {
	uint64_t width, height, depth; /* elements; 0 height or depth: there is none. Depth may count layers */
	uint32_t flags;                /* VS_TEXELS_* among others */
	uint32_t levels;               /* of a mipmap; 0 and 1 are the same */
	uint32_t bits;                 /* of an element, or of a block of 4 by 4 where they are compressed */
	uint32_t block;                /* 4 where they are, else 1 */
};

/* CUarray_format with a number of channels; cudaChannelFormatDesc. `bits` 0 for a format that is not known. */
void vs_texels_driver_format(struct vs_texels *texels, int format, unsigned int channels);
void vs_texels_runtime_format(struct vs_texels *texels, const int bits[4], int kind);

/* All levels and layers. 0 where nothing is allocated at once; UINT64_MAX where no card could hold it. */
uint64_t vs_texels_bytes(const struct vs_texels *texels);

#endif
