/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "shim/device.h"
#include "shim/process.h"
#include "shim/record.h"
#include "shim/stack.h"
#include "shim/thread.h"

static void record(struct vs_process *process, struct vramshim_event *event)
{
	event->stack = vs_stack_capture(process, event->type);
	vs_thread_append(process, event);
	if (event->device >= 0)
		vs_device_seen(process, event);
}

void vs_record(struct vramshim_event *event)
{
	int saved = errno;
	struct vs_process *process = vs_process_get();

	if (process)
		record(process, event);
	errno = saved;
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
	int saved = errno;
	struct vs_process *process = vs_process_get();

	if (process) {
		event->name = entry_name(process, entry);
		record(process, event);
	}
	errno = saved;
}

void vs_record_mark(const char *name)
{
	struct vramshim_event event = {.type = VRAMSHIM_MARK, .device = -1};
	int saved = errno;
	struct vs_process *process = vs_process_get();

	if (process) {
		event.name = vs_stack_string(process, name, strlen(name));
		record(process, &event);
	}
	errno = saved;
}
