/* SPDX-License-Identifier: MIT
 *
 * What the rows of cuda_entries.def do around the real call.
 */
#ifndef VS_SHIM_CUDA_HOOKS_H
#define VS_SHIM_CUDA_HOOKS_H

#include <stdint.h>
#include <vramshim/events.h>

#include "shim/cuda_types.h"
#include "shim/real.h"

/* One outermost call on its way through a wrapper. */
struct vs_call {
	struct vramshim_event event;
	enum vs_entry entry;
	const void *caller; /* where the call returns to */
	int result;         /* the real call's, once it has returned */
};

/* After an allocating call: an allocation of `size` bytes at `address`, or, by call->result, a failure. */
void vs_call_allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size);
/* The same for cuMemCreate: the device is the property's, never the context's (a thread may have none). */
void vs_call_created(struct vs_call *call, const struct vs_cuda_allocation_prop *prop, uint64_t handle,
                     uint64_t size);
/* Before a freeing call. `size` 0: whatever was allocated there. Freeing NULL is no event. */
void vs_call_free(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size);
/* After it: says so where the free failed and the memory is still there. */
void vs_call_freed(struct vs_call *call);
/* After a call that begins or ends a stream's capture: nothing is asked of the driver meanwhile (sample.h). */
void vs_call_capture_begun(const struct vs_call *call);
void vs_call_capture_ended(const struct vs_call *call);

#endif
