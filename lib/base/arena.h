/* SPDX-License-Identifier: MIT
 *
 * Memory for use inside a job: from mmap, never from the job's heap, and never
 * given back. For state that lives as long as the process.
 */
#ifndef VS_BASE_ARENA_H
#define VS_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. The caller serialises its use. */
struct vs_arena {
	uint8_t *at;
	size_t left;
	size_t mapped; /* bytes mapped in all */
};

/* `size` zeroed bytes, aligned to 64 (a cache line, so that objects of two threads never share one); NULL when memory
 * is out or `size` is 0. errno is preserved. */
void *vs_arena_take(struct vs_arena *arena, size_t size);

#endif
