/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "shim/python_codes.h"
#include "shim/stack_guess.h"

struct vs_guess *vs_guess_of(const struct vs_guesses *guesses, uint32_t id)
{
	struct vs_guess *guess = guesses->known[id % VS_GUESSES_KNOWN];

	return guess && guess->id == id ? guess : NULL;
}

void vs_guesses_forget(struct vs_guesses *guesses)
{
	memset(guesses->next, 0, sizeof(guesses->next));
	memset(guesses->known, 0, sizeof(guesses->known));
	guesses->latest = 0;
	guesses->piece = 0;
	guesses->used = 0;
}

void vs_guesses_release(struct vs_guesses *guesses)
{
	for (uint32_t i = 0; i < VS_GUESS_PIECES && guesses->pieces[i]; i++)
		munmap(guesses->pieces[i], VS_GUESS_PIECE);
}

/* The oldest guess of a stack that has its number of them, taken away from the others; NULL: it may have more. */
static struct vs_guess *oldest(struct vs_guess *latest)
{
	struct vs_guess *guess = latest;

	/* Fewer than that where there was no memory for the latest ones. */
	if (!latest || latest->variants < VS_GUESS_VARIANTS || !latest->older)
		return NULL;
	while (guess->older->older)
		guess = guess->older;
	latest = guess->older;
	guess->older = NULL;
	return latest;
}

static struct vs_guess *room(struct vs_guesses *guesses, uint64_t size)
{
	uint8_t *piece;

	if (guesses->used + size > VS_GUESS_PIECE) {
		guesses->piece++;
		guesses->used = 0;
	}
	if (guesses->piece == VS_GUESS_PIECES)
		vs_guesses_forget(guesses);
	piece = guesses->pieces[guesses->piece];
	if (!piece) {
		piece = mmap(NULL, VS_GUESS_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (piece == MAP_FAILED)
			return NULL;
		guesses->pieces[guesses->piece] = piece;
	}
	guesses->used += size;
	return (struct vs_guess *)(piece + guesses->used - size);
}

/* The words of a guess under way. */
struct row {
	uint64_t *words;
	uint16_t *places;
	uint32_t count;
	const uint64_t *record;
};

static void put(struct row *row, uint64_t word, uint64_t slot)
{
	row->words[row->count] = word;
	row->places[row->count++] = (uint16_t)((const uint64_t *)(uintptr_t)slot - row->record);
}

static uint64_t filled_up(uint64_t count, uint64_t turn)
{
	return (count + turn - 1) / turn * turn;
}

static void copy(struct vs_guess *guess, const struct vs_python_stack *python)
{
	for (uint32_t i = 0; i < guess->python_count; i++)
		guess->entries[i] = *vs_python_entry_at(python, guess->python_count - 1u - i);
}

void vs_guess_move(struct vs_guess *guess, const struct vs_python_stack *python, uint64_t epoch)
{
	if (guess->python_count != python->entry_count)
		return;
	copy(guess, python);
	guess->epoch = vs_python_epoch_noted(epoch);
}

struct vs_guess *vs_guess_add(struct vs_guesses *guesses, const struct vs_native *native, const uint64_t *record,
                              const struct vs_python_stack *python, uint32_t id, uint64_t epoch)
{
	struct vs_guess **known = &guesses->known[id % VS_GUESSES_KNOWN], *latest = vs_guess_of(guesses, id), *guess;
	const uint64_t *end, *top = python->top;
	bool innermost_rbp;
	uint64_t words, size;
	struct row row;

	if (!id || !native->depth || python->truncated)
		return NULL;
	end = (const uint64_t *)(uintptr_t)native->sps[0];
	innermost_rbp = native->rbp_matters[native->depth - 1];
	words = filled_up(native->depth + native->saved_count + innermost_rbp, VS_GUESS_TURN);
	size = sizeof(*guess) + python->entry_count * sizeof(guess->entries[0]) +
	       words * (sizeof(*row.words) + sizeof(*row.places));
	size = filled_up(size, 64); /* a cache line */
	if (end - record > UINT16_MAX || size > VS_GUESS_PIECE)
		return NULL;
	guess = oldest(latest);
	if (!guess || guess->size < size) {
		guess = room(guesses, size);
		latest = vs_guess_of(guesses, id); /* it may have been forgotten */
	} else {
		size = guess->size;
	}
	if (!guess)
		return NULL;
	*guess = (struct vs_guess){.record = record,
	                           .id = id,
	                           .words = (uint16_t)words,
	                           .top = top > record && top < end ? (uint16_t)(top - record) : 0,
	                           .older = latest,
	                           .python = python->chain,
	                           .python_count = (uint16_t)python->entry_count,
	                           .variants = 1,
	                           .size = (uint32_t)size,
	                           .epoch = vs_python_epoch_noted(epoch)};
	if (latest)
		guess->variants = latest->variants < VS_GUESS_VARIANTS ? latest->variants + 1 : VS_GUESS_VARIANTS;
	copy(guess, python);
	row.words = (uint64_t *)(guess->entries + guess->python_count);
	row.places = (uint16_t *)(row.words + words);
	row.count = 0;
	row.record = record;
	for (uint32_t i = native->depth; i-- > 0;)
		put(&row, native->pcs[i], native->sps[i] - 8);
	for (uint32_t i = 0; i < native->saved_count; i++)
		put(&row, native->saved[i].value, native->saved[i].slot);
	if (innermost_rbp)
		put(&row, native->bps[native->depth - 1], (uint64_t)(uintptr_t)record);
	for (uint32_t last = row.count - 1; row.count < words;)
		put(&row, row.words[last], (uint64_t)(uintptr_t)(record + row.places[last]));
	*known = guess;
	return guess;
}
