/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process.h"
#include "shim/thread.h"
#include "trace/writer.h"

__thread struct vs_thread vs_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));
bool vs_recording;

static pthread_key_t exit_key;
static atomic_int exit_key_state; /* 0 none, 1 being made, 2 there, 3 impossible */

/* Runs among the thread's other destructors; those after it may still free GPU memory. */
static void retire(void *value)
{
	struct vs_log *log = vs_thread.log;

	(void)value;
	vs_thread.dead = true;
	vs_thread.log = NULL;
	/* A log from before a fork belongs to the parent. */
	if (vs_thread.process == vs_process_peek())
		vs_log_retire(log);
	vs_thread.process = NULL;
}

int vs_thread_prepare(void)
{
	int state = 0;

	if (atomic_compare_exchange_strong(&exit_key_state, &state, 1))
		atomic_store(&exit_key_state, pthread_key_create(&exit_key, retire) ? 3 : 2);
	return 0;
}

static void attach(struct vs_process *process)
{
	vs_thread.process = process;
	vs_thread.id = (uint32_t)syscall(SYS_gettid);
	/* Without a destructor the chunk would stay open until the process ends, which is only untidy. */
	if (atomic_load(&exit_key_state) == 2)
		pthread_setspecific(exit_key, &vs_thread);
	vs_thread.log = vs_log_new(process->writer, vs_thread.id);
}

/* The few events after a thread's end share one log. Spinning is fair: an append is some 50 ns. */
static void append_spilled(struct vs_process *process, struct vramshim_event *event)
{
	event->thread = (uint32_t)syscall(SYS_gettid);
	while (atomic_flag_test_and_set_explicit(&process->spill_lock, memory_order_acquire))
		sched_yield();
	if (!process->spill)
		process->spill = vs_log_new(process->writer, event->thread);
	if (process->spill)
		vs_log_append(process->spill, event);
	atomic_flag_clear_explicit(&process->spill_lock, memory_order_release);
}

void vs_thread_append(struct vs_process *process, struct vramshim_event *event)
{
	if (vs_thread.dead) {
		append_spilled(process, event);
		return;
	}
	if (vs_thread.process != process)
		attach(process);
	event->thread = vs_thread.id;
	if (vs_thread.log)
		vs_log_append(vs_thread.log, event);
}
