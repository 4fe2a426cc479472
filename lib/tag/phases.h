/* SPDX-License-Identifier: MIT
 *
 * The phases of a training job and its steps, read off the stream of events.
 *
 * An epoch is one unbroken stretch of one phase. Only allocations open an
 * epoch, refused ones too (and frees in zero_grad): a late free on another thread says nothing
 * about what the job is doing. A step ends when, after a backward and an
 * optimizer or zero_grad, the next forward or backward begins.
 */
#ifndef VS_TAG_PHASES_H
#define VS_TAG_PHASES_H

#include "tag/site.h"
#include "tag/tag.h"
#include <stdbool.h>
#include <vramshim/events.h>

struct vs_epoch {
	uint64_t begin; /* sequence of the event that opened it */
	uint32_t step;
	uint32_t forwards, backwards; /* epochs of these phases begun so far, this one included */
	enum vs_phase phase;
};

struct vs_phases {
	struct vs_epoch now;
	bool step_ends; /* an optimizer or zero_grad was seen since the last backward */
	bool gradients; /* a backward was seen since the last step ended */
	uint32_t main_thread;
};

/* The first epoch is setup. `main_thread` is the kernel id of the process's first thread. */
void vs_phases_init(struct vs_phases *phases, uint32_t main_thread);

/* Account for one event; only PyTorch's own matter. */
void vs_phases_event(struct vs_phases *phases, const struct vramshim_event *event, const struct vs_site *site);

/* The activity of an event, where even an empty stack counts: autograd's threads have no Python frames, so with
 * Python stacks only (level light) an empty stack on a thread other than the main one is the backward. */
enum vs_context vs_phases_context(const struct vs_phases *phases, const struct vramshim_event *event,
                                  const struct vs_site *site);

#endif
