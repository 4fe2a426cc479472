/* SPDX-License-Identifier: MIT
 *
 * The staging buffer of PyTorch's reductions over rows (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig()): a
 * column sum of a tall matrix is split over many blocks, and each leaves its partial sums in memory from the caching
 * allocator. A bias's or a norm's gradient can take tens of MiB this way.
 */
#include "model/ops.h"

enum {
	MAX_THREADS = 512,
	WARP = 32,
	MIN_VALUES = 16, /* a thread */
	MAX_VALUES = 256,
	PARTIAL = 4, /* bytes: sums are kept in fp32 */
};

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static uint64_t last_power(uint64_t n)
{
	uint64_t p = 1;

	while (p * 2 <= n)
		p *= 2;
	return p;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t vs_reduce_workspace(const struct vs_ops *o, uint64_t rows, uint64_t cols)
{
	uint64_t vector = 4, threads, width, height, values, grid, target, blocks;

	if (rows < 2 || !cols || !o->multiprocessors)
		return 0;
	while (cols % vector)
		vector /= 2; /* loads are vectors of 4, 2 or 1 columns */
	threads = MAX_THREADS / vector;
	width = least(least(last_power(div_up(cols, vector)), threads), WARP);
	height = least(least(last_power(rows), threads), threads / width);
	width = least(least(last_power(div_up(cols, vector)), threads), threads / height);
	values = rows;
	if (values < height * MIN_VALUES && values < MAX_VALUES)
		return 0; /* each warp has its own columns: no second stage */
	values = div_up(rows, height);
	grid = div_up(cols / vector, width);
	target = (uint64_t)o->multiprocessors * (o->threads_per_sm / (width * height));
	if (values < MAX_VALUES || grid > target)
		return 0;
	blocks = least(div_up(target, grid), div_up(values, MIN_VALUES));
	if (blocks < div_up(values, MAX_VALUES))
		blocks = div_up(values, MAX_VALUES);
	return blocks > 1 ? PARTIAL * cols * blocks * width * vector : 0;
}
