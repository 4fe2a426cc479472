/* SPDX-License-Identifier: MIT */
#include <base/clock.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Relaxed, here and below: whoever is to know at once is told by its own thread. */
static atomic_bool counter_is_forbidden;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>

static atomic_bool counter_is_even;

/* AMD64 Architecture Programmer's Manual, volume 3, CPUID Fn8000_0007_EDX; Intel says the same. */
#define LEAF_POWER    0x80000007
#define INVARIANT_TSC (1u << 8)
#define NS_A_SECOND   UINT64_C(1000000000)
/* A look that takes longer was interrupted in its middle: it does not say which tick is which instant. */
#define LOOK_TICKS 2048
/* Two looks are wrong by one LOOK_TICKS each at the most, a 512th of a window: by as much twice. */
#define AGREES 128
/* No processor's counter is slower than 100 MHz or faster than 10 GHz. */
#define SLOWEST (UINT64_C(10) << 32)
#define FASTEST ((UINT64_C(1) << 32) / 10)
#endif

uint64_t vs_clock_ask(clockid_t clock)
{
	struct timespec now = {0};

	/* libc's reads the counter as well. */
	if (atomic_load_explicit(&counter_is_forbidden, memory_order_relaxed))
		syscall(SYS_clock_gettime, clock, &now);
	else
		clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t vs_clock_exact(void)
{
	return vs_clock_ask(CLOCK_MONOTONIC);
}

void vs_clock_forbid(void)
{
	atomic_store_explicit(&counter_is_forbidden, true, memory_order_relaxed);
#if defined(__x86_64__)
	atomic_store_explicit(&counter_is_even, false, memory_order_relaxed);
#endif
}

void vs_clock_prepare(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d = 0;
	int mode = PR_TSC_ENABLE;

	if (prctl(PR_GET_TSC, &mode) == 0 && mode != PR_TSC_ENABLE)
		vs_clock_forbid();
	/* Whoever does not know yet asks the clock itself. */
	if (!atomic_load_explicit(&counter_is_forbidden, memory_order_relaxed) &&
	    __get_cpuid(LEAF_POWER, &a, &b, &c, &d))
		atomic_store_explicit(&counter_is_even, d & INVARIANT_TSC, memory_order_relaxed);
#endif
}

uint64_t vs_clock_look(struct vs_clock *clock)
{
#if defined(__x86_64__)
	uint64_t ticks, now, passed, passed_ns, measured = 0, off;

	if (!atomic_load_explicit(&counter_is_even, memory_order_relaxed))
		return vs_clock_exact();
	ticks = __builtin_ia32_rdtsc();
	now = vs_clock_exact();
	passed = ticks - clock->ticks;
	passed_ns = now - clock->ns;
	if (passed < VS_CLOCK_WINDOW || __builtin_ia32_rdtsc() - ticks > LOOK_TICKS)
		return now;
	/* Of long ago says little about now. */
	if (passed_ns < NS_A_SECOND)
		measured = (passed_ns << 32) / passed;
	if (measured > SLOWEST || measured < FASTEST)
		measured = 0;
	/* Where the counter jumped in between, it is not what it was. */
	off = measured > clock->measured ? measured - clock->measured : clock->measured - measured;
	clock->rate = off <= measured / AGREES ? measured : 0;
	clock->measured = measured;
	clock->ticks = ticks;
	clock->ns = now;
	return now;
#else
	(void)clock;
	return vs_clock_exact();
#endif
}
