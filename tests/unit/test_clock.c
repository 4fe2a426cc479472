/* SPDX-License-Identifier: MIT
 *
 * The clock between two looks at CLOCK_MONOTONIC: as right as that itself, and never misled for long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

enum {
	OFF_NS = 4000,      /* the bound of clock.h and as much again, for the ends of what it is held against */
	LONG_NS = 50000000, /* some hundred looks */
};

/* Held between two looks at the real clock; whatever interrupts makes those lie further apart. */
static void hold(struct vs_clock *clock)
{
	uint64_t before = vs_clock_exact(), now = vs_clock_now(clock), after = vs_clock_exact();

	assert_true(now + OFF_NS >= before);
	assert_true(now <= after + OFF_NS);
}

/* A look that is interrupted tells nothing, and changes nothing. */
static void look(struct vs_clock *clock)
{
	for (uint64_t before = clock->ns; clock->measured && clock->ns == before;)
		vs_clock_look(clock);
}

static void as_the_real_one(void **state)
{
	struct vs_clock clock = {0};
	uint64_t end = vs_clock_exact() + LONG_NS;

	(void)state;
	hold(&clock);
	while (vs_clock_exact() < end)
		hold(&clock);
}

/* The counter jumps where a machine is suspended, or moved to another processor. */
static void after_a_jump(void **state)
{
	static const uint64_t jumps[] = {UINT64_C(1) << 40, VS_CLOCK_WINDOW + 1, 0 - (UINT64_C(1) << 40)};
	struct vs_clock clock = {0};

	(void)state;
	for (unsigned int i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		uint64_t end = vs_clock_exact() + LONG_NS / 10;

		while (vs_clock_exact() < end)
			hold(&clock);
		clock.ticks += jumps[i];
		look(&clock);
		hold(&clock);
	}
}

/* Processors whose counters are less than a window apart: wrong by no more than that, and right after a look. */
static void after_a_small_jump(void **state)
{
	static const uint64_t jumps[] = {VS_CLOCK_WINDOW / 2, 0 - VS_CLOCK_WINDOW / 2};

	(void)state;
	for (unsigned int i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		struct vs_clock clock = {0};
		uint64_t end = vs_clock_exact() + LONG_NS / 10, window, before;

		while (vs_clock_exact() < end || (clock.measured && !clock.rate))
			hold(&clock);
		if (!clock.rate)
			skip();
		window = (VS_CLOCK_WINDOW * clock.rate >> 32) + OFF_NS;
		clock.ticks += jumps[i];
		before = clock.ns;
		while (clock.ns == before) {
			uint64_t now = vs_clock_now(&clock), after = vs_clock_exact();

			assert_true(now <= after + window && now + window >= before);
		}
		end = vs_clock_exact() + LONG_NS / 10;
		while (vs_clock_exact() < end)
			hold(&clock);
	}
}

/* Nothing is known of a rate that was measured long ago, or that no processor has. */
static void no_rate_without_reason(void **state)
{
	struct vs_clock clock = {0};
	uint64_t end = vs_clock_exact() + LONG_NS / 10;

	(void)state;
	while (vs_clock_exact() < end)
		hold(&clock);
	if (!clock.rate) /* no counter that runs evenly */
		skip();
	clock.ns -= 2000000000;
	clock.ticks -= VS_CLOCK_WINDOW;
	look(&clock);
	assert_int_equal(clock.rate, 0);
	end = vs_clock_exact() + LONG_NS / 10;
	while (vs_clock_exact() < end)
		hold(&clock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_the_real_one),
	    cmocka_unit_test(after_a_jump),
	    cmocka_unit_test(after_a_small_jump),
	    cmocka_unit_test(no_rate_without_reason),
	};

	vs_clock_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
