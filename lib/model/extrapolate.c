/* SPDX-License-Identifier: MIT */
#include "model/extrapolate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far two runs may drift apart and find each other again: a staging buffer more here, a copy less there. */
#define WINDOW 256
/* Allocations in a row that have to agree before they are taken for the same place. */
#define AGREE 3
/* Blocks above 1 MiB keep up to 1 MiB that was not worth splitting off (PyTorch's kSmallSize). */
#define UNSPLIT  (1 << 20)
#define ROUNDING 512
/* Large segments are whole multiples of this (PyTorch's kRoundLarge). */
#define SEGMENT (2 << 20)
/* Below this share of allocations found in every run, they are different programs. */
#define SAME 0.9

static const char *const growth_names[VS_GROWTH_COUNT] = {"fixed",    "batch x sequence", "batch x sequence^2",
                                                          "sequence", "sequence^2",       "batch"};

const char *vs_growth_name(enum vs_growth growth)
{
	return growth_names[growth];
}

static double monomial(enum vs_growth growth, double batch, double seq)
{
	switch (growth) {
	case VS_GROWTH_TOKENS:
		return batch * seq;
	case VS_GROWTH_SCORES:
		return batch * seq * seq;
	case VS_GROWTH_SEQUENCE:
		return seq;
	case VS_GROWTH_SQUARE:
		return seq * seq;
	case VS_GROWTH_BATCH:
		return batch;
	case VS_GROWTH_FIXED:
	case VS_GROWTH_COUNT:
		break;
	}
	return 1;
}

struct list {
	size_t *events; /* of the series, those that allocate */
	size_t count;
};

static int allocations(const struct vs_series *s, struct list *ret)
{
	ret->events = malloc((s->count + 1) * sizeof(*ret->events));
	if (!ret->events)
		return -ENOMEM;
	ret->count = 0;
	for (size_t i = 0; i < s->count; i++) {
		if (s->events[i].size)
			ret->events[ret->count++] = i;
	}
	return 0;
}

static bool agree(const struct vs_series *a, const struct list *la, size_t i, const struct vs_series *b,
                  const struct list *lb, size_t j)
{
	for (size_t k = 0; k < AGREE; k++) {
		if (i + k == la->count || j + k == lb->count)
			return k > 0 && i + k == la->count && j + k == lb->count;
		if (a->events[la->events[i + k]].key != b->events[lb->events[j + k]].key)
			return false;
	}
	return true;
}

/* The nearest pair of places, by steps skipped in both, where the runs agree again. */
static bool meet(const struct vs_series *a, const struct list *la, size_t *i, const struct vs_series *b,
                 const struct list *lb, size_t *j)
{
	for (size_t skipped = 1; skipped <= 2 * WINDOW; skipped++) {
		for (size_t p = skipped > WINDOW ? skipped - WINDOW : 0; p <= skipped && p <= WINDOW; p++) {
			size_t q = skipped - p;

			if (*i + p < la->count && *j + q < lb->count && agree(a, la, *i + p, b, lb, *j + q)) {
				*i += p;
				*j += q;
				return true;
			}
		}
	}
	return false;
}

/* sizes[i]: of b's allocation at the place of a's number i; 0: it has none. */
static void align(const struct vs_series *a, const struct list *la, const struct vs_series *b, const struct list *lb,
                  uint64_t *sizes)
{
	size_t i = 0, j = 0;

	memset(sizes, 0, la->count * sizeof(*sizes));
	while (i < la->count && j < lb->count) {
		if (a->events[la->events[i]].key == b->events[lb->events[j]].key)
			sizes[i++] = b->events[lb->events[j++]].size;
		else if (!meet(a, la, &i, b, lb, &j))
			break;
	}
}

struct fit {
	enum vs_growth growth;
	double fixed, factor; /* size = fixed + factor x growth */
	double miss;          /* the largest, in bytes */
};

static double tolerance(double size)
{
	return size > UNSPLIT ? UNSPLIT : ROUNDING;
}

/* One function through all runs' sizes. What the allocator adds only ever makes a block larger, so the smallest
 * factor is the nearest to the truth. */
static struct fit fit_single(enum vs_growth growth, const struct vs_series *runs, const uint64_t *sizes, size_t count)
{
	struct fit f = {.growth = growth, .factor = INFINITY};

	for (size_t r = 0; r < count; r++) {
		if (sizes[r])
			f.factor = fmin(f.factor, (double)sizes[r] / monomial(growth, runs[r].batch, runs[r].seq));
	}
	for (size_t r = 0; r < count; r++) {
		double value = f.factor * monomial(growth, runs[r].batch, runs[r].seq);

		if (sizes[r])
			f.miss = fmax(f.miss, fabs((double)sizes[r] - value) / tolerance((double)sizes[r]));
	}
	return f;
}

/* A fixed part and a growing one, through the two runs that differ most. */
static struct fit fit_sum(enum vs_growth growth, const struct vs_series *runs, const uint64_t *sizes, size_t count)
{
	struct fit f = {.growth = growth, .miss = INFINITY};
	size_t low = 0, high = 0;
	double least = INFINITY, most = -INFINITY;

	for (size_t r = 0; r < count; r++) {
		double m = monomial(growth, runs[r].batch, runs[r].seq);

		if (sizes[r] && m < least)
			least = m, low = r;
		if (sizes[r] && m > most)
			most = m, high = r;
	}
	if (!(most > least))
		return f;
	f.factor = ((double)sizes[high] - (double)sizes[low]) / (most - least);
	f.fixed = (double)sizes[low] - f.factor * least;
	if (f.factor < 0 || f.fixed < 0)
		return f;
	f.miss = 0;
	for (size_t r = 0; r < count; r++) {
		double value = f.fixed + f.factor * monomial(growth, runs[r].batch, runs[r].seq);

		if (sizes[r])
			f.miss = fmax(f.miss, fabs((double)sizes[r] - value) / tolerance((double)sizes[r]));
	}
	return f;
}

/* The simplest function that explains the sizes; `sure`: to within what the allocator adds. */
static struct fit fit_block(const struct vs_series *runs, const uint64_t *sizes, size_t count, bool *ret_sure)
{
	struct fit best = fit_single(VS_GROWTH_FIXED, runs, sizes, count);

	for (int g = VS_GROWTH_FIXED; g < VS_GROWTH_COUNT; g++) {
		struct fit f = fit_single(g, runs, sizes, count);

		/* A clear improvement only: with noise, the earlier, simpler one stays. */
		if (f.miss < best.miss * 0.5 || (best.miss > 1 && f.miss < best.miss))
			best = f;
	}
	for (int g = VS_GROWTH_TOKENS; g <= VS_GROWTH_SCORES && best.miss > 1; g++) {
		struct fit f = fit_sum(g, runs, sizes, count);

		if (f.miss < best.miss)
			best = f;
	}
	*ret_sure = best.miss <= 1;
	return best;
}

static int can_answer(const struct vs_series *runs, size_t count, uint64_t batch, uint64_t seq, const char **ret_why)
{
	bool batches = false, seqs = false, other_batch = false, other_seq = false;

	if (count < 2) {
		*ret_why = "two runs at least are needed";
		return -ENODATA;
	}
	for (size_t r = 0; r < count; r++) {
		batches |= runs[r].batch != runs[0].batch;
		seqs |= runs[r].seq != runs[0].seq;
		other_batch |= runs[r].batch != batch;
		other_seq |= runs[r].seq != seq;
	}
	if (other_batch && !batches) {
		*ret_why = "the runs have one batch size: add one with another";
		return -ENODATA;
	}
	if (other_seq && !seqs) {
		*ret_why = "the runs have one sequence length: add one with another";
		return -ENODATA;
	}
	return 0;
}

struct work {
	const struct vs_series *runs;
	size_t count, base;
	struct list *lists;
	uint64_t *sizes;     /* [run][allocation of the base] */
	uint64_t *predicted; /* [event of the base] */
	struct fit *fits;
	bool *sure;
};

static void free_work(struct work *w)
{
	for (size_t r = 0; w->lists && r < w->count; r++)
		free(w->lists[r].events);
	free(w->lists);
	free(w->sizes);
	free(w->predicted);
	free(w->fits);
	free(w->sure);
}

static int prepare(struct work *w)
{
	size_t events, n;

	w->lists = calloc(w->count, sizeof(*w->lists));
	if (!w->lists)
		return -ENOMEM;
	for (size_t r = 0; r < w->count; r++) {
		int error = allocations(&w->runs[r], &w->lists[r]);

		if (error)
			return error;
	}
	events = w->runs[w->base].count;
	n = w->lists[w->base].count;
	w->sizes = calloc(w->count * n + 1, sizeof(*w->sizes));
	w->predicted = calloc(events + 1, sizeof(*w->predicted));
	w->fits = calloc(events + 1, sizeof(*w->fits));
	w->sure = calloc(events + 1, sizeof(*w->sure));
	if (!w->sizes || !w->predicted || !w->fits || !w->sure)
		return -ENOMEM;
	for (size_t r = 0; r < w->count; r++)
		align(&w->runs[w->base], &w->lists[w->base], &w->runs[r], &w->lists[r], w->sizes + r * n);
	return 0;
}

static double predict(struct work *w, uint64_t batch, uint64_t seq)
{
	size_t n = w->lists[w->base].count, matched = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t sizes[VS_SERIES_MAX];
		size_t event = w->lists[w->base].events[i];
		struct fit *f = &w->fits[event];
		bool all = true;
		double value;

		for (size_t r = 0; r < w->count; r++) {
			sizes[r] = w->sizes[r * n + i];
			all &= sizes[r] != 0;
		}
		matched += all;
		*f = fit_block(w->runs, sizes, w->count, &w->sure[event]);
		w->sure[event] &= all;
		value = f->fixed + f->factor * monomial(f->growth, (double)batch, (double)seq);
		w->predicted[event] = value < 1e18 ? ((uint64_t)value + ROUNDING - 1) / ROUNDING * ROUNDING : 0;
	}
	return n ? (double)matched / (double)n : 0;
}

/* The base run again, with the predicted sizes; and once with its own, for its own peak. */
static void play(const struct work *w, struct vs_extrapolation *e)
{
	const struct vs_series *s = &w->runs[w->base];
	uint64_t now = 0, measured = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct vs_series_event *v = &s->events[i];

		if (v->size) {
			now += w->predicted[i];
			measured += v->size;
		} else {
			now -= w->predicted[v->freed];
			measured -= s->events[v->freed].size;
		}
		if (measured > e->measured)
			e->measured = measured;
		if (now > e->peak) {
			e->peak = now;
			e->peak_event = i;
		}
	}
}

static int describe(const struct work *w, uint64_t batch, uint64_t seq, struct vs_extrapolation *e)
{
	const struct vs_series *s = &w->runs[w->base];
	bool *live = calloc(s->count + 1, sizeof(*live));
	double misses = 0;

	if (!live)
		return -ENOMEM;
	for (size_t i = 0; i <= e->peak_event; i++)
		live[s->events[i].size ? i : s->events[i].freed] = s->events[i].size != 0;
	for (size_t i = 0; i <= e->peak_event; i++) {
		const struct fit *f = &w->fits[i];
		double scale;

		if (!live[i])
			continue;
		scale = monomial(f->growth, (double)batch, (double)seq) /
		        monomial(f->growth, (double)s->batch, (double)s->seq);
		e->live[s->events[i].category % VS_CATEGORIES_MAX][f->growth] += w->predicted[i];
		if (!w->sure[i])
			e->unsure += w->predicted[i];
		/* What the allocator did not split off here it may split off there, and the other way round: for each
		 * block that grows, up to as much as it leaves. Blocks of one kind miss alike, so the misses add up
		 * plainly, not as squares. */
		misses += f->miss * tolerance((double)s->events[i].size) * (scale > 1 ? scale : 1);
		if (f->growth != VS_GROWTH_FIXED && w->predicted[i] >= UNSPLIT)
			misses += w->predicted[i] % SEGMENT ? fmin(UNSPLIT, SEGMENT - w->predicted[i] % SEGMENT) : 0;
	}
	free(live);
	e->residual = (uint64_t)misses;
	return 0;
}

int vs_extrapolate(const struct vs_series *runs, size_t count, uint64_t batch, uint64_t seq,
                   struct vs_extrapolation *ret, const char **ret_why)
{
	struct work w = {.runs = runs, .count = count < VS_SERIES_MAX ? count : VS_SERIES_MAX};
	struct vs_extrapolation e = {0};
	int error = can_answer(runs, w.count, batch, seq, ret_why);

	if (error)
		return error;
	for (size_t r = 1; r < w.count; r++) {
		if (runs[r].batch * runs[r].seq > runs[w.base].batch * runs[w.base].seq ||
		    (runs[r].batch * runs[r].seq == runs[w.base].batch * runs[w.base].seq &&
		     runs[r].seq > runs[w.base].seq))
			w.base = r;
	}
	error = prepare(&w);
	if (!error) {
		e.matched = predict(&w, batch, seq);
		if (e.matched < SAME) {
			*ret_why = "they do not allocate alike: runs of the same program are needed";
			error = -ESRCH;
		}
	}
	if (!error) {
		play(&w, &e);
		error = describe(&w, batch, seq, &e);
	}
	free_work(&w);
	if (!error)
		*ret = e;
	return error;
}
