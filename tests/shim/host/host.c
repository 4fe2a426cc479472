/* SPDX-License-Identifier: MIT
 *
 * host NAME: runs one scenario. host --list: their names.
 */
#include "host.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct scenario *const tables[] = {
    host_threads,    host_forks, host_signals, host_exits, host_limits, host_libraries,
#ifdef HOST_CXX
    host_exceptions,
#endif
};

/* Shared with the children. */
static struct counts {
	_Atomic long cuda, torch;
} * counts;

static __thread int uncounted;

#define DEVICE_0 1 /* c10::Device: CUDA, 0 */

void host_count(int cuda, int torch)
{
	if (uncounted)
		return;
	counts->cuda += cuda;
	counts->torch += torch;
}

void *host_take(size_t size)
{
	void *pointer = NULL;

	if (cudaMalloc(&pointer, size) || !pointer)
		_exit(99);
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(pointer, (int64_t)size, size, 2 << 20, DEVICE_0);
	host_count(1, 1);
	return pointer;
}

void host_give(void *pointer, size_t size)
{
	_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(pointer, -(int64_t)size, 0, 2 << 20, DEVICE_0);
	if (cudaFree(pointer))
		_exit(99);
	host_count(1, 1);
}

static __attribute__((noinline)) void descend(unsigned int depth)
{
	if (depth)
		descend(depth - 1);
	else
		_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)0x7e0000000000, 512, 512, 2 << 20,
		                                                      DEVICE_0);
	__asm__ volatile(""); /* no tail call */
}

void host_report(unsigned int depth)
{
	descend(depth);
	host_count(0, 1);
}

void host_uncounted(int on)
{
	uncounted = on;
}

void host_counted(void)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "counted %ld %ld\n", counts->cuda, counts->torch);

	fflush(stdout);
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(97);
}

void host_wrong(const char *file, int line, const char *what)
{
	dprintf(STDERR_FILENO, "%s:%d: not so: %s\n", file, line, what);
	_exit(98);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct scenario *scenario = tables[i]; scenario->name; scenario++) {
			if (!strcmp(argv[1], "--list")) {
				puts(scenario->name);
			} else if (!strcmp(argv[1], scenario->name)) {
				scenario->run();
				return 0;
			}
		}
	return strcmp(argv[1], "--list") ? 2 : 0;
}
