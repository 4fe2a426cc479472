/* SPDX-License-Identifier: MIT
 *
 * PyTorch's caching allocator reports each block to these functions of libc10, through the PLT and therefore to us.
 * The allocator's mutex is held, the GIL usually is not.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/export.h"
#include "shim/real.h"
#include "shim/record.h"
#include "shim/thread.h"

/* c10::Device is two bytes in one register: the type below, the index above. */
#define DEVICE_CUDA 1 /* c10::DeviceType::CUDA */

static inline unsigned int device_type(uint16_t device)
{
	return device & 0xff;
}

static inline int16_t device_index(uint16_t device)
{
	return (int8_t)(device >> 8);
}

typedef void memory_function(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device);
typedef void oom_function(int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device);

/* libc10's own, which feeds torch.profiler. Whoever calls the hook has libc10 loaded, so one look is enough: "not
 * there" is remembered as the address of this mark. */
static char absent;

static void *chained(_Atomic(void *) *slot, const char *name)
{
	void *real = atomic_load_explicit(slot, memory_order_acquire);

	if (!real) {
		bool settled;

		real = vs_real_symbol(VS_API_TORCH, name, &settled);
		if (!settled)
			return real;
		if (!real)
			real = &absent;
		atomic_store_explicit(slot, real, memory_order_release);
	}
	return real == &absent ? NULL : real;
}

static void report(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device)
{
	/* A free is reported with its size negated. */
	struct vramshim_event event = {
	    .type = size < 0 ? VRAMSHIM_TORCH_FREE : VRAMSHIM_TORCH_ALLOC,
	    .device = device_index(device),
	    .address = (uintptr_t)pointer,
	    .size = size < 0 ? 0 - (uint64_t)size : (uint64_t)size,
	    .allocated = allocated,
	    .reserved = reserved,
	};

	if (vs_enter() && device_type(device) == DEVICE_CUDA)
		vs_record(&event);
	vs_leave();
}

static void report_oom(int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device)
{
	struct vramshim_event event = {
	    .type = VRAMSHIM_TORCH_OOM,
	    .device = device_index(device),
	    .size = (uint64_t)size,
	    .allocated = allocated,
	    .reserved = reserved,
	};

	if (vs_enter() && device_type(device) == DEVICE_CUDA)
		vs_record_oom(&event);
	vs_leave();
}

#define VS_MEMORY_HOOK(name)                                                                                         \
	VS_EXPORT memory_function name;                                                                              \
	void name(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device)               \
	{                                                                                                            \
		static _Atomic(void *) slot;                                                                         \
		memory_function *real;                                                                               \
                                                                                                                     \
		report(pointer, size, allocated, reserved, device);                                                  \
		real = chained(&slot, #name);                                                                        \
		if (real)                                                                                            \
			real(pointer, size, allocated, reserved, device);                                            \
	}

#define VS_OOM_HOOK(name)                                                                                            \
	VS_EXPORT oom_function name;                                                                                 \
	void name(int64_t size, uint64_t allocated, uint64_t reserved, uint16_t device)                              \
	{                                                                                                            \
		static _Atomic(void *) slot;                                                                         \
		oom_function *real;                                                                                  \
                                                                                                                     \
		report_oom(size, allocated, reserved, device);                                                       \
		real = chained(&slot, #name);                                                                        \
		if (real)                                                                                            \
			real(size, allocated, reserved, device);                                                     \
	}

/* c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device), 2.0.1 to 2.15; in 1.13 the totals
 * were int64_t: another name for the same registers. */
VS_MEMORY_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
VS_MEMORY_HOOK(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE)
/* c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, c10::Device). */
VS_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE)
VS_OOM_HOOK(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE)
