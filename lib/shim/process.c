/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/section.h"
#include "shim/dlopen.h"
#include "shim/facts.h"
#include "shim/loader.h"
#include "shim/native_stack.h"
#include "shim/oom_report.h"
#include "shim/process.h"
#include "shim/python_stack.h"
#include "shim/symbols.h"
#include "shim/thread.h"
#include "trace/writer.h"

enum state {
	STATE_NONE, /* also what a forked child finds: the kernel wipes the page */
	STATE_STARTING,
	STATE_READY,
	STATE_OFF,
};

/* glibc's pthread_atfork() is a call of this (nptl/pthread_atfork.c). By another C library's loader, which a job may
 * start a program with, what is missing and not weak would be refused, and the program with it. So this library calls
 * nothing else that is glibc's alone. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

_Atomic(struct vs_process_page *) vs_process_page;
struct vs_settings vs_settings;

/* A job may not fork into more trace files of one pid than this (a pid that was used again). */
#define MAX_FILES_PER_PID 1000
/* How long an event waits for another thread to start the recording, before it goes unrecorded. */
#define START_WAIT_NS 1000000000

/* A daemon that closed its standard streams soon has a file of its own under that number. Streams for messages are
 * terminals, pipes, local sockets (systemd's journal), and files that are opened for writing alone; what is read as
 * well, or leads into the network, is data. */
static bool stderr_is_for_messages(void)
{
	struct stat status;
	int domain = 0;
	socklen_t size = sizeof(domain);

	if (fstat(STDERR_FILENO, &status) < 0)
		return false;
	if (S_ISREG(status.st_mode))
		return (syscall(SYS_fcntl, STDERR_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY;
	if (S_ISSOCK(status.st_mode))
		return getsockopt(STDERR_FILENO, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
	return S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode);
}

void vs_say(const char *format, ...)
{
	char line[512] = "vramshim: ";
	size_t used = strlen(line);
	va_list arguments;
	int length;

	if (!stderr_is_for_messages())
		return;
	va_start(arguments, format);
	length = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	used += (size_t)length < sizeof(line) - used - 1 ? (size_t)length : sizeof(line) - used - 2;
	line[used++] = '\n';
	/* Not write(): it is a cancellation point, and the thread may not vanish here. */
	syscall(SYS_write, STDERR_FILENO, line, used);
}

static void wipe_in_child(void)
{
	struct vs_process_page *shared = atomic_load(&vs_process_page);

	if (shared)
		memset(shared, 0, sizeof(*shared));
}

static struct vs_process_page *page_get(void)
{
	struct vs_process_page *shared = atomic_load_explicit(&vs_process_page, memory_order_acquire), *other = NULL;
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	if (shared)
		return shared;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return NULL;
	/* Kernels before 4.14 cannot wipe; fork() as libc knows it is then the only one noticed. */
	if (madvise(shared, size, MADV_WIPEONFORK) < 0)
		__register_atfork(NULL, NULL, wipe_in_child, &__dso_handle);
	if (atomic_compare_exchange_strong_explicit(&vs_process_page, &other, shared, memory_order_acq_rel,
	                                            memory_order_acquire))
		return shared;
	munmap(shared, size);
	return other;
}

static int open_writer(struct vs_process *process)
{
	char host[65] = "";
	int r = -EEXIST;

	gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		if (*c == '/')
			*c = '_';
	for (int i = 1; r == -EEXIST && i <= MAX_FILES_PER_PID; i++) {
		char suffix[16] = "";
		int length;

		if (i > 1)
			snprintf(suffix, sizeof(suffix), "-%d", i);
		length = snprintf(process->path, sizeof(process->path), "%s/%s-%d%s.vst", vs_settings.directory, host,
		                  (int)getpid(), suffix);
		if (length < 0 || (size_t)length >= sizeof(process->path))
			return -ENAMETOOLONG;
		r = vs_writer_open(process->path, vs_settings.max_size, &process->writer);
	}
	return r;
}

static struct vs_process *process_new(void)
{
	struct vs_process *process =
	    mmap(NULL, sizeof(*process), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (process == MAP_FAILED) {
		vs_say("no memory for the recorder: recording is off in process %d", (int)getpid());
		return NULL;
	}
	pthread_mutex_init(&process->intern_lock, NULL);
	process->level = vs_settings.level;
	vs_idmap_init(&process->stacks, VS_MAX_STACKS);
	vs_idmap_init(&process->codes, VS_MAX_STACKS);
	vs_idmap_init(&process->frames, VS_MAX_STACKS);
	vs_idmap_init(&process->strings, VS_MAX_STACKS);
	vs_idmap_init(&process->modules, VS_MAX_STACKS);
	r = open_writer(process);
	if (r < 0) {
		vs_say("cannot write a trace: %s: %s: recording is off in process %d", vs_settings.directory,
		       strerror(-r), (int)getpid());
		munmap(process, sizeof(*process));
		return NULL;
	}
	return process;
}

/* Another thread is starting the recording: its final state, or STATE_STARTING after a while. */
static int wait_for_start(struct vs_process_page *shared)
{
	uint64_t begin = vs_clock_exact();
	int state;

	while ((state = atomic_load_explicit(&shared->state, memory_order_acquire)) == STATE_STARTING &&
	       vs_clock_exact() - begin < START_WAIT_NS)
		sched_yield();
	return state;
}

/* ThreadSanitizer sees our locks and copies, but no atomic of ours, and would report races that are none; one that it
 * reports while the list of libraries is held never ends. */
static bool is_watched(void)
{
#ifdef __SANITIZE_THREAD__
	return false;
#else
	return vs_symbol_find("__tsan_init");
#endif
}

static struct vs_process *start(void)
{
	struct vs_process_page *shared = page_get();
	struct vs_process *process;
	int state = STATE_NONE;

	if (!shared)
		return NULL;
	if (atomic_load(&shared->state) == STATE_NONE && is_watched() &&
	    atomic_compare_exchange_strong(&shared->state, &state, STATE_OFF)) {
		__atomic_store_n(&vs_recording, false, __ATOMIC_SEQ_CST);
		vs_say("a program with ThreadSanitizer cannot be recorded: recording is off in process %d",
		       (int)getpid());
	}
	state = STATE_NONE;
	/* What takes the loader's lock comes first, while nobody waits for us. */
	if (atomic_load(&shared->state) == STATE_NONE) {
		vs_thread_prepare();
		vs_dlopen_keep();
		if (vs_settings.level == VS_LEVEL_FULL || vs_settings.level == VS_LEVEL_NATIVE)
			vs_native_prepare();
		vs_python_prepare();
	}
	if (!atomic_compare_exchange_strong(&shared->state, &state, STATE_STARTING)) {
		if (state == STATE_STARTING)
			state = wait_for_start(shared);
		return state == STATE_READY ? atomic_load(&shared->process) : NULL;
	}
	/* Sequentially consistent, like the pair in unload(): either it sees us starting, or we see it leaving. */
	process = __atomic_load_n(&vs_recording, __ATOMIC_SEQ_CST) ? process_new() : NULL;
	if (!process) {
		__atomic_store_n(&vs_recording, false, __ATOMIC_SEQ_CST);
		atomic_store(&shared->state, STATE_OFF);
		return NULL;
	}
	atomic_store(&shared->process, process);
	/* Release: the recording is complete before another thread takes it. */
	atomic_store_explicit(&shared->state, STATE_READY, memory_order_release);
	vs_facts_record(process);
	return process;
}

static struct vs_process *process_start(void)
{
	struct vs_process *process;
	struct vs_section section;

	vs_section_enter(&section);
	process = start();
	vs_section_leave(&section);
	return process;
}

struct vs_process *vs_process_get(void)
{
	struct vs_process *process = vs_process_peek();

	return process ? process : process_start();
}

const char *const vs_level_names[VS_LEVELS] = {
    [VS_LEVEL_FULL] = "full",
    [VS_LEVEL_LIGHT] = "light",
    [VS_LEVEL_NATIVE] = "native",
    [VS_LEVEL_NONE] = "none",
};

/* Only what needs no other library: most processes under the preload never see a GPU. */
__attribute__((constructor)) static void load(void)
{
	const char *disable = getenv("VRAMSHIM_DISABLE"), *level = getenv("VRAMSHIM_LEVEL");
	const char *size = getenv("VRAMSHIM_MAX_SIZE"), *nvml = getenv("VRAMSHIM_NVML");
	const char *directory = getenv("VRAMSHIM_OUT");

	vs_loader_resolve();
	if ((disable && *disable && strcmp(disable, "0")) || !directory || !*directory || !vs_loader.dlvsym)
		return;
	/* Copied: the job may change its environment. Never freed: hooks run until the very end. */
	vs_settings.directory = strdup(directory);
	if (!vs_settings.directory)
		return;
	if (size)
		vs_settings.max_size = strtoull(size, NULL, 10);
	vs_settings.no_nvml = nvml && !strcmp(nvml, "0");
	for (unsigned int i = 0; level && i < sizeof(vs_level_names) / sizeof(vs_level_names[0]); i++)
		if (!strcmp(level, vs_level_names[i]))
			vs_settings.level = (enum vs_level)i;
	vs_oom_report_prepare();
	vs_recording = true;
}

__attribute__((destructor)) static void unload(void)
{
	struct vs_process_page *shared;
	struct vs_process *process;

	__atomic_store_n(&vs_recording, false, __ATOMIC_SEQ_CST);
	shared = atomic_load(&vs_process_page);
	if (!shared || wait_for_start(shared) != STATE_READY)
		return;
	process = atomic_load(&shared->process);
	atomic_store(&shared->state, STATE_OFF);
	/* A signal handler that calls exit() may have interrupted us with a lock held, which finishing does not need.
	 */
	if (!vs_thread.hook)
		vs_facts_finish(process);
	vs_enter();
	vs_writer_finish(process->writer);
	vs_leave();
}
