/* SPDX-License-Identifier: MIT
 *
 * PyTorch reports the error with its allocator's mutex held. The child needs nothing of this process but the trace's
 * file, so the wait ends whatever other threads do.
 */
#include "shim/oom_report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	WAIT_NS_MAX = 1900000000, /* what a job may lose to an error at the most */
	POLL_NS = 2000000,
	/* A job that catches the error tries again, with less or elsewhere, often within the same step. Steps are not
	 * known here; one that catches errors for good is not to be told more than a few times. */
	APART_S = 30,
	REPORTS_MAX = 4,
	CHILD_STACK = 16384, /* for a handful of system calls */
};

/* What the program needs of the environment: not what makes a process a recorded one. */
static const char *const names[] = {"PATH", "HOME",    "LANG",     "LC_ALL",         "LC_CTYPE",
                                    "TERM", "COLUMNS", "NO_COLOR", "LD_LIBRARY_PATH"};

#define NAMES (sizeof(names) / sizeof(names[0]))

static char within[] = "--within=1500"; /* milliseconds of WAIT_NS_MAX, to which starting it adds */
static char *program;                   /* NULL: off */
static bool uncached;
static char *variables[NAMES + 1];

void vs_oom_report_prepare(void)
{
	const char *path = getenv("VRAMSHIM_REPORT"), *mode = getenv("VRAMSHIM_OOM");
	size_t count = 0;

	uncached = getenv("PYTORCH_NO_CUDA_MEMORY_CACHING"); /* PyTorch does not look at its value */
	if (!path || path[0] != '/' || (mode && !strcmp(mode, "quiet")))
		return;
	/* Copied now: later the job may be changing its environment at the same moment. Never freed. */
	for (size_t i = 0; i < NAMES; i++) {
		const char *value = getenv(names[i]);
		if (value && asprintf(&variables[count], "%s=%s", names[i], value) >= 0)
			count++;
	}
	variables[count] = NULL;
	program = strdup(path);
}

bool vs_oom_report_uncached(void)
{
	return uncached;
}

/* Whether this one is to be told. Relaxed: two threads at once may both be, that is all. */
static int wanted(enum vs_oom_of of, uint32_t stack)
{
	static struct told {
		_Atomic int64_t last; /* seconds, 0: none yet */
		_Atomic uint32_t stack;
		_Atomic int reports;
	} all[VS_OOM_OF_COUNT];
	struct told *told = &all[of];
	int64_t now = (int64_t)(vs_clock_exact() / 1000000000);

	if (!program)
		return 0;
	int64_t before = atomic_load_explicit(&told->last, memory_order_relaxed);
	if (before &&
	    (now - before < APART_S || (stack && stack == atomic_load_explicit(&told->stack, memory_order_relaxed))))
		return 0;
	atomic_store_explicit(&told->last, now + 1, memory_order_relaxed);
	atomic_store_explicit(&told->stack, stack, memory_order_relaxed);
	return atomic_fetch_add_explicit(&told->reports, 1, memory_order_relaxed) < REPORTS_MAX;
}

/* Both processes below share the job's memory, and its thread waits for the first to end: they make system calls and
 * write to nothing but this. All signals are blocked, or a handler of the job's would run in them. */
struct run {
	char *arguments[6];
	_Alignas(16) char keeper_stack[CHILD_STACK];
	_Alignas(16) char program_stack[CHILD_STACK];
};

static int become_program(void *argument)
{
	struct run *run = argument;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(127);
	execve(run->arguments[0], run->arguments, variables);
	_exit(127);
}

/* Whose child the program is: whatever executes another program sends SIGCHLD to its parent when it ends, and is
 * found by its wait(). This one does neither, as it was cloned without an exit signal. */
static int keeper(void *argument)
{
	const struct timespec pause = {.tv_nsec = POLL_NS};
	struct run *run = argument;
	uint64_t begin;
	pid_t pid = clone(become_program, run->program_stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, run);

	if (pid < 0)
		_exit(1);
	begin = vs_clock_exact();
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (vs_clock_exact() - begin > WAIT_NS_MAX) {
			kill(pid, SIGKILL);
			_exit(1); /* init buries it */
		}
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

void vs_oom_report(const char *trace, enum vs_oom_of of, uint32_t stack)
{
	int saved = errno, cancel;
	sigset_t all, before;
	struct run *run;

	if (!wanted(of, stack))
		return;
	/* Not on this thread's stack, which may be small. */
	run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (run == MAP_FAILED) {
		errno = saved;
		return;
	}
	run->arguments[0] = program;
	run->arguments[1] = "oom";
	run->arguments[2] = "--brief";
	run->arguments[3] = (char *)trace;
	run->arguments[4] = within;
	run->arguments[5] = NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(keeper, run->keeper_stack + CHILD_STACK, CLONE_VM | CLONE_VFORK, run);
	if (pid > 0)
		waitpid(pid, NULL, __WALL); /* without an exit signal, it is no child to other calls */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, NULL);
	munmap(run, sizeof(*run));
	errno = saved;
}
