/* SPDX-License-Identifier: MIT
 *
 * From a few small recorded runs of one job to a larger one: the same program allocates the same blocks in the same
 * order, and the size of each is a simple function of batch and sequence. Every block is carried over by itself and
 * the run is played again with the new sizes, so that the peak may move to another instant.
 */
#ifndef VS_MODEL_EXTRAPOLATE_H
#define VS_MODEL_EXTRAPOLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a block grows. */
enum vs_growth {
	VS_GROWTH_FIXED,
	VS_GROWTH_TOKENS,   /* batch x sequence */
	VS_GROWTH_SCORES,   /* batch x sequence^2 */
	VS_GROWTH_SEQUENCE, /* sequence: masks' rows, position tables */
	VS_GROWTH_SQUARE,   /* sequence^2: masks */
	VS_GROWTH_BATCH,
	VS_GROWTH_COUNT,
};

struct vs_series_event {
	uint64_t key;      /* an allocation: the same place in the program has the same key in every run */
	uint64_t size;     /* bytes; 0: a free */
	size_t freed;      /* a free: the index of its allocation among the events */
	uint32_t category; /* the caller's; an allocation of the largest run passes it on to the answer */
};

#define VS_CATEGORIES_MAX 16
#define VS_SERIES_MAX     16

struct vs_series {
	uint64_t batch, seq;
	const struct vs_series_event *events;
	size_t count;
};

struct vs_extrapolation {
	uint64_t peak;     /* bytes allocated */
	uint64_t measured; /* peak of the largest run, from its own events */
	size_t peak_event; /* of the largest run: after it the predicted peak holds */
	/* What is live there, by category and by how it grows. */
	uint64_t live[VS_CATEGORIES_MAX][VS_GROWTH_COUNT];
	uint64_t unsure;   /* bytes of it whose growth the runs do not settle */
	uint64_t residual; /* bytes by which the blocks' functions miss the runs, scaled to the answer */
	double matched;    /* share of the largest run's allocations found in all the others */
};

/* -ENODATA: fewer than two runs, or they do not differ in what the answer needs (ret_why says it in words). -ESRCH:
 * the runs are not the same program. -ENOMEM, -ERANGE. */
int vs_extrapolate(const struct vs_series *runs, size_t count, uint64_t batch, uint64_t seq,
                   struct vs_extrapolation *ret, const char **ret_why);

const char *vs_growth_name(enum vs_growth growth);

#endif
