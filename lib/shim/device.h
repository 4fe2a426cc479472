/* SPDX-License-Identifier: MIT
 *
 * What is asked of the device itself: little, and only reads that are allowed at any time.
 */
#ifndef VS_SHIM_DEVICE_H
#define VS_SHIM_DEVICE_H

#include <vramshim/events.h>

#include "shim/real.h"

struct vs_process;

/* The calling thread's device as `api` sees it; -1 when it has none. errno is kept. */
int vs_device_current(enum vs_api api);
/* Free bytes of the device that the thread's context is on. -ENODEV where it has none. */
int vs_device_free(uint64_t *ret_bytes);
/* An event on event->device >= 0 was recorded: describe the device if it is its first, sample its free memory where
 * that is telling (sample.h). Inside a hook only. */
void vs_device_look(struct vs_process *process, const struct vramshim_event *event);
static inline void vs_device_seen(struct vs_process *process, const struct vramshim_event *event)
{
	/* A free tells nothing. */
	if (event->device >= 0 && event->type != VRAMSHIM_TORCH_FREE)
		vs_device_look(process, event);
}

#endif
