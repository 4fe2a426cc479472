/* SPDX-License-Identifier: MIT
 *
 * From a block's call stacks and its life to its tag: the rules themselves,
 * without any bookkeeping.
 */
#ifndef VS_TAG_VERDICT_H
#define VS_TAG_VERDICT_H

#include "tag/site.h"
#include "tag/tag.h"
#include <stdbool.h>
#include <stdint.h>

struct vs_life {
	const struct vs_site *site;   /* of the allocation */
	uint64_t size;                /* bytes */
	enum vs_context context;      /* ... vs_phases_context(): what an empty stack means is decided */
	enum vs_phase phase;          /* ... */
	bool freed;                   /* by the job; what the interpreter frees while it exits lived to the end */
	bool at_exit;                 /* what freed it, if anything, was the interpreter's end */
	enum vs_context freed_by;     /* EMPTY: no stack was recorded */
	bool saved;                   /* ... by a graph, which had saved it for a backward */
	bool replaced;                /* freed where modules are moved or converted: another took its place */
	enum vs_phase phase_now;      /* at the free, or at the end of the trace */
	bool same_epoch;              /* no other phase began in between */
	uint32_t forwards, backwards; /* phases of these kinds begun in between */
	uint32_t steps;               /* steps ended in between */
	/* The running backward has let go of an older block of its forward: it works from the youngest to the oldest,
	 * so it is done with this one. */
	bool overtaken;
	/* The last backward has let go of nothing of its forward's, so that its graph was kept; or of younger blocks
	 * alone, so that this one may be of another graph. */
	bool awaits;
	bool returned;      /* made by autograd.grad(), whose graph was kept: may be differentiated again */
	bool backward_over; /* the thread that called the running backward has gone on */
	bool no_graph; /* made in a call of which nearly all is freed again: none of it is saved for a backward */
	bool after_operator; /* made by, or after, the first operator of a forward in the job's own code */

	/* Of the process as a whole, so far. */
	bool operators;  /* its own code has begun a forward: an operator that forwards consist of was seen */
	bool modules;    /* it builds or moves models that are nn.Modules */
	bool optimizers; /* it runs an optimizer that we recognise */
	/* Of earlier blocks of the same stack. */
	bool short_lived; /* most others were freed before their phase ended, and one of these lived as long, one was
	                     as large */
};

struct vs_verdict {
	enum vs_tag tag;
	enum vs_detail detail;
	bool settled;    /* the future can not change it; else it is only the best guess */
	bool alone;      /* and says nothing of other blocks of its stack */
	const char *why; /* static: what in the block's life decided, for a person */
};

struct vs_verdict vs_verdict(const struct vs_life *life);

#endif
