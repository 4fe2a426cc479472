/* SPDX-License-Identifier: MIT
 *
 * How big a block and a segment become for a request.
 */
#include "caching/internal.h"

static unsigned int log2_floor(uint64_t n)
{
	return 63U - (unsigned int)__builtin_clzll(n);
}

/* Classes are powers of two of MiB; below the first and above the last the nearest one applies. */
static uint64_t divisions_for(const struct vs_caching_settings *settings, uint64_t size)
{
	unsigned int log = log2_floor(size);

	if (log < 20)
		return settings->roundup_power2_divisions[0];
	if (log - 20 >= VS_CACHING_CLASSES)
		return settings->roundup_power2_divisions[VS_CACHING_CLASSES - 1];
	return settings->roundup_power2_divisions[log - 20];
}

static uint64_t next_division(uint64_t size, uint64_t divisions)
{
	uint64_t floor = UINT64_C(1) << log2_floor(size), step = floor >> log2_floor(divisions);

	if (floor == size)
		return size;
	if (!step)
		return floor << 1;
	return (size + step - 1) / step * step;
}

uint64_t vs_caching_round(const struct vs_caching_settings *settings, uint64_t size)
{
	uint64_t divisions;

	if (size < MIN_BLOCK)
		return MIN_BLOCK;
	divisions = divisions_for(settings, size);
	if (divisions > 1 && size / divisions >= MIN_BLOCK && size > MIN_BLOCK * divisions)
		return next_division(size, divisions);
	return size > UINT64_MAX - MIN_BLOCK ? size : (size + MIN_BLOCK - 1) / MIN_BLOCK * MIN_BLOCK;
}

bool vs_caching_small(uint64_t rounded)
{
	return rounded <= SMALL_SIZE;
}

uint64_t vs_caching_segment_size(const struct vs_caching_settings *settings, uint64_t rounded)
{
	if (rounded <= SMALL_SIZE)
		return SMALL_BUFFER;
	if (rounded < MIN_LARGE)
		return settings->large_segment_size;
	return rounded > UINT64_MAX - ROUND_LARGE ? rounded : (rounded + ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE;
}

void vs_caching_defaults(struct vs_caching_settings *settings, uint32_t version)
{
	*settings = (struct vs_caching_settings){
	    .max_split_size = VS_CACHING_UNLIMITED,
	    .max_non_split_rounding = LARGE_BUFFER,
	    .large_segment_size = LARGE_BUFFER,
	    .memory_fraction = 1,
	    .version = version,
	};
}
