/* SPDX-License-Identifier: MIT */
#include "ledger/neighbour.h"

#include "ledger/cuda.h"

int vs_neighbour_bytes(struct vramshim_trace *trace, int device, uint64_t context, uint64_t time_ns,
                       uint64_t *ret_bytes)
{
	struct vramshim_event event = {0};
	struct vs_cuda cuda = {0};
	bool begun = false, ended;
	int error = 0, more = 0;

	vramshim_trace_rewind(trace);
	while (!error && (more = vramshim_trace_next(trace, &event)) > 0 && event.time_ns <= time_ns &&
	       event.type != VRAMSHIM_EXIT) {
		begun |= event.device == device;
		if ((event.type == VRAMSHIM_CUDA_ALLOC && event.device == device) ||
		    (event.type == VRAMSHIM_CUDA_FREE && vs_cuda_holds(&cuda, &event)))
			error = vs_cuda_event(&cuda, &event, VS_OWNER_NOBODY);
	}
	/* One that was killed may have lived on after its last event: then it held what it held. */
	ended = more > 0 && event.type == VRAMSHIM_EXIT && event.time_ns <= time_ns;
	if (!error && more < 0)
		error = more;
	if (!error)
		*ret_bytes = begun && !ended ? context + cuda.holdings.taken : 0;
	vs_cuda_release(&cuda);
	return error;
}
