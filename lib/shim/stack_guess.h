/* SPDX-License-Identifier: MIT
 *
 * A job does the same over and over, so what a thread's next stack will be can be guessed, and a guess is checked
 * faster than a stack is walked: the return addresses lie where they lay. If each is there, and each saved rbp that
 * the walk depends on, the native stack is the guessed one: what a walk meets at each step is determined by these
 * alone. The Python stack is the guessed one if each frame is where it was and at the instruction where it was.
 */
#ifndef VS_SHIM_STACK_GUESS_H
#define VS_SHIM_STACK_GUESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/native_stack.h"
#include "shim/python_stack.h"

/* Memory for the guesses of a thread, piece by piece: where the kernel promises no more than it has
 * (vm.overcommit_memory = 2), what is mapped is the job's loss, touched or not. A stack of 60 native frames and 20 of
 * Python takes 1.3 KB, and a training step has some thousand. When they fill it all, all are forgotten. */
#define VS_GUESS_PIECE  (UINT64_C(256) << 10)
#define VS_GUESS_PIECES 64
/* By a stack's id: its latest guess. */
#define VS_GUESSES_KNOWN 4096
/* A training step has some thousand places where a stack may follow the latest ones. */
#define VS_GUESS_PLACES_BITS 12
/* The most guesses of one stack: frames of varying size (alloca), or other ways through this library. */
#define VS_GUESS_VARIANTS 4
/* As many words are compared before a branch. */
#define VS_GUESS_TURN 8

struct vs_guess {
	const uint64_t
	    *record;    /* the frame record of the innermost frame: the same stack elsewhere is another guess */
	uint32_t id;    /* of the whole stack */
	uint16_t words; /* of those below; filled up to a multiple of VS_GUESS_TURN by repeating the last one */
	uint16_t top;   /* which word from `record` on refers to the innermost Python frame; 0: none */
	struct vs_guess *older; /* of the same stack */
	struct vs_chain python; /* of the Python stack */
	uint16_t python_count, variants;
	uint32_t size;  /* bytes */
	uint64_t epoch; /* in which its code objects were seen (python_codes.h) */
	/* What is to be there, return addresses and saved rbps; then `words` uint16_t: where, in words from `record`.
	 * Before them, the Python frames, outermost first. */
	_Alignas(32) struct vs_python_entry entries[]; /* two to a cache line */
};

/* One thread's; zeroed. */
struct vs_guesses {
	/* What followed the latest stacks the last time: of frees, of anything else. */
	uint64_t latest;
	struct vs_guess *next[1 << VS_GUESS_PLACES_BITS][2];

	uint8_t *pieces[VS_GUESS_PIECES];
	uint32_t piece; /* in use */
	uint64_t used;  /* bytes of it */
	struct vs_guess *known[VS_GUESSES_KNOWN];
};

/* Where the guess for the next stack is kept; NULL there: none. */
static inline struct vs_guess **vs_guess_next(struct vs_guesses *guesses, bool is_free)
{
	/* Fibonacci hashing, as everywhere. */
	return &guesses->next[guesses->latest * VS_HASH_STEP >> (64 - VS_GUESS_PLACES_BITS)][!is_free];
}

/* What the stack was, after all. */
static inline void vs_guess_was(struct vs_guesses *guesses, uint32_t id)
{
	/* The older ones move out at the top: a word of 32 bits is gone after sixteen more. */
	guesses->latest = (guesses->latest << 4) + id * 0x9e3779b1u;
}

/* A wrong guess reads whatever lies there now, also what AddressSanitizer keeps free around variables. What is not
 * instrumented is not inlined into what is. */
#ifdef __SANITIZE_ADDRESS__
#define VS_GUESS_READER static __attribute__((noinline, no_sanitize("address")))
#else
#define VS_GUESS_READER static inline __attribute__((always_inline))
#endif

/* Whether the native stack of the function whose frame record (saved rbp, return address) is at `record` is the
 * guessed one. What is read lies where the thread's stack was when the guess was made, from the same place on. */
VS_GUESS_READER bool vs_guess_fits(const struct vs_guess *guess, const uint64_t *record)
{
	const uint64_t *words = (const uint64_t *)(guess->entries + guess->python_count), *end = words + guess->words;
	const uint16_t *places = (const uint16_t *)end;

	if (guess->record != record)
		return false;
	for (; words != end; words += VS_GUESS_TURN, places += VS_GUESS_TURN) {
		uint64_t changed = 0;

		/* Unrolled: nothing depends on what came before, so that the loads are all under way at once. */
#pragma GCC unroll 8
		for (int i = 0; i < VS_GUESS_TURN; i++)
			changed |= record[places[i]] ^ words[i];
		if (changed)
			return false;
	}
	return true;
}

/* Have what may come next at hand: until then the job runs through far more memory than the caches hold. The first
 * lines: the processor sees by itself that it goes on. */
static inline void vs_guess_prefetch(struct vs_guesses *guesses)
{
	const char *const *next = (const char *const *)vs_guess_next(guesses, true);

	/* Nothing is there at NULL, which is no fault. */
	for (unsigned int line = 0; line < 4; line++) {
		__builtin_prefetch(next[0] + line * 64);
		__builtin_prefetch(next[1] + line * 64);
	}
}

/* The latest guess of a stack, or NULL. */
struct vs_guess *vs_guess_of(const struct vs_guesses *guesses, uint32_t id);
/* Keep what vs_native_walk() has just found for `record`, and vs_python_walk() in that epoch, as a guess. NULL: not
 * by rules, or too large. The others may be forgotten for it. */
struct vs_guess *vs_guess_add(struct vs_guesses *guesses, const struct vs_native *native, const uint64_t *record,
                              const struct vs_python_stack *python, uint32_t id, uint64_t epoch);
/* The same Python stack, its frames elsewhere: as vs_python_walk() has just found it, in that epoch. */
void vs_guess_move(struct vs_guess *guess, const struct vs_python_stack *python, uint64_t epoch);
void vs_guesses_forget(struct vs_guesses *guesses);
/* Give their memory back. */
void vs_guesses_release(struct vs_guesses *guesses);

#endif
