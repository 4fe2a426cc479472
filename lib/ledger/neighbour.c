/* SPDX-License-Identifier: MIT */
#include "ledger/neighbour.h"

#include "ledger/cuda.h"
#include "ledger/resolve.h"

struct neighbour {
	struct vs_resolver resolver;
	struct vs_cuda cuda;
	int device;
};

static int plain_event(void *user, const struct vramshim_event *event)
{
	struct neighbour *neighbour = user;

	return event->device == neighbour->device ? vs_cuda_event(&neighbour->cuda, event, VS_OWNER_NOBODY) : 0;
}

int vs_neighbour_bytes(struct vramshim_trace *trace, int device, uint64_t context, uint64_t time_ns,
                       uint64_t *ret_bytes)
{
	struct vramshim_event event = {0};
	struct neighbour neighbour = {.device = device};
	bool begun = false, ended;
	int error = 0, more = 0;

	vramshim_trace_rewind(trace);
	while (!error && (more = vramshim_trace_next(trace, &event)) > 0 && event.time_ns <= time_ns &&
	       event.type != VRAMSHIM_EXIT) {
		begun |= event.device == device;
		error = vs_resolve(&neighbour.resolver, &event, plain_event, &neighbour);
	}
	/* One that was killed may have lived on after its last event: then it held what it held. */
	ended = more > 0 && event.type == VRAMSHIM_EXIT && event.time_ns <= time_ns;
	if (!error && more < 0)
		error = more;
	if (!error)
		*ret_bytes = begun && !ended ? context + neighbour.cuda.holdings.taken : 0;
	vs_cuda_release(&neighbour.cuda);
	vs_resolver_release(&neighbour.resolver);
	return error;
}
