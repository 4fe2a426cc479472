/* SPDX-License-Identifier: MIT
 *
 * The exported CUDA wrappers, generated from cuda_entries.def: forward the call unchanged, and record it if
 * it is the outermost one (cudaMalloc calls cuMemAlloc_v2: one allocation, not two).
 */
#include "shim/cuda_hooks.h"
#include "shim/device.h"
#include "shim/export.h"
#include "shim/modules.h"
#include "shim/record.h"
#include "shim/sample.h"
#include "shim/thread.h"

/* Device memory, and there was none. */
static bool is_refusal(const struct vs_call *call)
{
	return call->result == VS_CUDA_OUT_OF_MEMORY && call->event.memory != VRAMSHIM_MEMORY_PINNED &&
	       call->event.memory != VRAMSHIM_MEMORY_RESERVED;
}

/* PyTorch's caching allocator gives back what it has cached and tries again; where that does not help, it reports the
 * error itself (torch_hooks.c). It never asks for stream-ordered memory: another allocator of the same library does,
 * and reports nothing. */
static bool is_repeated(const struct vs_call *call)
{
	return call->event.memory != VRAMSHIM_MEMORY_POOL && vs_modules_holds("libc10_cuda.so", call->caller);
}

static void allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size)
{
	call->event.memory = memory;
	call->event.size = size;
	if (call->result) {
		call->event.type = VRAMSHIM_CUDA_FAIL;
		call->event.result = call->result;
		if (is_refusal(call)) {
			vs_record_refusal(call->entry, &call->event, is_repeated(call));
			return;
		}
	} else {
		/* A request for nothing succeeds with NULL. */
		if (!address)
			return;
		call->event.type = VRAMSHIM_CUDA_ALLOC;
		call->event.address = address;
	}
	vs_record_call(call->entry, &call->event);
}

void vs_call_allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size)
{
	call->event.device = (int16_t)vs_device_current(vs_entries[call->entry].api);
	allocated(call, memory, address, size);
}

void vs_call_created(struct vs_call *call, const struct vs_cuda_allocation_prop *prop, uint64_t handle, uint64_t size)
{
	call->event.device = -1;
	if (prop && prop->location.type == VS_CUDA_LOCATION_DEVICE)
		call->event.device = (int16_t)prop->location.id;
	allocated(call, VRAMSHIM_MEMORY_PHYSICAL, handle, size);
}

void vs_call_free(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size)
{
	if (!address)
		return;
	call->event.type = VRAMSHIM_CUDA_FREE;
	call->event.memory = memory;
	call->event.device = -1; /* the allocation knows */
	call->event.address = address;
	call->event.size = size;
	vs_record_call(call->entry, &call->event);
}

void vs_call_freed(struct vs_call *call)
{
	if (!call->result || !call->event.address)
		return;
	call->event.type = VRAMSHIM_CUDA_FAIL;
	call->event.result = call->result;
	vs_record_call(call->entry, &call->event);
}

void vs_call_capture_begun(const struct vs_call *call)
{
	if (!call->result)
		vs_sample_capture(true);
}

void vs_call_capture_ended(const struct vs_call *call)
{
	/* It is over when it went well, was invalid (901) or left a fork open (904, cuStreamEndCapture); any other
	 * error is that of a call which ended none. */
	if (!call->result || call->result == 901 || call->result == 904)
		vs_sample_capture(false);
}

#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after)                                        \
	VS_EXPORT int export params;                                                                                 \
	int export params                                                                                            \
	{                                                                                                            \
		int(*real) params = vs_real_entry(VS_ENTRY_##export);                                                \
		struct vs_call call = {.entry = VS_ENTRY_##export, .caller = __builtin_return_address(0)};           \
                                                                                                                     \
		if (!real)                                                                                           \
			return VS_CUDA_NOT_INITIALIZED;                                                              \
		if (!vs_enter()) {                                                                                   \
			call.result = real args;                                                                     \
		} else {                                                                                             \
			vs_sample_call_begins();                                                                     \
			before;                                                                                      \
			call.result = real args;                                                                     \
			after;                                                                                       \
			vs_sample_call_ends();                                                                       \
		}                                                                                                    \
		vs_leave();                                                                                          \
		return call.result;                                                                                  \
	}
#include "shim/cuda_entries.def"
#undef VS_ENTRY

const struct vs_entry_info vs_entries[VS_ENTRY_COUNT] = {
#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after)                                        \
	[VS_ENTRY_##export] = {#export, base, since, ptsz, VS_API_##api, (void *)export},
#include "shim/cuda_entries.def"
#undef VS_ENTRY
};
