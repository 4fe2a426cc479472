/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/section.h"
#include "shim/process.h"
#include "shim/sample.h"
#include "shim/stack.h"
#include "shim/thread.h"
#include "trace/writer.h"

__thread struct vs_thread vs_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));
bool vs_recording;

static pthread_key_t exit_key;
static atomic_int exit_key_state; /* 0 none, 1 being made, 2 there, 3 impossible */

bool vs_thread_was_left(void)
{
	stack_t stack;

	/* A handler's own stack may lie anywhere, and what it interrupted goes on afterwards. */
	return sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_ONSTACK);
}

/* Runs among the thread's other destructors. Those after it may still free GPU memory: the thread then gets a new
 * log, and, since that sets the key again, another call of this (up to PTHREAD_DESTRUCTOR_ITERATIONS, 4; a log made
 * after that stays open, which costs its chunk). */
static void retire(void *value)
{
	struct vs_log *log = vs_thread.log;
	struct vs_section section;

	(void)value;
	vs_section_enter(&section);
	if (vs_thread.in_call) /* it ended within the real call */
		vs_sample_call_ends();
	vs_thread.log = NULL;
	vs_stacks_free(vs_thread.stacks);
	vs_thread.stacks = NULL;
	/* A log from before a fork belongs to the parent; one with half a record at its end, to nobody. */
	if (vs_thread.process == vs_process_peek() && !vs_thread.appending)
		vs_log_retire(log);
	vs_thread.process = NULL;
	vs_section_leave(&section);
}

void vs_thread_prepare(void)
{
	int state = 0;

	if (atomic_compare_exchange_strong(&exit_key_state, &state, 1))
		atomic_store(&exit_key_state, pthread_key_create(&exit_key, retire) ? 3 : 2);
}

void vs_thread_attach_anew(struct vs_process *process)
{
	struct vs_section section;

	vs_section_enter(&section);
	/* A forked child has its parent's, of the parent's ids. Else a capture of this thread may come back to them.
	 */
	if (vs_thread.stacks && vs_thread.process != process)
		vs_stacks_restart(vs_thread.stacks);
	vs_thread.process = process;
	vs_thread.appending = false;
	vs_thread.id = (uint32_t)syscall(SYS_gettid);
	/* Without a destructor the chunk would stay open until the process ends, which is only untidy. */
	if (atomic_load(&exit_key_state) == 2)
		pthread_setspecific(exit_key, &vs_thread);
	vs_thread.log = vs_log_new(process->writer, vs_thread.id);
	if (!vs_thread.stacks)
		vs_thread.stacks = vs_stacks_new();
	vs_section_leave(&section);
}

void vs_thread_append(struct vs_process *process, struct vramshim_event *event)
{
	vs_thread_attach(process);
	event->thread = vs_thread.id;
	if (!vs_thread.log)
		return;
	vs_thread.appending = true;
	/* For a handler on this thread, as in vs_enter(). */
	__asm__ volatile("" ::: "memory");
	vs_log_append(vs_thread.log, event);
	__asm__ volatile("" ::: "memory");
	vs_thread.appending = false;
}
