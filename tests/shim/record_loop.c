/* SPDX-License-Identifier: MIT
 *
 *   record_loop            prints the median of batches and the 99th percentile of single events, ns; the mean event
 *                          where the job has filled a first-level cache with its own since the last
 *   record_loop PAIRS      only reports so many pairs
 *
 * Reports allocations and frees the way PyTorch's allocator does, below 28 native frames, from 64 different stacks.
 * Built as a program and, for Python to load, as a library: loop_measure() and loop_pairs() do the same at any depth.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API           __attribute__((visibility("default")))
#define NATIVE_FRAMES 28
#define STACKS        64
#define BATCHES       201
#define PAIRS         512 /* a batch */
#define SINGLES       20000
/* What the job touches between two events: 32 KiB, a first-level data cache of most processors; each line in another
 * page than the one before, as far apart as the pages that it reads itself. */
#define TOUCHED_LINES 512
#define TOUCHED_PAGES 128

typedef void report_function(void *, int64_t, uint64_t, uint64_t, uint16_t);

static report_function *report;
static double *single; /* where the next event's time goes; NULL: not timed one by one */
static bool touching;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void touch(void)
{
	static char memory[TOUCHED_PAGES][4096];

	for (unsigned int i = 0; i < TOUCHED_LINES; i++)
		*(volatile char *)&memory[i % TOUCHED_PAGES][(i + i / TOUCHED_PAGES) * 64 % 4096] = 1;
}

static __attribute__((noinline)) void event(uint64_t address, int64_t size)
{
	double begin;

	if (touching)
		touch();
	begin = single ? now() : 0;

	report((void *)(uintptr_t)address, size, size > 0 ? 512 : 0, 2 << 20, 1);
	if (single)
		*single++ = now() - begin;
	__asm__ volatile("" ::: "memory");
}

static void left(unsigned int depth, unsigned int path, uint64_t address);
static void right(unsigned int depth, unsigned int path, uint64_t address);

/* Two ways down at each level, told apart by the bits of `path`: as many stacks as values. */
#define DESCEND(name)                                                                                                \
	static __attribute__((noinline)) void name(unsigned int depth, unsigned int path, uint64_t address)          \
	{                                                                                                            \
		if (!depth) {                                                                                        \
			event(address, 512);                                                                         \
			event(address, -512);                                                                        \
		} else if (path & 1) {                                                                               \
			left(depth - 1, path >> 1, address);                                                         \
		} else {                                                                                             \
			right(depth - 1, path >> 1, address);                                                        \
		}                                                                                                    \
		__asm__ volatile("" ::: "memory");                                                                   \
	}

DESCEND(left)
DESCEND(right)

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(double *values, int count, double share)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return values[(int)(share * (count - 1))];
}

API int loop_pairs(unsigned int frames, unsigned int pairs)
{
	report = (report_function *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
	if (!report)
		return -1;
	for (unsigned int i = 0; i < pairs; i++)
		left(frames - 3, i % STACKS, 0x7f0000000000 + (uint64_t)(i % PAIRS) * 512);
	return 0;
}

static double mean_below(double *values, int count, double share)
{
	double sum = 0;

	quantile(values, count, share);
	for (int i = 0; i < (int)(share * count); i++)
		sum += values[i];
	return sum / (int)(share * count);
}

/* Nanoseconds, in the order of the first lines. What the clock takes is taken off the single events'; of those in a
 * full cache, the mean leaves out the tenth that something interrupted. */
API int loop_measure(unsigned int frames, double ret_times[3])
{
	static double batches[BATCHES], singles[SINGLES];
	double clock;

	for (int batch = 0; batch < BATCHES; batch++) {
		double begin = now();

		if (loop_pairs(frames, PAIRS) < 0)
			return -1;
		batches[batch] = (now() - begin) / (2.0 * PAIRS);
	}
	ret_times[0] = quantile(batches, BATCHES, 0.5);
	for (int i = 0; i < SINGLES; i++) {
		double begin = now();

		singles[i] = now() - begin;
	}
	clock = mean_below(singles, SINGLES, 0.9);
	for (int i = 1; i < 3; i++) {
		touching = i == 2;
		single = singles;
		loop_pairs(frames, SINGLES / 2);
		single = NULL;
		ret_times[i] = touching ? mean_below(singles, SINGLES, 0.9) : quantile(singles, SINGLES, 0.99);
		ret_times[i] -= clock;
	}
	touching = false;
	return 0;
}

#ifndef LOOP_LIBRARY
int main(int argc, char **argv)
{
	double times[3];

	if (argc == 2)
		return loop_pairs(NATIVE_FRAMES, (unsigned int)strtoul(argv[1], NULL, 10)) < 0;
	if (argc > 2 || loop_measure(NATIVE_FRAMES, times) < 0)
		return 2;
	printf("%f %f %f\n", times[0], times[1], times[2]);
	return 0;
}
#endif
