/* SPDX-License-Identifier: MIT
 *
 * A block with its verdict.
 */
#ifndef VS_TAG_BLOCK_H
#define VS_TAG_BLOCK_H

#include "tag/tag.h"
#include <stdint.h>

struct vs_block {
	uint64_t address, size;
	uint64_t allocated_at, freed_at; /* event sequences; freed_at 0: never freed */
	uint32_t stack;
	uint32_t step;       /* in which it was allocated */
	enum vs_phase phase; /* ... */
	enum vs_tag tag;
	enum vs_detail detail;
	uint16_t rule; /* which call-stack rule spoke (tag/rules.h); 0: lifetime alone */
	int16_t device;
};

#endif
