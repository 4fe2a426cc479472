/* SPDX-License-Identifier: MIT */
#include <base/arena.h>
#include <errno.h>
#include <sys/mman.h>

enum {
	CACHE_LINE = 64,      /* bytes, on every x86-64 and on most arm64 */
	MAP_STEP = 256 << 10, /* bytes mapped at a time; only touched pages cost memory */
};

static uint8_t *map(size_t size)
{
	int saved = errno;
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return mapped == MAP_FAILED ? NULL : mapped;
}

void *vs_arena_take(struct vs_arena *arena, size_t size)
{
	uint8_t *taken;

	if (!size || size > SIZE_MAX / 2)
		return NULL;
	size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	if (size > arena->left) {
		size_t step = size > MAP_STEP / 4 ? size : MAP_STEP;
		uint8_t *mapped = map(step);

		if (!mapped)
			return NULL;
		arena->mapped += step;
		if (step == size)
			return mapped; /* a large object: the current step stays in use */
		arena->at = mapped;
		arena->left = step;
	}
	taken = arena->at;
	arena->at += size;
	arena->left -= size;
	return taken;
}
