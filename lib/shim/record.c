/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "shim/device.h"
#include "shim/oom_report.h"
#include "shim/process.h"
#include "shim/record.h"
#include "shim/stack.h"
#include "shim/thread.h"

static void record(struct vs_process *process, struct vramshim_event *event)
{
	vs_thread_attach(process);
	event->stack = vs_stack_capture(process, event->type);
	vs_thread_append(process, event);
	vs_device_seen(process, event);
}

/* What a thread has while it records, to be as it was afterwards. */
struct thread_state {
	int error;
	int cancel, cancel_type;
};

/* The recording, or NULL. A thread that is cancelled must not vanish here: opening files, or libunwind's probing of
 * memory, would let it, with a lock held or the recording half started. */
static struct vs_process *begin(struct thread_state *state)
{
	state->error = errno;
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &state->cancel_type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state->cancel);
	return vs_process_get();
}

static void end(const struct thread_state *state)
{
	/* In this order: base/section.c says why. */
	pthread_setcancelstate(state->cancel, NULL);
	pthread_setcanceltype(state->cancel_type, NULL);
	errno = state->error;
}

void vs_record(struct vramshim_event *event)
{
	struct vs_process *process = vs_process_peek();
	struct thread_state state;

	/* The common case: no lock, and no cancellation point but behind a guard of its own. */
	if (process && vs_thread.process == process) {
		state.error = errno;
		record(process, event);
		errno = state.error;
		return;
	}
	process = begin(&state);
	if (process)
		record(process, event);
	end(&state);
}

/* The string id of a CUDA call's name, interned at its first event. */
static uint32_t entry_name(struct vs_process *process, enum vs_entry entry)
{
	uint32_t id = atomic_load_explicit(&process->entry_names[entry], memory_order_acquire);

	if (!id) {
		id = vs_stack_string(process, vs_entries[entry].export, strlen(vs_entries[entry].export));
		atomic_store_explicit(&process->entry_names[entry], id, memory_order_release);
	}
	return id;
}

void vs_record_call(enum vs_entry entry, struct vramshim_event *event)
{
	struct thread_state state;
	struct vs_process *process = begin(&state);

	if (process) {
		event->name = entry_name(process, entry);
		record(process, event);
	}
	end(&state);
}

void vs_record_refusal(enum vs_entry entry, struct vramshim_event *event, bool repeated)
{
	struct thread_state state;
	struct vs_process *process = begin(&state);

	if (process) {
		event->name = entry_name(process, entry);
		record(process, event);
		if (!repeated || vs_oom_report_uncached())
			vs_oom_report(process->path, VS_OOM_OF_CUDA, event->stack);
	}
	end(&state);
}

void vs_record_oom(struct vramshim_event *event)
{
	struct thread_state state;
	struct vs_process *process = begin(&state);

	if (process) {
		record(process, event);
		vs_oom_report(process->path, VS_OOM_OF_PYTORCH, event->stack);
	}
	end(&state);
}

void vs_record_mark(const char *name)
{
	struct vramshim_event event = {.type = VRAMSHIM_MARK, .device = -1};
	struct thread_state state;
	struct vs_process *process = begin(&state);

	if (process) {
		event.name = vs_stack_string(process, name, strlen(name));
		record(process, &event);
	}
	end(&state);
}
