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

/* Memory for the shapes of a process: a stack of 60 frames takes 700 bytes. Later stacks go without. */
#define VS_SHAPES_SIZE (UINT64_C(16) << 20)
/* The most shapes of one stack: frames of varying size (alloca), or other ways through this library. */
#define VS_SHAPE_VARIANTS 4

struct vs_shape {
	uint32_t id;            /* of the whole stack */
	uint32_t variants;      /* made of this stack, this one included */
	struct vs_chain python; /* what belongs to it */
	/* Of `words`: return addresses, innermost first, then saved rbps. Both are filled up to a multiple of
	 * VS_SHAPE_TURN by repeating the last one. */
	uint16_t returns, saved;
	uint32_t span; /* bytes from the innermost frame's record to the end of the outermost slot */
	/* What is to be there: an address; a saved rbp as its distance from the record. Then `returns` + `saved`
	 * uint16_t: where, in words from the record. */
	uint64_t words[];
};

/* As many are compared before a branch. */
#define VS_SHAPE_TURN 8

/* The shapes of a process. Any thread adds, none waits. */
struct vs_shapes {
	_Atomic(void *) memory;
	_Atomic uint64_t used;
	_Atomic(void *) by_id; /* the latest of each stack */
};

/* A wrong guess reads whatever lies there now, also what AddressSanitizer keeps free around variables. What is not
 * instrumented is not inlined into what is. */
#ifdef __SANITIZE_ADDRESS__
#define VS_SHAPE_READER static __attribute__((noinline, no_sanitize("address")))
#else
#define VS_SHAPE_READER static inline __attribute__((always_inline))
#endif

VS_SHAPE_READER bool vs_shape_words_fit(const uint64_t *words, const uint16_t *places, uint32_t count,
                                        const uint64_t *stack, uint64_t base)
{
	for (const uint64_t *end = words + count; words != end; words += VS_SHAPE_TURN, places += VS_SHAPE_TURN) {
		uint64_t changed = 0;

		/* Unrolled: nothing depends on what came before, so that the loads are all under way at once. */
#pragma GCC unroll 8
		for (int i = 0; i < VS_SHAPE_TURN; i++)
			changed |= (stack[places[i]] - base) ^ words[i];
		if (changed)
			return false;
	}
	return true;
}

/* Whether this is the stack of the function whose frame record (saved rbp, return address) is at `record`, which lies
 * on a stack that may be read up to `high`. */
static inline bool vs_shape_fits(const struct vs_shape *shape, uint64_t record, uint64_t high)
{
	const uint16_t *places = (const uint16_t *)(shape->words + shape->returns + shape->saved);
	const uint64_t *stack = (const uint64_t *)(uintptr_t)record;

	return shape->span <= high - record && vs_shape_words_fit(shape->words, places, shape->returns, stack, 0) &&
	       vs_shape_words_fit(shape->words + shape->returns, places + shape->returns, shape->saved, stack,
	                          record);
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
