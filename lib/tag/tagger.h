/* SPDX-License-Identifier: MIT
 *
 * A tag for every block of one process, from a stream of its events in order.
 *
 * Facts first, verdict late: a block is judged when it is freed, or at the end
 * of the stream, because what it was depends on how long it lived. Memory grows
 * with live blocks and distinct stacks, never with events.
 */
#ifndef VS_TAG_TAGGER_H
#define VS_TAG_TAGGER_H

#include "tag/block.h"
#include "tag/phases.h"
#include "tag/site.h"
#include <vramshim/events.h>

struct vs_tagger;

struct vs_tagger_ops {
	void *user;
	/* One block and its verdict; the pointer is good for the call only. A negative value stops the tagger and is
	 * what its caller gets. */
	int (*verdict)(void *user, const struct vs_block *block);
	uint32_t main_thread; /* kernel id of the process's first thread */
};

/* -ENOMEM. */
int vs_tagger_new(const struct vs_tagger_ops *ops, struct vs_tagger **ret_tagger);
/* Accepts NULL. */
void vs_tagger_free(struct vs_tagger *tagger);

/* Feed one event; types other than PyTorch's and marks are ignored. `site` is that of event->stack and is
 * copied; NULL for a mark. -ENOMEM, or what a verdict returned. */
int vs_tagger_event(struct vs_tagger *tagger, const struct vramshim_event *event, const struct vs_site *site);

/* The stream is over: judge what is left, blocks whose future is unknown by what their stack did before. In ascending
 * order of allocation. */
int vs_tagger_finish(struct vs_tagger *tagger);

const struct vs_phases *vs_tagger_phases(const struct vs_tagger *tagger);

#endif
