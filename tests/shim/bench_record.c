/* SPDX-License-Identifier: MIT
 *
 * What recording one event costs, once its stack has been seen before.
 *
 *   bench_record [PYTHON]      default: python3
 *
 * Reports allocations and frees the way PyTorch's allocator does, below about 28 native frames, from 64 different
 * stacks; with Python, also below 40 Python frames. The same work with VRAMSHIM_DISABLE=1 is subtracted. Prints the
 * median batch in nanoseconds an event.
 *
 * Built as a program and, for Python to load, as a library: bench_batches() is the measured part.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NATIVE_FRAMES 28
#define PYTHON_FRAMES 40
#define PYTHON_NATIVE 16 /* frames of the interpreter itself, 3.11 and later: part of the 28 */
#define STACKS        64
#define BATCHES       201
#define PAIRS         512 /* a batch */

typedef void report_function(void *, int64_t, uint64_t, uint64_t, uint16_t);

static report_function *report;

static __attribute__((noinline)) void pair(uint64_t address)
{
	report((void *)(uintptr_t)address, 512, 512, 2 << 20, 1);
	report((void *)(uintptr_t)address, -512, 0, 2 << 20, 1);
	__asm__ volatile("" ::: "memory");
}

static void left(unsigned int depth, unsigned int path, uint64_t address);
static void right(unsigned int depth, unsigned int path, uint64_t address);

/* Two ways down at each level, told apart by the bits of `path`: as many stacks as values. */
#define DESCEND(name)                                                                                                \
	static __attribute__((noinline)) void name(unsigned int depth, unsigned int path, uint64_t address)          \
	{                                                                                                            \
		if (!depth)                                                                                          \
			pair(address);                                                                               \
		else if (path & 1)                                                                                   \
			left(depth - 1, path >> 1, address);                                                         \
		else                                                                                                 \
			right(depth - 1, path >> 1, address);                                                        \
		__asm__ volatile("" ::: "memory");                                                                   \
	}

DESCEND(left)
DESCEND(right)

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Median nanoseconds an event, at this depth of everything above. */
__attribute__((visibility("default"))) double bench_batches(unsigned int frames)
{
	static double results[BATCHES];

	report = (report_function *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
	if (!report)
		return -1;
	for (int batch = 0; batch < BATCHES; batch++) {
		struct timespec begin, end;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (unsigned int i = 0; i < PAIRS; i++)
			left(frames - 3, i % STACKS, 0x7f0000000000 + (uint64_t)i * 512);
		clock_gettime(CLOCK_MONOTONIC, &end);
		results[batch] = ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
		                 (2.0 * PAIRS);
	}
	qsort(results, BATCHES, sizeof(*results), compare);
	return results[BATCHES / 2];
}

#ifndef BENCH_LIBRARY

static const char script[] = "import ctypes, sys\n"
                             "bench = ctypes.CDLL(sys.argv[1]).bench_batches\n"
                             "bench.restype = ctypes.c_double\n"
                             "def descend(depth):\n"
                             "    return descend(depth - 1) if depth > 1 else bench(int(sys.argv[3]))\n"
                             "print(descend(int(sys.argv[2])))\n";

enum mode { MODE_OFF, MODE_FULL, MODE_LIGHT };

/* The folder of this program, in the build tree. */
static int own_folder(char *folder, size_t size)
{
	ssize_t length = readlink("/proc/self/exe", folder, size - 1);

	if (length < 0)
		return -1;
	folder[length] = '\0';
	*strrchr(folder, '/') = '\0';
	return 0;
}

/* Run this measurement in a process of its own. */
static double measure(const char *python, enum mode mode)
{
	char directory[] = "/tmp/bench_record.XXXXXX", folder[4096], path[4200], depth[16], frames[16], text[64] = "";
	size_t used = 0;
	ssize_t got;
	int fds[2], status;
	pid_t child;

	if (own_folder(folder, sizeof(folder)) < 0 || !mkdtemp(directory) || pipe(fds) < 0)
		return -1;
	snprintf(depth, sizeof(depth), "%d", PYTHON_FRAMES - 1);
	snprintf(frames, sizeof(frames), "%d", NATIVE_FRAMES - PYTHON_NATIVE);
	child = fork();
	if (!child) {
		snprintf(path, sizeof(path), "%s/../../lib/shim/libvramshim.so", folder);
		setenv("LD_PRELOAD", path, 1);
		setenv("VRAMSHIM_OUT", directory, 1);
		setenv("VRAMSHIM_DISABLE", mode == MODE_OFF ? "1" : "0", 1);
		setenv("VRAMSHIM_LEVEL", mode == MODE_LIGHT ? "light" : "full", 1);
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		snprintf(path, sizeof(path), "%s/record_batches.so", folder);
		if (python)
			execlp(python, python, "-c", script, path, depth, frames, NULL);
		else
			execl("/proc/self/exe", "bench_record", "--child", NULL);
		_exit(127);
	}
	close(fds[1]);
	while ((got = read(fds[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	close(fds[0]);
	waitpid(child, &status, 0);
	snprintf(path, sizeof(path), "rm -rf %s", directory);
	if (system(path) || !used || !WIFEXITED(status) || WEXITSTATUS(status))
		return -1;
	return atof(text);
}

static int show(const char *name, const char *python, enum mode mode)
{
	double off = measure(python, MODE_OFF), on = measure(python, mode);

	if (off < 0 || on < 0) {
		fprintf(stderr, "bench_record: %s: the measurement failed\n", name);
		return 1;
	}
	printf("%-34s %6.0f ns an event (passed through: %.0f)\n", name, on - off, off);
	return 0;
}

int main(int argc, char **argv)
{
	const char *python = argc == 2 ? argv[1] : "python3";

	if (argc == 2 && !strcmp(argv[1], "--child")) {
		printf("%f\n", bench_batches(NATIVE_FRAMES));
		return 0;
	}
	if (argc > 2) {
		fprintf(stderr, "usage: bench_record [PYTHON]\n");
		return 2;
	}
	return show("28 native frames", NULL, MODE_FULL) ||
	       show("28 native and 40 Python frames", python, MODE_FULL) ||
	       show("40 Python frames (level light)", python, MODE_LIGHT);
}
#endif
