/* SPDX-License-Identifier: MIT
 *
 * Backtracking over the unknown with the fewest values in proportion to the
 * conflicts it was in (dom/wdeg: Boussemart et al., ECAI 2004), each try
 * followed by propagation: a value that one of a pair has for certain leaves
 * the other; a choice with one alternative left is that alternative.
 */
#include "caching/puzzle.h"

#include "base/buffer.h"

#include <string.h>

/* Unknowns that are looked at, for whether they are the next to decide, in the time of a step. */
#define LOOKS_A_STEP 8

int vs_puzzle_open(struct vs_puzzle *puzzle, size_t count, uint32_t values)
{
	*puzzle = (struct vs_puzzle){.count = count};
	puzzle->values = calloc(count + 1, sizeof(*puzzle->values));
	if (!puzzle->values)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		puzzle->values[i] = values;
	return 0;
}

void vs_puzzle_done(struct vs_puzzle *puzzle)
{
	free(puzzle->values);
	free(puzzle->pairs);
	free(puzzle->claims);
	free(puzzle->alternatives);
	free(puzzle->choices);
	vs_map_done(&puzzle->known_pairs);
	*puzzle = (struct vs_puzzle){0};
}

int vs_puzzle_differ(struct vs_puzzle *puzzle, uint32_t a, uint32_t b)
{
	uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;

	if (vs_map_find(&puzzle->known_pairs, key))
		return 0;
	if (vs_map_set(&puzzle->known_pairs, key, 0) < 0 ||
	    vs_grow(&puzzle->pairs, &puzzle->pair_capacity, puzzle->pair_count + 1, sizeof(*puzzle->pairs)) < 0)
		return -ENOMEM;
	puzzle->pairs[puzzle->pair_count++] = (struct vs_pair){a, b};
	return 0;
}

int vs_puzzle_choice(struct vs_puzzle *puzzle)
{
	if (vs_grow(&puzzle->choices, &puzzle->choice_capacity, puzzle->choice_count + 1, sizeof(*puzzle->choices)) <
	    0)
		return -ENOMEM;
	puzzle->choices[puzzle->choice_count++] = (struct vs_span){.first = puzzle->alternative_count};
	return 0;
}

int vs_puzzle_alternative(struct vs_puzzle *puzzle)
{
	if (vs_grow(&puzzle->alternatives, &puzzle->alternative_capacity, puzzle->alternative_count + 1,
	            sizeof(*puzzle->alternatives)) < 0)
		return -ENOMEM;
	puzzle->alternatives[puzzle->alternative_count++] = (struct vs_span){.first = puzzle->claim_count};
	puzzle->choices[puzzle->choice_count - 1].count++;
	return 0;
}

int vs_puzzle_claim(struct vs_puzzle *puzzle, enum vs_claim_kind kind, uint32_t a, uint32_t b)
{
	if (vs_grow(&puzzle->claims, &puzzle->claim_capacity, puzzle->claim_count + 1, sizeof(*puzzle->claims)) < 0)
		return -ENOMEM;
	puzzle->claims[puzzle->claim_count++] = (struct vs_claim){kind, a, b};
	puzzle->alternatives[puzzle->alternative_count - 1].count++;
	return 0;
}

static bool possible(const struct vs_puzzle *puzzle, const struct vs_claim *claim)
{
	const uint32_t *values = puzzle->values;

	switch (claim->kind) {
	case VS_CLAIM_IN:
		return values[claim->a] & claim->b;
	case VS_CLAIM_SAME:
		return values[claim->a] & values[claim->b];
	default:
		return !vs_puzzle_is_known(puzzle, claim->a) || values[claim->a] != values[claim->b];
	}
}

/* How many of its claims are possible, up to the first that is not. */
static size_t count_possible(const struct vs_puzzle *puzzle, const struct vs_span *alternative)
{
	size_t i = 0;

	while (i < alternative->count && possible(puzzle, &puzzle->claims[alternative->first + i]))
		i++;
	return i;
}

void vs_puzzle_settle(struct vs_puzzle *puzzle)
{
	struct vs_span *choice = &puzzle->choices[puzzle->choice_count - 1];
	size_t left = 0;

	for (size_t i = 0; i < choice->count; i++) {
		struct vs_span alternative = puzzle->alternatives[choice->first + i];

		if (count_possible(puzzle, &alternative) == alternative.count)
			puzzle->alternatives[choice->first + left++] = alternative;
	}
	choice->count = left;
	puzzle->alternative_count = choice->first + left;
	if (!left)
		puzzle->choice_count--;
}

/* Lists of numbers, one for each unknown, in one array. */
struct lists {
	size_t *first; /* one more than there are unknowns */
	uint32_t *items;
};

struct decision {
	uint32_t unknown, untried;
	size_t undo; /* the trail's length before it */
};

struct solver {
	struct vs_puzzle *puzzle;
	struct lists others;  /* whom each differs from */
	struct lists choices; /* where each is mentioned */
	uint32_t *weights;
	uint32_t *queue; /* unknowns whose values changed: a ring */
	size_t queue_first, queue_count;
	unsigned char *queued;
	struct change {
		uint32_t unknown, values;
	} * trail; /* what there was before each change */
	size_t trail_count, trail_capacity;
	struct decision *decisions;
	size_t depth;
	uint64_t steps;
};

static void lists_done(struct lists *lists)
{
	free(lists->first);
	free(lists->items);
}

static int lists_open(struct lists *lists, size_t count, size_t items)
{
	lists->first = calloc(count + 2, sizeof(*lists->first));
	lists->items = calloc(items + 1, sizeof(*lists->items));
	return lists->first && lists->items ? 0 : -ENOMEM;
}

/* Counting sort: first lists_count() for every item, then lists_sum(), then lists_put() for every item again, which
 * moves first[i] on to the list's end: the beginning of list i is first[i - 1] then, and so lists are kept one up. */
static void lists_count(struct lists *lists, uint32_t unknown)
{
	lists->first[unknown + 1]++;
}

static void lists_sum(struct lists *lists, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i <= count; i++) {
		size_t here = lists->first[i + 1];

		lists->first[i + 1] = sum;
		sum += here;
	}
}

static void lists_put(struct lists *lists, uint32_t unknown, uint32_t item)
{
	lists->items[lists->first[unknown + 1]++] = item;
}

static int index_pairs(struct solver *s)
{
	const struct vs_puzzle *puzzle = s->puzzle;

	if (lists_open(&s->others, puzzle->count, 2 * puzzle->pair_count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < puzzle->pair_count; i++) {
		lists_count(&s->others, puzzle->pairs[i].a);
		lists_count(&s->others, puzzle->pairs[i].b);
	}
	lists_sum(&s->others, puzzle->count);
	for (size_t i = 0; i < puzzle->pair_count; i++) {
		lists_put(&s->others, puzzle->pairs[i].a, puzzle->pairs[i].b);
		lists_put(&s->others, puzzle->pairs[i].b, puzzle->pairs[i].a);
	}
	return 0;
}

/* Each claim of a choice, to `use` with the choice's index. */
static void each_mention(struct solver *s, void (*use)(struct lists *, uint32_t unknown, uint32_t choice))
{
	const struct vs_puzzle *puzzle = s->puzzle;

	for (uint32_t i = 0; i < puzzle->choice_count; i++) {
		for (size_t j = 0; j < puzzle->choices[i].count; j++) {
			const struct vs_span *alternative = &puzzle->alternatives[puzzle->choices[i].first + j];

			for (size_t k = 0; k < alternative->count; k++) {
				const struct vs_claim *claim = &puzzle->claims[alternative->first + k];

				use(&s->choices, claim->a, i);
				if (claim->kind != VS_CLAIM_IN)
					use(&s->choices, claim->b, i);
			}
		}
	}
}

static void count_mention(struct lists *lists, uint32_t unknown, uint32_t choice)
{
	(void)choice;
	lists_count(lists, unknown);
}

/* Mentions of a choice come in a row: each once. */
static void put_mention(struct lists *lists, uint32_t unknown, uint32_t choice)
{
	lists_put(lists, unknown, choice);
}

static int open_solver(struct solver *s)
{
	size_t count = s->puzzle->count;

	s->weights = calloc(count + 1, sizeof(*s->weights));
	s->queue = calloc(count + 1, sizeof(*s->queue));
	s->queued = calloc(count + 1, 1);
	s->decisions = calloc(count + 1, sizeof(*s->decisions));
	if (!s->weights || !s->queue || !s->queued || !s->decisions || index_pairs(s) < 0 ||
	    lists_open(&s->choices, count, 2 * s->puzzle->claim_count) < 0)
		return -ENOMEM;
	each_mention(s, count_mention);
	lists_sum(&s->choices, count);
	each_mention(s, put_mention);
	return 0;
}

static void close_solver(struct solver *s)
{
	lists_done(&s->others);
	lists_done(&s->choices);
	free(s->weights);
	free(s->queue);
	free(s->queued);
	free(s->trail);
	free(s->decisions);
}

static void enqueue(struct solver *s, uint32_t unknown)
{
	if (s->queued[unknown])
		return;
	s->queued[unknown] = 1;
	s->queue[(s->queue_first + s->queue_count++) % s->puzzle->count] = unknown;
}

static void spend(struct solver *s, size_t steps)
{
	s->steps -= steps < s->steps ? steps : s->steps;
}

/* -ENOENT: nothing is left for it. */
static int restrict_to(struct solver *s, uint32_t unknown, uint32_t values)
{
	uint32_t now = s->puzzle->values[unknown], left = now & values;

	if (left == now)
		return 0;
	if (!left) {
		s->weights[unknown]++;
		return -ENOENT;
	}
	if (vs_grow(&s->trail, &s->trail_capacity, s->trail_count + 1, sizeof(*s->trail)) < 0)
		return -ENOMEM;
	s->trail[s->trail_count++] = (struct change){unknown, now};
	s->puzzle->values[unknown] = left;
	enqueue(s, unknown);
	return 0;
}

static void undo(struct solver *s, size_t length)
{
	while (s->trail_count > length) {
		const struct change *change = &s->trail[--s->trail_count];

		s->puzzle->values[change->unknown] = change->values;
	}
}

static int enforce(struct solver *s, const struct vs_claim *claim)
{
	const uint32_t *values = s->puzzle->values;
	int r;

	switch (claim->kind) {
	case VS_CLAIM_IN:
		return restrict_to(s, claim->a, claim->b);
	case VS_CLAIM_SAME:
		r = restrict_to(s, claim->a, values[claim->b]);
		return r < 0 ? r : restrict_to(s, claim->b, values[claim->a]);
	default:
		r = vs_puzzle_is_known(s->puzzle, claim->a) ? restrict_to(s, claim->b, ~values[claim->a]) : 0;
		if (r == 0 && vs_puzzle_is_known(s->puzzle, claim->b))
			r = restrict_to(s, claim->a, ~values[claim->b]);
		return r;
	}
}

static int look_at_choice(struct solver *s, uint32_t index)
{
	const struct vs_puzzle *puzzle = s->puzzle;
	const struct vs_span *choice = &puzzle->choices[index], *only = NULL;
	size_t left = 0;

	for (size_t i = 0; i < choice->count && left < 2; i++) {
		const struct vs_span *alternative = &puzzle->alternatives[choice->first + i];
		size_t k = count_possible(puzzle, alternative);

		spend(s, k);
		if (k == alternative->count) {
			only = alternative;
			left++;
		}
	}
	if (!left)
		return -ENOENT;
	for (size_t k = 0; left == 1 && k < only->count; k++) {
		int r = enforce(s, &puzzle->claims[only->first + k]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int propagate_one(struct solver *s, uint32_t unknown)
{
	int r = 0;

	if (vs_puzzle_is_known(s->puzzle, unknown)) {
		spend(s, s->others.first[unknown + 1] - s->others.first[unknown]);
		for (size_t i = s->others.first[unknown]; r == 0 && i < s->others.first[unknown + 1]; i++)
			r = restrict_to(s, s->others.items[i], ~s->puzzle->values[unknown]);
	}
	for (size_t i = s->choices.first[unknown]; r == 0 && i < s->choices.first[unknown + 1]; i++) {
		spend(s, 1);
		if (i == s->choices.first[unknown] || s->choices.items[i] != s->choices.items[i - 1])
			r = look_at_choice(s, s->choices.items[i]);
	}
	if (r == -ENOENT)
		s->weights[unknown]++;
	return r;
}

static int propagate(struct solver *s)
{
	int r = 0;

	while (s->queue_count) {
		uint32_t unknown = s->queue[s->queue_first];

		s->queue_first = (s->queue_first + 1) % s->puzzle->count;
		s->queue_count--;
		s->queued[unknown] = 0;
		spend(s, 1);
		/* After a conflict the rest is only emptied. */
		if (r == 0)
			r = propagate_one(s, unknown);
	}
	return r;
}

/* Of whom nothing is known have their lowest value, whatever the others have. */
static void decide_free(struct solver *s)
{
	uint32_t *values = s->puzzle->values;

	for (size_t i = 0; i < s->puzzle->count; i++) {
		if (s->others.first[i] == s->others.first[i + 1] && s->choices.first[i] == s->choices.first[i + 1])
			values[i] &= -values[i];
	}
}

/* The unknown to decide next; SIZE_MAX: all are. */
static size_t most_urgent(struct solver *s)
{
	size_t best = SIZE_MAX;
	double least = 0;

	spend(s, s->puzzle->count / LOOKS_A_STEP);
	for (size_t i = 0; i < s->puzzle->count; i++) {
		double urgency;

		if (vs_puzzle_is_known(s->puzzle, (uint32_t)i))
			continue;
		urgency = __builtin_popcount(s->puzzle->values[i]) / (1.0 + s->weights[i]);
		if (best == SIZE_MAX || urgency < least) {
			best = i;
			least = urgency;
		}
	}
	return best;
}

/* Try the next value of the last decision that has one. */
static int advance(struct solver *s)
{
	int r = -ENOENT;

	while (r == -ENOENT && s->depth) {
		struct decision *last = &s->decisions[s->depth - 1];
		uint32_t value = last->untried & -last->untried;

		undo(s, last->undo);
		if (!value) {
			s->depth--;
			continue;
		}
		if (!s->steps)
			return -EDQUOT;
		last->untried &= ~value;
		r = restrict_to(s, last->unknown, value);
		if (r == 0)
			r = propagate(s);
	}
	return r;
}

static int search(struct solver *s)
{
	int r = 0;

	for (uint32_t i = 0; i < s->puzzle->count; i++) {
		if (!s->puzzle->values[i])
			return -ENOENT;
		enqueue(s, i);
	}
	decide_free(s);
	for (uint32_t i = 0; r == 0 && i < s->puzzle->choice_count; i++)
		r = look_at_choice(s, i);
	if (r == 0)
		r = propagate(s);
	while (r == 0) {
		size_t next = most_urgent(s);

		if (next == SIZE_MAX)
			return 0;
		s->decisions[s->depth++] = (struct decision){
		    .unknown = (uint32_t)next, .untried = s->puzzle->values[next], .undo = s->trail_count};
		r = advance(s);
	}
	return r;
}

int vs_puzzle_solve(struct vs_puzzle *puzzle, uint64_t steps)
{
	struct solver s = {.puzzle = puzzle, .steps = steps};
	int r = open_solver(&s);

	if (r == 0)
		r = search(&s);
	close_solver(&s);
	return r;
}
