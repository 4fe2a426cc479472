/* SPDX-License-Identifier: MIT
 *
 * Unknowns that take one of at most 32 values each, and what is known of them:
 * pairs that differ, and choices, of each of which an alternative is true.
 * Solved by propagation and bounded backtracking; the same puzzle always gets
 * the same answer, with the lowest values first.
 */
#ifndef VS_CACHING_PUZZLE_H
#define VS_CACHING_PUZZLE_H

#include "caching/map.h"

enum vs_claim_kind { VS_CLAIM_IN, VS_CLAIM_SAME, VS_CLAIM_DIFFERENT };

struct vs_claim {
	enum vs_claim_kind kind;
	uint32_t a;
	uint32_t b; /* VS_CLAIM_IN: a set of values; else an unknown */
};

struct vs_span {
	size_t first, count;
};

struct vs_puzzle {        /* all zero is empty */
	uint32_t *values; /* of each unknown: the set of those it may still have */
	size_t count;
	struct vs_pair {
		uint32_t a, b;
	} * pairs; /* that differ */
	size_t pair_count, pair_capacity;
	struct vs_map known_pairs;
	struct vs_claim *claims;
	size_t claim_count, claim_capacity;
	struct vs_span *alternatives; /* of claims, all of which are true together */
	size_t alternative_count, alternative_capacity;
	struct vs_span *choices; /* of alternatives */
	size_t choice_count, choice_capacity;
};

static inline bool vs_puzzle_is_known(const struct vs_puzzle *puzzle, uint32_t unknown)
{
	return !(puzzle->values[unknown] & (puzzle->values[unknown] - 1));
}

/* Each may have any of `values`. -ENOMEM. */
int vs_puzzle_open(struct vs_puzzle *puzzle, size_t count, uint32_t values);
void vs_puzzle_done(struct vs_puzzle *puzzle);
/* -ENOMEM. */
int vs_puzzle_differ(struct vs_puzzle *puzzle, uint32_t a, uint32_t b);
/* Begin a choice; begin an alternative of it; claim something in that. -ENOMEM. */
int vs_puzzle_choice(struct vs_puzzle *puzzle);
int vs_puzzle_alternative(struct vs_puzzle *puzzle);
int vs_puzzle_claim(struct vs_puzzle *puzzle, enum vs_claim_kind kind, uint32_t a, uint32_t b);
/* End the choice: alternatives that cannot be true as it stands are dropped, and a choice without any tells nothing.
 */
void vs_puzzle_settle(struct vs_puzzle *puzzle);

/* Leave one value each. -ENOENT: there is no answer; -EDQUOT: none was found in so many steps; -ENOMEM. */
int vs_puzzle_solve(struct vs_puzzle *puzzle, uint64_t steps);

#endif
