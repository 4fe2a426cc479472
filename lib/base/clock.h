/* SPDX-License-Identifier: MIT
 *
 * CLOCK_MONOTONIC for those who ask all the time: between two looks at it the processor's time stamp counter is asked
 * instead, which takes less than half as long.
 *
 * The counter is never trusted for more than an instant: how fast it runs is measured from look to look, and a look
 * is VS_CLOCK_WINDOW ticks away at the most. So the time is right to a microsecond or two, also while the clock is
 * being slewed. Where the counter itself jumps, by a virtual machine's move or between processors whose counters are
 * apart, it is off by a window at the most, until the next look. It may step back by as much: whoever needs that it
 * does not takes the larger of two.
 */
#ifndef VS_BASE_CLOCK_H
#define VS_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* 0.2 to 1 ms: the clock runs at most 500 ppm faster or slower than before (MAX_TICKADJ of the kernel's NTP), half a
 * microsecond in that time. */
#define VS_CLOCK_WINDOW (UINT64_C(1) << 20)

/* One thread's; zero-initialise. */
struct vs_clock {
	uint64_t ticks, ns; /* the last look */
	uint64_t rate;      /* ns a tick << 32; 0: not known */
	uint64_t measured;  /* between the last two looks; the rate, if those before agreed */
};

/* Whether the counter runs evenly, and may be read. Once, before the first time is asked. */
void vs_clock_prepare(void);
/* Whoever reads the counter on this thread, or on one that it makes, is about to be killed: from now on nobody here
 * starts to, and the kernel is asked for the time. Clocks that run already are stopped by vs_clock_stop(). */
void vs_clock_forbid(void);
/* A look at a clock itself, ns; at CLOCK_MONOTONIC. */
uint64_t vs_clock_ask(clockid_t clock);
uint64_t vs_clock_exact(void);
uint64_t vs_clock_look(struct vs_clock *clock);

/* The next time is asked, it is a look. */
static inline void vs_clock_stop(struct vs_clock *clock)
{
	*clock = (struct vs_clock){0};
}

/* The time, ns. */
static inline uint64_t vs_clock_now(struct vs_clock *clock)
{
#if defined(__x86_64__)
	if (clock->rate) {
		uint64_t passed = __builtin_ia32_rdtsc() - clock->ticks;

		/* Before the last look is far away as well. */
		if (passed < VS_CLOCK_WINDOW)
			return clock->ns + (passed * clock->rate >> 32);
	}
#endif
	return vs_clock_look(clock);
}

#endif
