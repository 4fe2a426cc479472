/* SPDX-License-Identifier: MIT */
#include "model/extrapolate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS_MAX 600

struct program {
	struct vs_series_event events[EVENTS_MAX];
	size_t count;
};

static size_t put(struct program *p, uint64_t key, uint64_t size, uint32_t category)
{
	p->events[p->count] =
	    (struct vs_series_event){.key = key, .size = (size + 511) / 512 * 512, .category = category};
	return p->count++;
}

static void give_back(struct program *p, size_t event)
{
	p->events[p->count++] = (struct vs_series_event){.freed = event};
}

/* Fixed weights and a fixed step list; activations by tokens, scores by tokens times sequence: with small sizes the
 * step's list is the peak, with large ones the backward. */
static struct vs_series train(struct program *p, uint64_t batch, uint64_t seq, size_t extra)
{
	size_t kept[100], list;

	p->count = 0;
	for (int i = 0; i < 100; i++)
		put(p, 1000 + (uint64_t)i, 300000, 1);
	for (size_t i = 0; i < extra; i++) /* something that only this run does */
		give_back(p, put(p, 7000 + i, 512, 5));
	for (int i = 0; i < 50; i++) {
		kept[i] = put(p, 2000 + (uint64_t)i, 40 * batch * seq, 3);
		kept[50 + i] = put(p, 3000 + (uint64_t)i, 2 * batch * seq * seq, 3);
	}
	for (int i = 99; i >= 0; i--)
		give_back(p, kept[i]);
	list = put(p, 4000, 60000000, 5);
	give_back(p, list);
	return (struct vs_series){.batch = batch, .seq = seq, .events = p->events, .count = p->count};
}

static uint64_t truth(uint64_t batch, uint64_t seq)
{
	static struct program p;
	struct vs_series s = train(&p, batch, seq, 0);
	uint64_t now = 0, peak = 0;

	for (size_t i = 0; i < s.count; i++) {
		if (s.events[i].size)
			now += s.events[i].size;
		else
			now -= s.events[s.events[i].freed].size;
		peak = now > peak ? now : peak;
	}
	return peak;
}

static void predicts_another_peak(void **state)
{
	static struct program a, b, c;
	const struct vs_series runs[] = {train(&a, 1, 64, 0), train(&b, 2, 64, 0), train(&c, 1, 128, 0)};
	struct vs_extrapolation e;
	const char *why = NULL;
	double error;

	(void)state;
	assert_int_equal(vs_extrapolate(runs, 3, 8, 512, &e, &why), 0);
	error = (double)e.peak / (double)truth(8, 512) - 1;
	assert_true(error > -0.001 && error < 0.001);
	assert_int_equal(e.measured, truth(1, 128));
	assert_true(e.matched == 1);
	assert_true(e.live[1][VS_GROWTH_FIXED] >= 100 * 300000);
	assert_true(e.live[3][VS_GROWTH_SCORES] > e.live[3][VS_GROWTH_TOKENS]);
	assert_int_equal(e.live[5][VS_GROWTH_FIXED], 0); /* the step's list is not there at that peak */
}

static void survives_extra_allocations(void **state)
{
	static struct program a, b, c;
	const struct vs_series runs[] = {train(&a, 1, 64, 9), train(&b, 2, 64, 0), train(&c, 1, 128, 3)};
	struct vs_extrapolation e;
	const char *why = NULL;
	double error;

	(void)state;
	assert_int_equal(vs_extrapolate(runs, 3, 8, 512, &e, &why), 0);
	error = (double)e.peak / (double)truth(8, 512) - 1;
	assert_true(error > -0.001 && error < 0.001);
	assert_true(e.matched < 1 && e.matched > 0.9);
}

static void says_what_is_missing(void **state)
{
	static struct program a, b, c;
	struct vs_series runs[] = {train(&a, 1, 64, 0), train(&b, 2, 64, 0), train(&c, 4, 64, 0)};
	struct vs_extrapolation e = {.peak = 7};
	const char *why = NULL;

	(void)state;
	assert_int_equal(vs_extrapolate(runs, 3, 8, 512, &e, &why), -ENODATA);
	assert_non_null(strstr(why, "sequence"));
	assert_int_equal(vs_extrapolate(runs, 1, 8, 64, &e, &why), -ENODATA);
	runs[1] = train(&b, 1, 128, 0);
	assert_int_equal(vs_extrapolate(runs, 2, 8, 64, &e, &why), -ENODATA);
	assert_non_null(strstr(why, "batch"));
	assert_int_equal(e.peak, 7);
	/* The same sequence needs no second one. */
	runs[1] = train(&b, 2, 64, 0);
	assert_int_equal(vs_extrapolate(runs, 2, 8, 64, &e, &why), 0);
}

static void refuses_other_programs(void **state)
{
	static struct program a, b;
	struct vs_series runs[] = {train(&a, 1, 64, 0), train(&b, 2, 64, 0)};
	struct vs_extrapolation e;
	const char *why = NULL;

	(void)state;
	for (size_t i = 0; i < b.count; i++)
		b.events[i].key *= 31;
	assert_int_equal(vs_extrapolate(runs, 2, 4, 64, &e, &why), -ESRCH);
	assert_non_null(strstr(why, "same program"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(predicts_another_peak),
	    cmocka_unit_test(survives_extra_allocations),
	    cmocka_unit_test(says_what_is_missing),
	    cmocka_unit_test(refuses_other_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
