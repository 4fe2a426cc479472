/* SPDX-License-Identifier: MIT
 *
 * From a hook to the trace.
 */
#ifndef VS_SHIM_RECORD_H
#define VS_SHIM_RECORD_H

#include <stdbool.h>
#include <vramshim/events.h>

#include "shim/real.h"

/* Record an event with the calling thread's stack. Sets `thread` and `stack`. Between vs_enter() and vs_leave() only.
 * errno is kept, and the thread is not cancelled inside; failures are silent: the job goes on. */
void vs_record(struct vramshim_event *event);
/* The same for a CUDA call, which it names. */
void vs_record_call(enum vs_entry entry, struct vramshim_event *event);
/* The same for a call that was refused device memory, which the user is told about at once (oom_report.h), unless it
 * is `repeated` by an allocator that reports its own errors. */
void vs_record_refusal(enum vs_entry entry, struct vramshim_event *event, bool repeated);
/* The same for PyTorch's out-of-memory errors, which the user is told about at once (oom_report.h). */
void vs_record_oom(struct vramshim_event *event);
/* The same for vramshim_mark(). */
void vs_record_mark(const char *name);

#endif
