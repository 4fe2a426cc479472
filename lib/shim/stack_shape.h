/* SPDX-License-Identifier: MIT
 *
 * A job does the same over and over, so what a thread's next stack will be can be guessed, and a guess is checked
 * faster than a stack is walked: the return addresses lie where they lay, counted from the innermost frame. If each
 * is there, and each saved rbp that the walk depends on, the stack is the guessed one: what a walk meets at each step
 * is determined by these alone.
 */
#ifndef VS_SHIM_STACK_SHAPE_H
#define VS_SHIM_STACK_SHAPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/native_stack.h"

/* Memory for the shapes of a process: a stack of 60 frames takes 550 bytes. Later stacks go without. */
#define VS_SHAPES_SIZE (UINT64_C(16) << 20)
/* The most shapes of one stack: frames of varying size (alloca), or other ways through this library. */
#define VS_SHAPE_VARIANTS 4

struct vs_shape {
	uint32_t id;            /* of the whole stack */
	uint32_t variants;      /* made of this stack, this one included */
	struct vs_chain python; /* what belongs to it */
	uint32_t count, saved_count;
	uint64_t span; /* bytes from the innermost frame's record to the end of the outermost slot */
	/* `count` return addresses, innermost first: the address in the upper 48 bits, below it the distance of its
	 * slot from the one before (from the record), in words. Then `saved_count` of struct vs_shape_saved. */
	uint64_t frames[];
};

#define VS_SHAPE_STEP_BITS 16

struct vs_shape_saved {
	uint64_t slot, value; /* distances */
};

/* The shapes of a process. Any thread adds, none waits. */
struct vs_shapes {
	_Atomic(void *) memory;
	_Atomic uint64_t used;
	_Atomic(void *) by_id; /* the latest of each stack */
};

/* Whether this is the stack of the function whose frame record (saved rbp, return address) is at `record`, which lies
 * on a stack that may be read up to `high`. */
static inline bool vs_shape_fits(const struct vs_shape *shape, uint64_t record, uint64_t high)
{
	const struct vs_shape_saved *saved = (const void *)(shape->frames + shape->count);
	const uint64_t *slot = (const uint64_t *)(uintptr_t)record;

	if (shape->span > high - record)
		return false;
	for (uint32_t i = 0; i < shape->count; i++) {
		uint64_t frame = shape->frames[i];

		slot += frame & ((1 << VS_SHAPE_STEP_BITS) - 1);
		if (*slot != frame >> VS_SHAPE_STEP_BITS)
			return false;
	}
	for (uint32_t i = 0; i < shape->saved_count; i++)
		if (*(const uint64_t *)(uintptr_t)(record + saved[i].slot) - record != saved[i].value)
			return false;
	return true;
}

/* Have it at hand for a comparison to come; accepts NULL. The first lines: the processor sees by itself that it goes
 * on. */
static inline void vs_shape_prefetch(const struct vs_shape *shape)
{
	for (unsigned int line = 0; shape && line < 4; line++)
		__builtin_prefetch((const char *)shape + line * 64);
}

/* The latest shape of a stack, or NULL. */
struct vs_shape *vs_shape_of(struct vs_shapes *shapes, uint32_t id);
/* Keep the shape of what vs_native_walk() has just found for `record`. NULL: not by rules, or no room. */
struct vs_shape *vs_shape_add(struct vs_shapes *shapes, const struct vs_native *native, uint64_t record, uint32_t id,
                              struct vs_chain python);

#endif
