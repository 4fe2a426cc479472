/* SPDX-License-Identifier: MIT */
#include "tag/phases.h"

static void open_epoch(struct vs_phases *phases, enum vs_phase phase, uint64_t sequence)
{
	struct vs_epoch *now = &phases->now;

	now->begin = sequence;
	now->phase = phase;
	if (phase == VS_PHASE_FORWARD || phase == VS_PHASE_BACKWARD) {
		now->step += phases->step_ends;
		phases->gradients &= !phases->step_ends;
		phases->step_ends = false;
		now->forwards += phase == VS_PHASE_FORWARD;
		now->backwards += phase == VS_PHASE_BACKWARD;
	}
	if (phase == VS_PHASE_BACKWARD)
		phases->gradients = true;
	if (phase == VS_PHASE_OPTIMIZER || phase == VS_PHASE_ZERO_GRAD)
		phases->step_ends = phases->gradients; /* gradients that are reset again end no other step */
}

void vs_phases_init(struct vs_phases *phases, uint32_t main_thread)
{
	*phases = (struct vs_phases){.now = {.phase = VS_PHASE_SETUP}, .main_thread = main_thread};
}

enum vs_context vs_phases_context(const struct vs_phases *phases, const struct vramshim_event *event,
                                  const struct vs_site *site)
{
	if (site->context == VS_CONTEXT_EMPTY)
		return event->thread != phases->main_thread ? VS_CONTEXT_BACKWARD : VS_CONTEXT_NONE;
	return (enum vs_context)site->context;
}

void vs_phases_event(struct vs_phases *phases, const struct vramshim_event *event, const struct vs_site *site)
{
	enum vs_phase now = phases->now.phase, next = now;
	enum vs_context context;

	/* Optimizers that step inside the backward, parameter by parameter, do not end it. */
	bool inside_backward =
	    now == VS_PHASE_BACKWARD && (site->flags & VS_SITE_ENGINE || event->thread != phases->main_thread);

	if (event->type == VRAMSHIM_TORCH_FREE) {
		/* set_to_none frees the gradients: the only trace that an optimizer without state leaves. */
		if (site->context == VS_CONTEXT_ZERO_GRAD && !inside_backward && now != VS_PHASE_SETUP &&
		    now != VS_PHASE_ZERO_GRAD)
			open_epoch(phases, VS_PHASE_ZERO_GRAD, event->sequence);
		return;
	}
	/* What did not fit was asked for by the same code: it is often the first of its phase. */
	if (event->type != VRAMSHIM_TORCH_ALLOC && event->type != VRAMSHIM_TORCH_OOM)
		return;

	context = vs_phases_context(phases, event, site);
	switch (context) {
	case VS_CONTEXT_FORWARD:
		next = VS_PHASE_FORWARD;
		break;
	case VS_CONTEXT_BACKWARD:
	case VS_CONTEXT_RECOMPUTE:
		next = VS_PHASE_BACKWARD;
		break;
	case VS_CONTEXT_OPTIMIZER: /* state made before any training (load_state_dict, eager state) is setup */
		if (now != VS_PHASE_SETUP && !inside_backward)
			next = VS_PHASE_OPTIMIZER;
		break;
	case VS_CONTEXT_ZERO_GRAD:
		if (now != VS_PHASE_SETUP && !inside_backward)
			next = VS_PHASE_ZERO_GRAD;
		break;
	case VS_CONTEXT_NONE:
		/* Code of the job between the phases. After a forward it may still be the loss. On another thread
		 * (a loader, a logger) it says nothing about the training. */
		if (event->thread != phases->main_thread && site->context != VS_CONTEXT_EMPTY)
			break;
		if ((site->role == VS_ROLE_SCALER || site->role == VS_ROLE_CLIPPING) &&
		    (now == VS_PHASE_BACKWARD || now == VS_PHASE_OTHER))
			next = VS_PHASE_OPTIMIZER;
		else if (!site->role &&
		         (now == VS_PHASE_BACKWARD || now == VS_PHASE_OPTIMIZER || now == VS_PHASE_ZERO_GRAD))
			next = VS_PHASE_OTHER;
		break;
	default:
		break;
	}
	if (next != now)
		open_epoch(phases, next, event->sequence);
}
