/* SPDX-License-Identifier: MIT
 *
 * A block with its verdict.
 */
#ifndef VS_TAG_BLOCK_H
#define VS_TAG_BLOCK_H

#include "tag/site.h"
#include "tag/tag.h"
#include <stdbool.h>
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
	/* What came between its allocation and its free, or the end of the trace. */
	uint32_t forwards, backwards;
	enum vs_phase phase_freed; /* in which it was freed, or the trace ended */
	enum vs_context freed_by;  /* the activity that freed it; EMPTY: no stack says it */
	const char *why;           /* static: what in its life decided */
	bool by_history;           /* unsettled: earlier blocks of the same stack decided, `why` is theirs */
	int16_t device;
};

#endif
