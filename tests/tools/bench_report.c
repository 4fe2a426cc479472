/* SPDX-License-Identifier: MIT
 *
 * What a report costs: `bench_report [EVENTS] [FOLDER]` analyses a trace of so many events, and one four times as
 * long. One line of name and value a measure, for scripts. Bars: 5 million events a second on one core; memory
 * that does not grow with the trace.
 *
 * The trace is a training job's: 32 layers of 24 blocks a forward, on the main thread, of which two thirds live until
 * autograd's thread frees them among its own temporaries; then an optimizer's temporaries. Times are of the
 * processor, user and system.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ledger/analyse.h"
#include "trace/writer.h"

enum { LAYERS = 32, PER_LAYER = 24, PARAMETERS = 300, STACKS_A_PHASE = 200 };

struct job {
	struct vs_writer *writer;
	struct vs_log *main, *autograd;
	uint32_t setup, forward[STACKS_A_PHASE], backward[STACKS_A_PHASE], optimizer[STACKS_A_PHASE];
	uint64_t allocated, events;
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* `line` tells apart stacks of the same functions. */
static uint32_t stack(struct job *job, const char *const *names, int32_t line)
{
	uint32_t frames[8];
	struct vramshim_stack stack = {.python = frames};

	for (; *names; names += 2) {
		uint32_t file = vs_writer_string(job->writer, names[0], strlen(names[0]));
		uint32_t function = vs_writer_string(job->writer, names[1], strlen(names[1]));
		uint32_t code = vs_writer_code(job->writer, file, function, (uint32_t)(10 + line), NULL, 0);

		frames[stack.python_count++] = vs_writer_python_frame(job->writer, code, -1);
	}
	return vs_writer_stack(job->writer, &stack);
}

static void event(struct job *job, struct vs_log *log, bool frees, uint64_t block, uint32_t id)
{
	struct vramshim_event event = {
	    .type = frees ? VRAMSHIM_TORCH_FREE : VRAMSHIM_TORCH_ALLOC,
	    .stack = id,
	    .address = UINT64_C(0x7f4000000000) + block * 8388608,
	    .size = 512 * (1 + block % PER_LAYER * 1024),
	    .reserved = UINT64_C(20) << 30,
	};

	job->allocated += frees ? -event.size : event.size;
	event.allocated = job->allocated;
	vs_log_append(log, &event);
	job->events++;
}

static void step(struct job *job)
{
	enum { ACTIVATIONS = PARAMETERS, TEMPORARIES = ACTIVATIONS + LAYERS * PER_LAYER };

	for (uint32_t i = 0; i < LAYERS * PER_LAYER; i++) {
		event(job, job->main, false, ACTIVATIONS + i, job->forward[i % STACKS_A_PHASE]);
		if (i % 3 == 0)
			event(job, job->main, true, ACTIVATIONS + i, job->forward[(i + 1) % STACKS_A_PHASE]);
	}
	for (uint32_t i = LAYERS * PER_LAYER; i-- > 0;) {
		if (i % 3 == 0)
			continue;
		event(job, job->autograd, false, TEMPORARIES + i, job->backward[i % STACKS_A_PHASE]);
		event(job, job->autograd, true, ACTIVATIONS + i, job->backward[(i + 1) % STACKS_A_PHASE]);
		event(job, job->autograd, true, TEMPORARIES + i, job->backward[(i + 2) % STACKS_A_PHASE]);
	}
	for (uint32_t i = 0; i < PARAMETERS; i++) {
		event(job, job->main, false, TEMPORARIES + i, job->optimizer[i % STACKS_A_PHASE]);
		event(job, job->main, true, TEMPORARIES + i, job->optimizer[i % STACKS_A_PHASE]);
	}
}

static uint64_t write_trace(const char *path, uint64_t events)
{
	static const char *const setup[] = {"/p/torch/nn/modules/linear.py", "Linear.__init__", "/m/t.py", "main",
	                                    NULL};
	static const char *const forward[] = {"/p/torch/nn/modules/linear.py",
	                                      "Linear.forward",
	                                      "/p/torch/nn/modules/module.py",
	                                      "Module._call_impl",
	                                      "/m/t.py",
	                                      "main",
	                                      NULL};
	static const char *const backward[] = {"/p/torch/autograd/graph.py", "_engine_run_backward", "/m/t.py",
	                                       "main", NULL};
	static const char *const optimizer[] = {"/p/torch/optim/adamw.py", "AdamW.step", "/m/t.py", "main", NULL};
	struct job job = {.allocated = 0};

	if (vs_writer_open(path, UINT64_C(16) << 30, &job.writer) < 0)
		return 0;
	job.main = vs_log_new(job.writer, (uint32_t)getpid());
	job.autograd = vs_log_new(job.writer, (uint32_t)getpid() + 1);
	job.setup = stack(&job, setup, 0);
	for (int32_t i = 0; i < STACKS_A_PHASE; i++) {
		job.forward[i] = stack(&job, forward, i);
		job.backward[i] = stack(&job, backward, i);
		job.optimizer[i] = stack(&job, optimizer, i);
	}
	for (uint32_t i = 0; i < PARAMETERS; i++)
		event(&job, job.main, false, i, job.setup);
	while (job.events < events)
		step(&job);
	vs_writer_finish(job.writer);
	return job.events;
}

static void reading(const char *path)
{
	double start = seconds();
	struct vramshim_trace *trace;
	struct vramshim_event event;
	uint64_t events = 0;

	if (vramshim_trace_open(path, &trace) < 0)
		exit(2);
	while (vramshim_trace_next(trace, &event) > 0)
		events++;
	printf("read_events_per_s %.0f\n", (double)events / (seconds() - start));
	vramshim_trace_close(trace);
}

static void analysis(const char *path)
{
	double start = seconds();
	struct vramshim_trace *trace;
	struct vs_summary *summary;
	struct rusage usage;
	uint64_t events;

	if (vramshim_trace_open(path, &trace) < 0 || vs_analyse(trace, NULL, &summary) < 0)
		exit(2);
	start = seconds() - start;
	events = summary->devices[0].allocations + summary->devices[0].frees;
	if (summary->devices[0].peak.tags[VS_TAG_UNKNOWN] || !summary->steps)
		exit(3);
	getrusage(RUSAGE_SELF, &usage);
	printf("report_events_per_s %.0f\n", (double)events / start);
	printf("max_rss_kib %ld\n", usage.ru_maxrss);
	vs_summary_free(summary);
	vramshim_trace_close(trace);
}

/* Each in a process of its own: the highest memory is the process's. */
static int apart(void (*what)(const char *), const char *path)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		what(path);
		fflush(stdout);
		_exit(0);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 ? -1 : status;
}

int main(int argc, char **argv)
{
	uint64_t asked = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;
	const char *folder = argc > 2 ? argv[2] : "/tmp";
	int status = 0;
	char path[4096];

	if (!asked || snprintf(path, sizeof(path), "%s/bench-report-%d", folder, getpid()) >= (int)sizeof(path)) {
		fprintf(stderr, "usage: bench_report [EVENTS] [FOLDER]\n");
		return 2;
	}
	for (uint64_t events = asked; events <= 4 * asked && !status; events *= 4) {
		uint64_t written = write_trace(path, events);

		printf("events %lu\n", (unsigned long)written);
		status = written ? apart(reading, path) : -1;
		if (!status)
			status = apart(analysis, path);
		unlink(path);
	}
	if (status)
		fprintf(stderr, "bench_report: cannot write and read %s: give another folder\n", path);
	return status != 0;
}
