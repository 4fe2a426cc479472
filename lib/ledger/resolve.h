/* SPDX-License-Identifier: MIT
 *
 * What CUDA's calls came to. The recorder writes down calls; some of them change nothing at once, or something else
 * than they name: a handle that is released while it is mapped keeps its memory, a free that was refused after it was
 * written down has to be taken back, a pool has what it last said, a context takes everything in it along. Out come
 * plain allocations and frees.
 */
#ifndef VS_LEDGER_RESOLVE_H
#define VS_LEDGER_RESOLVE_H

#include "base/u64map.h"
#include <vramshim/events.h>

struct vs_resolver {          /* of a process; all zero to begin with */
	struct vs_u64map map; /* -> pieces */
	struct vs_piece_state *pieces;
	uint32_t *unused;
	size_t count, capacity, unused_count, unused_capacity;
	struct vs_u64map threads; /* -> attempts */
	struct vs_attempt *attempts;
	size_t attempt_count, attempt_capacity;
};

void vs_resolver_release(struct vs_resolver *resolver);

/* A CUDA_ALLOC or CUDA_FREE, whose device, address and size are those of the allocation, and its memory one of
 * DEVICE, MANAGED, PINNED, ARRAY, PHYSICAL, MAPPED, RESERVED, FOREIGN, CONTEXT, CODE; HELD and GRAPHS for what a
 * pool, or a device's graphs, have from the card (they come and go with each change); POOL for what is in use of what
 * a pool has, which takes nothing more from the card. Of a free, the stack is the allocation's. Negative: stop. */
typedef int vs_resolved(void *user, const struct vramshim_event *event);

/* Take in a CUDA_ALLOC, CUDA_FREE or CUDA_FAIL, in the order of the trace. -ENOMEM, or what `effect` said. */
int vs_resolve(struct vs_resolver *resolver, const struct vramshim_event *event, vs_resolved *effect, void *user);

/* For tests: allocations that are kept, alive or not settled. */
size_t vs_resolver_size(const struct vs_resolver *resolver);

#endif
