/* SPDX-License-Identifier: MIT */
#include "ledger/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sums { /* differences until finish: unsigned arithmetic wraps and comes back */
	uint64_t tags[VS_TAG_COUNT];
	uint64_t details[VS_DETAIL_COUNT];
};

struct vs_samples {
	size_t count;
	struct vs_point **points; /* ascending by sequence */
	uint64_t *sequences;
	struct sums *sums; /* count + 1: the last is never read */
	size_t cursor;     /* the first instant not before the last free */
};

static int by_sequence(const void *a, const void *b)
{
	const struct vs_point *const *x = a, *const *y = b;

	return (*x)->sequence < (*y)->sequence ? -1 : (*x)->sequence > (*y)->sequence;
}

int vs_samples_new(struct vs_point *const *points, size_t count, struct vs_samples **ret_samples)
{
	struct vs_samples *samples = calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->count = count;
	samples->points = calloc(count + 1, sizeof(*samples->points));
	samples->sequences = calloc(count + 1, sizeof(*samples->sequences));
	samples->sums = calloc(count + 1, sizeof(*samples->sums));
	if (!samples->points || !samples->sequences || !samples->sums) {
		vs_samples_free(samples);
		return -ENOMEM;
	}
	if (count) {
		memcpy(samples->points, points, count * sizeof(*points));
		qsort(samples->points, count, sizeof(*samples->points), by_sequence);
	}
	for (size_t i = 0; i < count; i++)
		samples->sequences[i] = samples->points[i]->sequence;
	*ret_samples = samples;
	return 0;
}

void vs_samples_free(struct vs_samples *samples)
{
	if (!samples)
		return;
	free(samples->points);
	free(samples->sequences);
	free(samples->sums);
	free(samples);
}

/* The first instant at or after an event, among the first `high`. */
static size_t first_from(const struct vs_samples *samples, uint64_t sequence, size_t high)
{
	size_t low = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (samples->sequences[middle] < sequence)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void vs_samples_add(struct vs_samples *samples, const struct vs_block *block)
{
	size_t begin, end = samples->count;

	if (block->freed_at) {
		/* Verdicts come in order of the frees, so the cursor mostly only moves on. */
		if (samples->cursor && samples->sequences[samples->cursor - 1] >= block->freed_at)
			samples->cursor = first_from(samples, block->freed_at, samples->cursor);
		while (samples->cursor < samples->count && samples->sequences[samples->cursor] < block->freed_at)
			samples->cursor++;
		end = samples->cursor;
	}
	if (!end || samples->sequences[end - 1] < block->allocated_at)
		return; /* most blocks: born and gone between two instants */
	begin = first_from(samples, block->allocated_at, end);
	samples->sums[begin].tags[block->tag] += block->size;
	samples->sums[end].tags[block->tag] -= block->size;
	if (block->detail) {
		samples->sums[begin].details[block->detail] += block->size;
		samples->sums[end].details[block->detail] -= block->size;
	}
}

void vs_samples_finish(struct vs_samples *samples)
{
	struct sums now = {0};

	for (size_t i = 0; i < samples->count; i++) {
		for (int tag = 0; tag < VS_TAG_COUNT; tag++)
			samples->points[i]->tags[tag] = now.tags[tag] += samples->sums[i].tags[tag];
		for (int detail = 0; detail < VS_DETAIL_COUNT; detail++)
			samples->points[i]->details[detail] = now.details[detail] += samples->sums[i].details[detail];
	}
}
