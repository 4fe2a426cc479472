/* SPDX-License-Identifier: MIT
 *
 * What a trace costs: `bench_trace [EVENTS] [FOLDER]`. One line of name and
 * value a measure, for scripts.
 *
 * The stream is an alternating one as a training step makes it: the same stacks
 * and blocks step after step, activations freed in reverse order, temporaries
 * at once. Times are of the processor, user and system, so that a busy machine
 * disturbs them little. They depend on the machine: compare the ratios.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <trace/writer.h>
#include <unistd.h>
#include <vramshim/trace.h>

enum { LAYERS = 32, PER_LAYER = 24, STEP = LAYERS * PER_LAYER * 2 + LAYERS * PER_LAYER };

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct vramshim_event allocation(uint64_t block, uint32_t stack, uint64_t *allocated, bool is_free)
{
	struct vramshim_event event = {.type = is_free ? VRAMSHIM_TORCH_FREE : VRAMSHIM_TORCH_ALLOC,
	                               .stack = stack,
	                               .address = UINT64_C(0x7f4000000000) + block * 8388608,
	                               .size = 512 * (1 + block % PER_LAYER * 1024),
	                               .reserved = UINT64_C(20) << 30};

	*allocated += is_free ? -event.size : event.size;
	event.allocated = *allocated;
	return event;
}

/* One step's events: forward keeps two of three blocks, backward frees them. */
static size_t make_step(struct vramshim_event *events)
{
	uint64_t allocated = UINT64_C(4) << 30;
	size_t count = 0;

	for (uint32_t block = 0; block < LAYERS * PER_LAYER; block++) {
		uint32_t operation = block % PER_LAYER;

		events[count++] = allocation(block, 1 + operation, &allocated, false);
		if (block % 3 == 0)
			events[count++] = allocation(block, 101 + operation, &allocated, true);
	}
	for (uint32_t block = LAYERS * PER_LAYER; block-- > 0;)
		if (block % 3)
			events[count++] = allocation(block, 201 + block % PER_LAYER, &allocated, true);
	return count;
}

/* The same bytes by the system call that a simple recorder would use: one write(2) an event, 8 bytes each. */
static double by_write(const char *path, uint64_t events)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	double start = seconds();

	for (uint64_t i = 0; i < events; i++)
		if (write(fd, &i, sizeof(i)) != sizeof(i))
			break;
	close(fd);
	return (seconds() - start) * 1e9 / (double)events;
}

static double by_writer(const char *path, uint64_t events)
{
	static struct vramshim_event step[STEP];
	size_t count = make_step(step);
	struct vs_writer *writer;
	struct vs_log *log;
	double start;

	if (vs_writer_open(path, UINT64_C(8) << 30, &writer) < 0 || !(log = vs_log_new(writer, 1))) {
		fprintf(stderr, "bench_trace: cannot write: %s: give another folder\n", path);
		exit(2);
	}
	start = seconds();
	for (uint64_t i = 0; i < events; i++)
		vs_log_append(log, &step[i % count]);
	start = seconds() - start;
	vs_writer_finish(writer);
	return start * 1e9 / (double)events;
}

static double by_reader(const char *path, uint64_t events)
{
	struct vramshim_trace *trace;
	struct vramshim_event event;
	uint64_t count = 0;
	double start = seconds();

	if (vramshim_trace_open(path, &trace) < 0)
		exit(2);
	while (vramshim_trace_next(trace, &event))
		count++;
	vramshim_trace_close(trace);
	if (count != events + 1) /* EXIT */
		exit(3);
	return (double)events / (seconds() - start);
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;
	const char *folder = argc > 2 ? argv[2] : "/tmp";
	double write_ns, append_ns, read_rate;
	char path[4096];
	struct stat status = {0};
	struct rusage usage;

	if (!events || snprintf(path, sizeof(path), "%s/bench-trace-%d", folder, getpid()) >= (int)sizeof(path)) {
		fprintf(stderr, "usage: bench_trace [EVENTS] [FOLDER]\n");
		return 2;
	}
	write_ns = by_write(path, events / 10 + 1);
	unlink(path);
	append_ns = by_writer(path, events);
	stat(path, &status);
	read_rate = by_reader(path, events);
	getrusage(RUSAGE_SELF, &usage);
	unlink(path);
	printf("append_ns %.1f\n", append_ns);
	printf("write_ns %.1f\n", write_ns);
	printf("write_to_append %.1f\n", write_ns / append_ns);
	printf("bytes_per_event %.2f\n", (double)status.st_size / (double)events);
	printf("read_events_per_s %.0f\n", read_rate);
	printf("max_rss_kib %ld\n", usage.ru_maxrss);
	return 0;
}
