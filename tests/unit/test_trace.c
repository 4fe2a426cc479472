/* SPDX-License-Identifier: MIT
 *
 * What one side writes the other reads: events, tables, threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trace/writer_state.h>
#include <unistd.h>

#include "trace_helper.h"

struct fixture {
	char *folder;
	char *path;
	struct vs_writer *writer;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->folder = scratch_make();
	fixture->path = scratch_path(fixture->folder, "a.vst");
	assert_int_equal(vs_writer_open(fixture->path, 0, &fixture->writer), 0);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	scratch_remove(fixture->folder);
	free(fixture->path);
	free(fixture);
	return 0;
}

static struct vramshim_trace *open_trace(const struct fixture *fixture)
{
	struct vramshim_trace *trace;

	assert_int_equal(vramshim_trace_open(fixture->path, &trace), 0);
	return trace;
}

static void test_all_fields(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 77);
	enum { EVENTS = 100000 };
	uint64_t seed = 1;
	struct vramshim_event event, wanted;
	struct vramshim_trace *trace;

	for (int i = 0; i < EVENTS; i++) {
		event = random_event(&seed);
		vs_log_append(log, &event);
	}
	trace = open_trace(fixture);
	for (int pass = 0; pass < 2; pass++) {
		seed = 1;
		for (int i = 0; i < EVENTS; i++) {
			wanted = random_event(&seed);
			assert_int_equal(vramshim_trace_next(trace, &event), 1);
			assert_same_content(&event, &wanted);
			assert_int_equal(event.sequence, i + 1);
			assert_int_equal(event.thread, 77);
		}
		assert_int_equal(vramshim_trace_next(trace, &event), 0);
		assert_int_equal(vramshim_trace_next(trace, &event), 0);
		vramshim_trace_rewind(trace);
	}
	assert_int_equal(vramshim_trace_info(trace)->damaged, 0);
	assert_int_equal(vramshim_trace_info(trace)->lost, 0);
	vramshim_trace_close(trace);
}

static void test_unused_fields_are_ignored(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	struct vramshim_event event = {
	    .type = VRAMSHIM_MEMINFO, .device = 1, .size = 5, .address = 6, .stack = 7, .result = 8};
	struct vramshim_event wanted = {.type = VRAMSHIM_MEMINFO, .device = 1, .size = 5};
	struct vramshim_trace *trace;

	vs_log_append(log, &event);
	event.type = 0; /* no event at all */
	vs_log_append(log, &event);
	event.type = VRAMSHIM_EXIT + 1;
	vs_log_append(log, &event);
	trace = open_trace(fixture);
	assert_int_equal(vramshim_trace_next(trace, &event), 1);
	assert_same_content(&event, &wanted);
	assert_int_equal(vramshim_trace_next(trace, &event), 0);
	vramshim_trace_close(trace);
}

/* Several threads: each event carries its thread and its number in it. */
enum { THREADS = 4, PER_THREAD = 40000 };

struct worker {
	pthread_t thread;
	struct vs_writer *writer;
	uint32_t id;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct vs_log *log = vs_log_new(worker->writer, worker->id);
	uint64_t seed = worker->id;

	for (int i = 0; i < PER_THREAD; i++) {
		struct vramshim_event event = random_event(&seed);

		vs_log_append(log, &event);
	}
	vs_log_retire(log);
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *fixture = *state;
	struct worker workers[THREADS];
	uint64_t seeds[THREADS], counts[THREADS] = {0};
	struct vramshim_event event, wanted;
	struct vramshim_trace *trace;
	uint64_t sequence = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.writer = fixture->writer, .id = 100 + i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		seeds[i] = 100 + i;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	vs_writer_finish(fixture->writer);
	trace = open_trace(fixture);
	while (vramshim_trace_next(trace, &event) && event.sequence <= THREADS * PER_THREAD) {
		unsigned i = event.thread - 100;

		assert_true(i < THREADS);
		wanted = random_event(&seeds[i]);
		assert_same_content(&event, &wanted);
		assert_int_equal(event.sequence, ++sequence);
		counts[i]++;
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(counts[i], PER_THREAD);
	assert_int_equal(event.type, VRAMSHIM_EXIT);
	assert_true(vramshim_trace_info(trace)->clean_exit);
	assert_false(vramshim_trace_info(trace)->running);
	assert_int_equal(vramshim_trace_next(trace, &event), 0);
	vramshim_trace_close(trace);
}

static void test_many_short_threads(void **state)
{
	struct fixture *fixture = *state;
	struct vramshim_trace *trace;
	struct vramshim_event event;
	struct stat status;

	for (uint32_t i = 1; i <= 5000; i++) {
		struct vs_log *log = vs_log_new(fixture->writer, i);

		vs_log_append(
		    log, &(struct vramshim_event){.type = VRAMSHIM_TORCH_ALLOC, .address = i * 512, .size = 512});
		vs_log_retire(log);
	}
	trace = open_trace(fixture);
	for (uint32_t i = 1; i <= 5000; i++) {
		assert_int_equal(vramshim_trace_next(trace, &event), 1);
		assert_int_equal(event.thread, i);
		assert_int_equal(event.address, i * 512);
	}
	vramshim_trace_close(trace);
	vs_writer_finish(fixture->writer);
	assert_int_equal(stat(fixture->path, &status), 0);
	assert_true(status.st_size <= 3 * 65536); /* one chunk of definitions, two of events */
}

static void test_finish(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	struct vramshim_event event = {.type = VRAMSHIM_MARK, .name = 1};
	struct vramshim_trace *trace = open_trace(fixture);

	assert_true(vramshim_trace_info(trace)->running);
	assert_int_equal(vramshim_trace_info(trace)->pid, getpid());
	assert_false(vramshim_trace_info(trace)->clean_exit);
	vramshim_trace_close(trace);

	vs_log_append(log, &event);
	vs_writer_finish(fixture->writer);
	vs_writer_finish(fixture->writer);
	vs_writer_finish(NULL);
	vs_log_append(log, &event);
	assert_int_equal(vs_writer_string(fixture->writer, "late", 4), 0);
	assert_null(vs_log_new(fixture->writer, 2));
	vs_log_retire(log);
	vs_log_retire(NULL);

	trace = open_trace(fixture);
	assert_int_equal(count_events(trace), 2);
	assert_int_equal(vramshim_trace_info(trace)->lost, 0);
	vramshim_trace_close(trace);
}

/* exit() in a signal handler that interrupted the writer, or in another thread while this one is stopped in it. */
static void test_finish_while_locked(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	struct vramshim_event event = {.type = VRAMSHIM_TORCH_ALLOC, .address = 512, .size = 512};
	struct vramshim_trace *trace;

	vs_log_append(log, &event);
	pthread_mutex_lock(&fixture->writer->lock);
	pthread_mutex_lock(&fixture->writer->file.lock);
	alarm(20); /* instead of waiting for ever */
	vs_writer_finish(fixture->writer);
	alarm(0);
	trace = open_trace(fixture);
	assert_int_equal(count_events(trace), 2);
	assert_true(vramshim_trace_info(trace)->clean_exit);
	vramshim_trace_close(trace);
}

static void test_totals(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	struct vramshim_event event = {.type = VRAMSHIM_TORCH_ALLOC, .device = 3, .size = 512};
	const struct vramshim_device_totals *totals;
	struct vramshim_trace *trace;

	event.allocated = 1000, event.reserved = 2000;
	vs_log_append(log, &event);
	event.allocated = 3000, event.reserved = 1500;
	vs_log_append(log, &event);
	event.type = VRAMSHIM_TORCH_FREE;
	event.allocated = 10, event.reserved = 20;
	vs_log_append(log, &event);
	event.type = VRAMSHIM_TORCH_OOM;
	event.allocated = 99999;
	vs_log_append(log, &event);
	event.type = VRAMSHIM_CUDA_ALLOC;
	event.device = 5;
	vs_log_append(log, &event);
	event.type = VRAMSHIM_TORCH_ALLOC;
	event.device = -1;
	vs_log_append(log, &event);

	trace = open_trace(fixture);
	totals = vramshim_trace_device(trace, 3);
	assert_non_null(totals);
	assert_int_equal(totals->allocated, 10);
	assert_int_equal(totals->reserved, 20);
	assert_int_equal(totals->allocated_peak, 3000);
	assert_int_equal(totals->reserved_peak, 2000);
	assert_int_equal(totals->allocations, 2);
	assert_int_equal(totals->frees, 1);
	assert_int_equal(totals->ooms, 1);
	assert_null(vramshim_trace_device(trace, 5));
	assert_null(vramshim_trace_device(trace, -1));
	assert_null(vramshim_trace_device(trace, 64));
	vramshim_trace_close(trace);
}

/* The size the design allows: an alternating stream as PyTorch makes it, steps of a few thousand blocks whose stacks
 * and addresses come back, with temporaries in between. */
static void test_size_per_event(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	enum { BLOCKS = 1200, STEPS = 50 };
	uint64_t allocated = 0, events = 0, seed = 9;
	uint64_t sizes[BLOCKS], addresses[BLOCKS];
	struct stat status;

	for (int i = 0; i < BLOCKS; i++) {
		sizes[i] = 512 * (1 + random_below(&seed, 100000));
		addresses[i] = UINT64_C(0x7f0000000000) + 512 * random_below(&seed, 20000000);
	}
	for (int i = 0; i < 2 * BLOCKS * STEPS; i++) {
		int block = i / 2 % BLOCKS;
		struct vramshim_event event = {.type = VRAMSHIM_TORCH_ALLOC,
		                               .stack = (uint32_t)(1 + block % 97 + 300 * (i & 1)),
		                               .address = addresses[block],
		                               .size = sizes[block],
		                               .reserved = 1 << 30};
		/* Even: allocate. Odd: free the one allocated two steps before. */
		if (i & 1) {
			int old = (block + BLOCKS - 2) % BLOCKS;

			if (i < 5)
				continue;
			event.type = VRAMSHIM_TORCH_FREE;
			event.address = addresses[old];
			event.size = sizes[old];
			allocated -= event.size;
		} else {
			allocated += event.size;
		}
		event.allocated = allocated;
		vs_log_append(log, &event);
		events++;
	}
	vs_writer_finish(fixture->writer);
	assert_int_equal(stat(fixture->path, &status), 0);
	print_message("%.2f bytes an event\n", (double)status.st_size / (double)events);
	assert_true((uint64_t)status.st_size <= 8 * events);
}

static void test_fork(void **state)
{
	struct fixture *fixture = *state;
	struct vs_log *log = vs_log_new(fixture->writer, 1);
	struct vramshim_event event = {.type = VRAMSHIM_TORCH_ALLOC, .allocated = 512};
	struct vramshim_trace *trace;
	int status;
	pid_t child;

	vs_log_append(log, &event);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct vs_writer *own = NULL;
		char *path = scratch_path(fixture->folder, "child.vst");
		uint32_t id;

		event.allocated = 1 << 20;
		vs_log_append(log, &event);
		id = vs_writer_string(fixture->writer, "child", 5);
		vs_log_retire(log);
		vs_writer_finish(fixture->writer);
		if (vs_writer_open(path, 0, &own) < 0)
			_exit(2);
		vs_log_append(vs_log_new(own, 2), &event);
		_exit(id != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	vs_log_append(log, &event);
	assert_int_equal(vs_writer_string(fixture->writer, "parent", 6), 1);

	trace = open_trace(fixture);
	assert_int_equal(count_events(trace), 2);
	assert_string_equal(vramshim_trace_string(trace, 1), "parent");
	assert_int_equal(vramshim_trace_device(trace, 0)->allocated_peak, 512);
	assert_true(vramshim_trace_info(trace)->running);
	vramshim_trace_close(trace);

	free(fixture->path);
	fixture->path = scratch_path(fixture->folder, "child.vst");
	trace = open_trace(fixture);
	assert_int_equal(count_events(trace), 1);
	assert_int_equal(vramshim_trace_info(trace)->pid, child);
	assert_false(vramshim_trace_info(trace)->running);
	vramshim_trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_all_fields, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_unused_fields_are_ignored, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_many_short_threads, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_finish, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_finish_while_locked, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_totals, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_size_per_event, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
