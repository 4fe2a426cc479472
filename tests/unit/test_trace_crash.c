/* SPDX-License-Identifier: MIT
 *
 * kill -9 at any instant, a reader beside a running writer, a full disk, a
 * size cap: what was finished is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_helper.h"

enum { THREADS = 4 };

/* The event number `i` of a thread: all of it follows from the two numbers. */
static struct vramshim_event numbered(uint32_t thread, uint64_t i)
{
	uint64_t seed = i / 2 * THREADS + thread;
	struct vramshim_event event = {.type = i & 1 ? VRAMSHIM_TORCH_FREE : VRAMSHIM_TORCH_ALLOC,
	                               .device = (int16_t)(thread % 2),
	                               .stack = (uint32_t)(i % 50)};

	if (i % 97 == 96)
		event = (struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC, .memory = VRAMSHIM_MEMORY_DEVICE};
	event.address = 512 * random_below(&seed, 1 << 25);
	event.size = 512 * random_below(&seed, 1 << 20);
	if (event.type != VRAMSHIM_CUDA_ALLOC) {
		event.allocated = i;
		event.reserved = i / 100;
	}
	return event;
}

/* Shared by the job and the test. */
struct progress {
	uint64_t
	    allowed; /* events a thread may write: the machine may be slow, the trace must not grow without bounds */
	uint64_t done[THREADS]; /* events whose append has returned */
};

static struct progress *progress_new(uint64_t allowed)
{
	struct progress *progress =
	    mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(progress != MAP_FAILED);
	progress->allowed = allowed;
	return progress;
}

static uint64_t load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

struct worker {
	struct vs_writer *writer;
	uint32_t thread;
	struct progress *progress;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct vs_log *log = vs_log_new(worker->writer, worker->thread);

	for (uint64_t i = 0;; i++) {
		struct vramshim_event event = numbered(worker->thread, i);

		while (i >= load(&worker->progress->allowed))
			usleep(50);
		vs_log_append(log, &event);
		__atomic_store_n(&worker->progress->done[worker->thread], i + 1, __ATOMIC_RELEASE);
		if (i % 64 == 0) { /* definitions race with the events */
			uint64_t native[] = {i, 1, 2, 3};

			vs_writer_stack(worker->writer,
			                &(struct vramshim_stack){.native = native, .native_count = 4});
		}
	}
	return NULL;
}

static _Noreturn void run_job(const char *path, struct progress *progress)
{
	struct worker workers[THREADS];
	struct vs_writer *writer;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (vs_writer_open(path, 0, &writer) < 0)
		_exit(1);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){writer, i, progress};
		pthread_create(&thread, NULL, work, &workers[i]);
	}
	for (;;)
		pause();
}

/* Every thread's events are there from its first on, unchanged and in order; returns how many of each. */
static void check_beginnings(struct vramshim_trace *trace, uint64_t counts[THREADS])
{
	struct vramshim_event event;
	uint64_t sequence = 0;

	memset(counts, 0, THREADS * sizeof(*counts));
	while (vramshim_trace_next(trace, &event)) {
		struct vramshim_event wanted;

		assert_true(event.thread < THREADS);
		assert_true(event.sequence > sequence);
		sequence = event.sequence;
		wanted = numbered(event.thread, counts[event.thread]++);
		assert_same_content(&event, &wanted);
	}
	assert_int_equal(vramshim_trace_info(trace)->damaged, 0);
}

static void check_prefixes(const char *path, uint64_t *seed)
{
	size_t size;
	uint8_t *data = read_whole(path, &size);

	for (int i = 0; i < 5; i++) {
		uint64_t counts[THREADS];
		struct vramshim_trace *trace;

		assert_int_equal(
		    vramshim_trace_open_memory(data, 4096 + (size_t)random_below(seed, size - 4096), &trace), 0);
		check_beginnings(trace, counts);
		vramshim_trace_close(trace);
	}
	free(data);
}

static void test_kill(void **state)
{
	enum { KILLS = 25 };
	struct progress *progress = progress_new(1000000);
	uint64_t seed = 3, total = 0;

	(void)state;
	for (int i = 0; i < KILLS; i++) {
		char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
		uint64_t counts[THREADS];
		struct vramshim_trace *trace;
		pid_t child;

		memset(progress->done, 0, sizeof(progress->done));
		child = fork();
		assert_true(child >= 0);
		if (!child)
			run_job(path, progress);
		while (!load(&progress->done[0]))
			usleep(100);
		usleep((useconds_t)random_below(&seed, 20000));
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);

		assert_int_equal(vramshim_trace_open(path, &trace), 0);
		assert_false(vramshim_trace_info(trace)->running);
		assert_false(vramshim_trace_info(trace)->clean_exit);
		assert_int_equal(vramshim_trace_info(trace)->lost, 0);
		check_beginnings(trace, counts);
		for (int j = 0; j < THREADS; j++) {
			/* One more may have been finished and not yet counted. */
			assert_in_range(counts[j], progress->done[j], progress->done[j] + 1);
			total += counts[j];
		}
		vramshim_trace_close(trace);
		check_prefixes(path, &seed);
		free(path);
		scratch_remove(folder);
	}
	assert_true(total > 1000 * KILLS);
	munmap(progress, sizeof(*progress));
}

static void test_read_while_running(void **state)
{
	struct progress *progress = progress_new(20000);
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
	uint64_t before[THREADS], counts[THREADS], again[THREADS];
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child)
		run_job(path, progress);
	while (!load(&progress->done[0]))
		usleep(100);
	for (int i = 0; i < 10; i++) {
		struct vramshim_trace *trace;

		__atomic_store_n(&progress->allowed, (uint64_t)(i + 2) * 20000, __ATOMIC_RELEASE);
		usleep(500);
		for (int j = 0; j < THREADS; j++)
			before[j] = load(&progress->done[j]);
		assert_int_equal(vramshim_trace_open(path, &trace), 0);
		assert_true(vramshim_trace_info(trace)->running);
		usleep(1000); /* the job goes on; the reader sees what was there */
		vramshim_trace_rewind(trace);
		check_beginnings(trace, counts);
		vramshim_trace_rewind(trace);
		check_beginnings(trace, again);
		for (int j = 0; j < THREADS; j++) {
			assert_true(counts[j] >= before[j]);
			/* An event in the making when the trace was opened may appear by the second pass. */
			assert_in_range(again[j], counts[j], counts[j] + 1);
		}
		vramshim_trace_close(trace);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(progress, sizeof(*progress));
	free(path);
	scratch_remove(folder);
}

/* Write more than fits, then see that what is there is a beginning and the totals are those of all. */
static void write_too_much(struct vs_writer *writer, uint64_t events)
{
	struct vs_log *logs[THREADS];
	uint64_t next[THREADS] = {0};

	for (uint32_t i = 0; i < THREADS; i++)
		logs[i] = vs_log_new(writer, i);
	for (uint64_t i = 0; i < events; i++) {
		uint32_t thread = i % 16 ? 0 : 1 + i / 16 % (THREADS - 1); /* most from one thread */
		struct vramshim_event event = numbered(thread, next[thread]++);

		vs_log_append(logs[thread], &event);
	}
	vs_writer_finish(writer);
}

static void check_too_much(const char *path, uint64_t events, uint64_t max_size)
{
	uint64_t recorded = 0, totals = 0;
	struct vramshim_trace *trace;
	struct vramshim_event event, last = {0};
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	assert_true((uint64_t)status.st_size <= max_size);
	assert_int_equal(vramshim_trace_open(path, &trace), 0);
	while (vramshim_trace_next(trace, &event) && event.type != VRAMSHIM_EXIT) {
		assert_int_equal(event.sequence, ++recorded); /* no holes */
		last = event;
	}
	assert_true(recorded > 1000);
	assert_true(last.sequence == recorded);
	assert_int_equal(event.type, VRAMSHIM_EXIT);
	assert_int_equal(vramshim_trace_info(trace)->lost, events - recorded);
	assert_true(vramshim_trace_info(trace)->clean_exit);
	for (int device = 0; device < 2; device++)
		totals +=
		    vramshim_trace_device(trace, device)->allocations + vramshim_trace_device(trace, device)->frees;
	assert_in_range(totals, events - events / 96 - THREADS, events); /* one in 97 is of another kind */
	vramshim_trace_close(trace);
}

static void test_size_cap(void **state)
{
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
	struct vs_writer *writer;

	(void)state;
	assert_int_equal(vs_writer_open(path, 131071, &writer), -EINVAL);
	assert_int_equal(vs_writer_open(path, 1500000, &writer), 0);
	write_too_much(writer, 500000);
	check_too_much(path, 500000, 1500000);
	free(path);
	scratch_remove(folder);
}

static void test_open_errors(void **state)
{
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst"),
	     *deep = scratch_path(folder, "no/a.vst");
	struct vs_writer *writer = NULL;
	char longest[5000];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(vs_writer_open(deep, 0, &writer), -ENOENT);
	assert_int_equal(vs_writer_open(longest, 0, &writer), -ENAMETOOLONG);
	write_whole(path, "mine", 4);
	assert_int_equal(vs_writer_open(path, 0, &writer), -EEXIST);
	assert_null(writer);
	free(path);
	free(deep);
	scratch_remove(folder);
}

/* In a child: a limit of 2.5 MB on the size of files, which would raise SIGXFSZ, deadly by default. */
static void test_file_size_limit(void **state)
{
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		struct rlimit limit = {2500000, 2500000};
		struct vs_writer *writer;

		setrlimit(RLIMIT_FSIZE, &limit);
		if (vs_writer_open(path, 0, &writer) < 0)
			_exit(1);
		write_too_much(writer, 1000000);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check_too_much(path, 1000000, 2500000);
	free(path);
	scratch_remove(folder);
}

/* A tmpfs of its own, in a mount namespace of its own. */
static int small_disk(const char *folder, const char *options)
{
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return mount("tmpfs", folder, "tmpfs", 0, options);
}

static void test_disk_full(void **state)
{
	enum { NO_MOUNT = 77 };
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		struct vs_writer *writer;
		char *filler = scratch_path(folder, "filler");

		if (small_disk(folder, "size=3m") < 0)
			_exit(NO_MOUNT);
		/* No room for the first chunk. */
		int fd = open(filler, O_WRONLY | O_CREAT, 0600);

		if (posix_fallocate(fd, 0, (3 << 20) - 16384) != 0)
			_exit(2);
		if (vs_writer_open(path, 0, &writer) != -ENOSPC || access(path, F_OK) == 0)
			_exit(3);
		unlink(filler);
		close(fd);
		if (vs_writer_open(path, 0, &writer) < 0)
			_exit(4);
		write_too_much(writer, 1000000);
		check_too_much(path, 1000000, 3 << 20);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	free(path);
	scratch_remove(folder);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNT)
		skip();
	assert_int_equal(status, 0);
}

/* A job that closes every descriptor, and gets the numbers for files of its own. */
static void test_closed_descriptors(void **state)
{
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst"), *other = scratch_path(folder, "other");
	pid_t child = fork();
	struct stat status_of_other;
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		struct vs_writer *writer;

		if (vs_writer_open(path, 0, &writer) < 0)
			_exit(1);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		for (int fd = open(other, O_RDWR | O_CREAT, 0600); fd >= 0 && fd < 600;)
			fd = dup(fd);
		write_too_much(writer, 500000);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(stat(other, &status_of_other), 0);
	assert_int_equal(status_of_other.st_size, 0);

	struct vramshim_trace *trace;

	assert_int_equal(vramshim_trace_open(path, &trace), 0);
	assert_int_equal(count_events(trace), 500001);
	vramshim_trace_close(trace);
	free(path);
	free(other);
	scratch_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kill),
	    cmocka_unit_test(test_read_while_running),
	    cmocka_unit_test(test_size_cap),
	    cmocka_unit_test(test_open_errors),
	    cmocka_unit_test(test_disk_full),
	    cmocka_unit_test(test_file_size_limit),
	    cmocka_unit_test(test_closed_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
