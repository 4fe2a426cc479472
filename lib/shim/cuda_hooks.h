/* SPDX-License-Identifier: MIT
 *
 * What the rows of cuda_entries.def do around the real call.
 *
 * Bytes are booked where the driver gives them. A call of the runtime leads to one of the driver's, which comes by
 * here as well: that one is recorded, under the name that the job called, and the outer one only where nothing inside
 * it was (a runtime that is no real one). Frees are recorded by the outer call, which comes first.
 *
 * Everything here runs between vs_enter() and vs_leave(), which bracket the parts before and after the real call but
 * not the real call itself.
 */
#ifndef VS_SHIM_CUDA_HOOKS_H
#define VS_SHIM_CUDA_HOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <vramshim/events.h>

#include "shim/cuda_types.h"
#include "shim/real.h"
#include "shim/thread.h"

/* A call on its way through a wrapper. */
struct vs_call {
	struct vramshim_event event;
	enum vs_entry entry;
	int result;        /* the real call's, once it has returned */
	void *object;      /* what the part before the call found, for the one after it */
	uint32_t bookings; /* the thread's, when it came in */
	bool outermost;
	bool announced; /* the free is in the trace: by an outer call */
};

/* After an allocating call: an allocation of `size` bytes at `address`, or, by call->result, a failure. */
void vs_call_allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size);
/* The same for arrays; either pointer may be what the job passed, NULL included. */
void vs_call_array(struct vs_call *call, uint64_t handle, const struct vs_cuda_channels *format,
                   struct vs_cuda_extent extent, unsigned int levels, unsigned int flags);
void vs_call_driver_array(struct vs_call *call, uint64_t handle, const struct vs_cuda_array *array);
void vs_call_driver_mipmap(struct vs_call *call, uint64_t handle, const struct vs_cuda_array3d *array,
                           unsigned int levels);
/* The same for cuMemCreate and its kin: the device is the property's, never the context's (a thread may have none).
 * Without one the bytes are no card's, or another process's. */
void vs_call_created(struct vs_call *call, const struct vs_cuda_allocation_prop *prop, uint64_t handle,
                     uint64_t size);
/* After a call that would have made a context, and there was no memory for it. `size` may be 0: not known. */
void vs_call_context_refused(struct vs_call *call, int device, uint64_t size);
/* After a call of a graph's, which takes memory for all of its nodes: where there was too little, how much it wanted
 * is not known. */
void vs_call_graph_refused(struct vs_call *call);
/* One more reference to a handle of cuMemCreate. */
void vs_call_retained(struct vs_call *call, uint64_t handle);
void vs_call_mapped(struct vs_call *call, uint64_t address, uint64_t size, uint64_t handle);

/* Before a freeing call. `size` 0: whatever was allocated there. Freeing NULL is no event. */
void vs_call_free(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size);
/* After it: says so where the free was refused and the memory is still there. */
void vs_call_freed(struct vs_call *call);
/* After a call that begins or ends a stream's capture: nothing is asked of the driver meanwhile (sample.h). */
void vs_call_capture_begun(const struct vs_call *call);
void vs_call_capture_ended(const struct vs_call *call);

/* For the handlers of pools, graphs and contexts. */

/* Record call->event, whose type, memory and numbers are set, under the name that the job called. */
void vs_call_record(struct vs_call *call);
/* The same for an event that says nothing about what the call itself came to. */
void vs_call_record_aside(struct vs_call *call);
/* Whether something nested in this call was recorded for the same address, or, 0, as the same failure. */
bool vs_call_booked(const struct vs_call *call, uint64_t address);

#endif
