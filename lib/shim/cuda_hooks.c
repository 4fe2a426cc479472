/* SPDX-License-Identifier: MIT
 *
 * The exported CUDA wrappers, generated from cuda_entries.def: forward the call unchanged, and record what it came
 * to.
 */
#include "shim/cuda_hooks.h"

#include <errno.h>

#include "base/texels.h"
#include "shim/cuda_contexts.h"
#include "shim/cuda_pools.h"
#include "shim/device.h"
#include "shim/export.h"
#include "shim/gateways.h"
#include "shim/modules.h"
#include "shim/record.h"
#include "shim/sample.h"
#include "shim/thread.h"

/* The stack grows downwards: what is nested lies below. */
static bool is_nested(const struct vs_call *call)
{
	return vs_thread.nest.frame > (uintptr_t)call;
}

/* Calls that wait for the card, or start work on it, neither take nor give: no sample needs to wait for them. */
static inline bool is_memory_call(enum vs_entry entry)
{
	switch (entry) {
	case VS_ENTRY_cudaStreamSynchronize:
	case VS_ENTRY_cudaStreamSynchronize_ptsz:
	case VS_ENTRY_cudaEventSynchronize:
	case VS_ENTRY_cudaDeviceSynchronize:
	case VS_ENTRY_cuStreamSynchronize:
	case VS_ENTRY_cuStreamSynchronize_ptsz:
	case VS_ENTRY_cuEventSynchronize:
	case VS_ENTRY_cuCtxSynchronize:
	case VS_ENTRY_cuCtxSynchronize_v2:
		return false;
	default:
		return true;
	}
}

static inline void begin(struct vs_call *call, const void *caller)
{
	call->bookings = vs_thread.bookings;
	call->outermost = !is_nested(call);
	if (!call->outermost)
		return;
	/* The last one was left, by an exception or a jump. */
	if (vs_thread.in_call && vs_thread_was_left())
		vs_sample_call_ends();
	vs_thread.nest = (struct vs_nest){.frame = (uintptr_t)call, .caller = caller, .entry = call->entry};
	if (is_memory_call(call->entry))
		vs_sample_call_begins();
}

static inline void end(const struct vs_call *call)
{
	if (!call->outermost)
		return;
	vs_thread.nest.frame = 0;
	if (is_memory_call(call->entry))
		vs_sample_call_ends();
}

bool vs_call_booked(const struct vs_call *call, uint64_t address)
{
	return vs_thread.bookings != call->bookings && vs_thread.booked == address;
}

static void note(uint64_t address)
{
	vs_thread.bookings++;
	vs_thread.booked = address;
}

void vs_call_record_aside(struct vs_call *call)
{
	vs_record_call((enum vs_entry)vs_thread.nest.entry, &call->event);
}

void vs_call_record(struct vs_call *call)
{
	if (call->event.type != VRAMSHIM_CUDA_FREE)
		note(call->event.type == VRAMSHIM_CUDA_FAIL ? 0 : call->event.address);
	vs_call_record_aside(call);
}

/* Device memory, and there was none. */
static bool is_refusal(const struct vs_call *call)
{
	return call->result == VS_CUDA_OUT_OF_MEMORY && call->event.memory != VRAMSHIM_MEMORY_PINNED &&
	       call->event.memory != VRAMSHIM_MEMORY_RESERVED;
}

/* PyTorch's caching allocator gives back what it has cached and tries again; where that does not help, it reports the
 * error itself (torch_hooks.c). It never asks for stream-ordered memory: another allocator of the same library does,
 * and reports nothing. Nor does it where there is no context. */
static bool is_repeated(const struct vs_call *call)
{
	return call->event.memory != VRAMSHIM_MEMORY_POOL && call->event.memory != VRAMSHIM_MEMORY_CONTEXT &&
	       call->event.memory != VRAMSHIM_MEMORY_GRAPHS &&
	       vs_modules_holds("libc10_cuda.so", vs_thread.nest.caller);
}

/* The rest of an allocation whose device and handle are set. */
static void allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size)
{
	call->event.memory = memory;
	call->event.size = size;
	if (call->result) {
		if (vs_call_booked(call, 0))
			return;
		call->event.type = VRAMSHIM_CUDA_FAIL;
		call->event.result = call->result;
		if (is_refusal(call)) {
			note(0);
			vs_record_refusal((enum vs_entry)vs_thread.nest.entry, &call->event, is_repeated(call));
			return;
		}
	} else {
		/* A request for nothing succeeds with NULL. */
		if (!address || vs_call_booked(call, address))
			return;
		call->event.type = VRAMSHIM_CUDA_ALLOC;
		call->event.address = address;
	}
	vs_call_record(call);
}

void vs_call_allocated(struct vs_call *call, enum vramshim_memory memory, uint64_t address, uint64_t size)
{
	if (call->result ? vs_call_booked(call, 0) : vs_call_booked(call, address))
		return;
	call->event.device = (int16_t)vs_device_current(vs_entries[call->entry].api);
	/* What was refused may have made it. */
	vs_contexts_primary_seen(call->event.device);
	if (!call->result)
		call->event.handle = vs_contexts_current();
	/* The driver may have taken it from what pools had kept. */
	vs_thread.partial = memory == VRAMSHIM_MEMORY_DEVICE && vs_pools_in_use();
	allocated(call, memory, address, size);
	if (vs_thread.partial)
		vs_call_complete(call, NULL);
}

void vs_call_array(struct vs_call *call, uint64_t handle, const struct vs_cuda_channels *format,
                   struct vs_cuda_extent extent, unsigned int levels, unsigned int flags)
{
	struct vs_texels texels = {extent.width, extent.height, extent.depth, flags, levels, 0, 1};

	if (format)
		vs_texels_runtime_format(&texels, format->bits, format->kind);
	vs_call_allocated(call, VRAMSHIM_MEMORY_ARRAY, handle, vs_texels_bytes(&texels));
}

void vs_call_driver_array(struct vs_call *call, uint64_t handle, const struct vs_cuda_array *array)
{
	struct vs_texels texels = {.block = 1};

	if (array) {
		texels = (struct vs_texels){array->width, array->height, 0, 0, 1, 0, 1};
		vs_texels_driver_format(&texels, array->format, array->channels);
	}
	vs_call_allocated(call, VRAMSHIM_MEMORY_ARRAY, handle, vs_texels_bytes(&texels));
}

void vs_call_driver_mipmap(struct vs_call *call, uint64_t handle, const struct vs_cuda_array3d *array,
                           unsigned int levels)
{
	struct vs_texels texels = {.block = 1};

	if (array) {
		texels = (struct vs_texels){array->width, array->height, array->depth, array->flags, levels, 0, 1};
		vs_texels_driver_format(&texels, array->format, array->channels);
	}
	vs_call_allocated(call, VRAMSHIM_MEMORY_ARRAY, handle, vs_texels_bytes(&texels));
}

void vs_call_created(struct vs_call *call, const struct vs_cuda_allocation_prop *prop, uint64_t handle, uint64_t size)
{
	call->event.device = -1;
	if (prop && prop->location.type == VS_CUDA_LOCATION_DEVICE)
		call->event.device = (int16_t)prop->location.id;
	vs_contexts_primary_seen(call->event.device);
	allocated(call, VRAMSHIM_MEMORY_PHYSICAL, handle, size);
}

void vs_call_context_refused(struct vs_call *call, int device, uint64_t size)
{
	if (call->result != VS_CUDA_OUT_OF_MEMORY)
		return;
	call->event.device = (int16_t)device;
	allocated(call, VRAMSHIM_MEMORY_CONTEXT, 0, size);
}

void vs_call_graph_refused(struct vs_call *call)
{
	if (call->result != VS_CUDA_OUT_OF_MEMORY)
		return;
	call->event.device = (int16_t)vs_device_current(vs_entries[call->entry].api);
	allocated(call, VRAMSHIM_MEMORY_GRAPHS, 0, 0);
}

void vs_call_retained(struct vs_call *call, uint64_t handle)
{
	if (call->result)
		return;
	call->event.device = -1;
	call->event.handle = handle;
	allocated(call, VRAMSHIM_MEMORY_PHYSICAL, handle, 0);
}

void vs_call_mapped(struct vs_call *call, uint64_t address, uint64_t size, uint64_t handle)
{
	call->event.device = (int16_t)vs_device_current(VS_API_DRIVER);
	call->event.handle = handle;
	allocated(call, VRAMSHIM_MEMORY_MAPPED, address, size);
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
	call->announced = !call->outermost && vs_thread.nest.freeing == address;
	if (call->announced)
		return;
	if (call->outermost)
		vs_thread.nest.freeing = address;
	vs_call_record(call);
}

void vs_call_freed(struct vs_call *call)
{
	if (!call->event.address)
		return;
	if (!call->result) {
		/* Of a runtime's and the driver's word on one free, the driver's counts. */
		if (call->announced)
			note(call->event.address);
		return;
	}
	if (vs_call_booked(call, 0) || vs_call_booked(call, call->event.address))
		return;
	call->event.type = VRAMSHIM_CUDA_FAIL;
	call->event.result = call->result;
	vs_call_record(call);
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
/* A row's parts: the list of arguments to go on with behind another one, and to stand alone. */
#define VS_MORE(...)         __VA_OPT__(, ) __VA_ARGS__
#define VS_FIRST(first, ...) first
#define VS_OR_VOID(...)      VS_FIRST(__VA_OPT__((__VA_ARGS__), )(void), )
/* errno is the job's: before the call as after it. */
#define VS_INSIDE(part)                                                                                              \
	do {                                                                                                         \
		int saved = errno;                                                                                   \
                                                                                                                     \
		if (vs_enter())                                                                                      \
			part;                                                                                        \
		vs_leave();                                                                                          \
		errno = saved;                                                                                       \
	} while (0)

#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after)                                        \
	static __attribute__((noinline)) int call_##export(void *found, const void *caller VS_MORE params)           \
	{                                                                                                            \
		int(*real) VS_OR_VOID params;                                                                        \
		struct vs_call call = {.entry = VS_ENTRY_##export};                                                  \
                                                                                                                     \
		if (!found)                                                                                          \
			found = vs_real_for(VS_ENTRY_##export, caller);                                              \
		if (!found)                                                                                          \
			return VS_CUDA_NOT_INITIALIZED;                                                              \
		real = (int(*) VS_OR_VOID params)found;                                                              \
		/* Off, or a signal handler's in the middle of our own work. */                                      \
		if (!vs_recording || vs_inside())                                                                    \
			return real args;                                                                            \
		begin(&call, caller);                                                                                \
		VS_INSIDE(before);                                                                                   \
		call.result = real args;                                                                             \
		VS_INSIDE(after);                                                                                    \
		end(&call);                                                                                          \
		return call.result;                                                                                  \
	}
#include "shim/cuda_entries.def"
#undef VS_ENTRY

/* The instances of an entry (real.h). The runtime's exports have a version, its soname; a reference to a version that
 * is none of ours goes to the library itself, whose calls of the driver are seen all the same. */
#define VS_INSTANCE(linkage, name, export, instance, params, args)                                                   \
	linkage int name VS_OR_VOID params;                                                                          \
	linkage int name VS_OR_VOID params                                                                           \
	{                                                                                                            \
		return call_##export(vs_real(VS_ENTRY_##export, instance),                                           \
		                     __builtin_return_address(0) VS_MORE args);                                      \
	}

#define VS_VERSION(export, suffix, instance, node, params, args)                                                     \
	VS_INSTANCE(VS_EXPORT, vs_##export##_##suffix, export, instance, params, args)                               \
	__asm__(".symver vs_" #export "_" #suffix ", " #export node);

#define VS_SPARES(export, params, args)                                                                              \
	VS_INSTANCE(static, vs_##export##_spare0, export, VS_INSTANCE_SPARE, params, args)                           \
	VS_INSTANCE(static, vs_##export##_spare1, export, VS_INSTANCE_SPARE + 1, params, args)

#define VS_INSTANCES_RUNTIME(export, params, args)                                                                   \
	VS_VERSION(export, any, VS_INSTANCE_DEFAULT, "@@VRAMSHIM", params, args)                                     \
	VS_VERSION(export, 11, VS_INSTANCE_11, "@libcudart.so.11.0", params, args)                                   \
	VS_VERSION(export, 12, VS_INSTANCE_12, "@libcudart.so.12", params, args)                                     \
	VS_VERSION(export, 13, VS_INSTANCE_13, "@libcudart.so.13", params, args)                                     \
	VS_SPARES(export, params, args)

#define VS_INSTANCES_DRIVER(export, params, args)                                                                    \
	VS_INSTANCE(VS_EXPORT, export, export, VS_INSTANCE_DEFAULT, params, args)                                    \
	VS_SPARES(export, params, args)

#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after) VS_INSTANCES_##api(export, params, args)
#include "shim/cuda_entries.def"
#undef VS_ENTRY

#define VS_WRAPPERS_RUNTIME(export)                                                                                  \
	(void *)vs_##export##_any, (void *)vs_##export##_11, (void *)vs_##export##_12, (void *)vs_##export##_13
#define VS_WRAPPERS_DRIVER(export) (void *)export, NULL, NULL, NULL

const struct vs_entry_info vs_entries[VS_ENTRY_COUNT] = {
#define VS_ENTRY(export, base, since, ptsz, api, params, args, before, after)                                        \
	[VS_ENTRY_##export] = {                                                                                      \
	    #export,      base,                                                                                      \
	    since,        ptsz,                                                                                      \
	    VS_API_##api, {VS_WRAPPERS_##api(export), (void *)vs_##export##_spare0, (void *)vs_##export##_spare1}},
#include "shim/cuda_entries.def"
#undef VS_ENTRY
};
