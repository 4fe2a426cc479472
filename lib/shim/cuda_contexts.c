/* SPDX-License-Identifier: MIT */
#include "shim/cuda_contexts.h"

#include <stddef.h>

#include "shim/cuda_hooks.h"
#include "shim/device.h"
#include "shim/process.h"
#include "shim/queries.h"
#include "shim/symbols.h"

/* The primary context of a device is named by this in the trace: it is the same one for as long as it lives. */
static uint64_t primary_of(int device)
{
	return (uint64_t)device + 1;
}

/* A card does not tell; the simulated one does. */
static uint64_t context_bytes(int device)
{
	static _Atomic(void *) found;
	static char absent;
	void *get = atomic_load_explicit(&found, memory_order_acquire);

	if (!get) {
		get = vs_symbol_find("vramsim_context_bytes");
		get = get ? get : &absent;
		atomic_store_explicit(&found, get, memory_order_release);
	}
	return get == &absent ? 0 : ((uint64_t(*)(int))get)(device);
}

static void record(struct vs_call *call, enum vramshim_event_type type, uint64_t context, int device)
{
	struct vs_call own = *call;

	own.event = (struct vramshim_event){.type = type,
	                                    .memory = VRAMSHIM_MEMORY_CONTEXT,
	                                    .device = (int16_t)device,
	                                    .result = type == VRAMSHIM_CUDA_FAIL ? call->result : 0,
	                                    .address = context,
	                                    .size = type == VRAMSHIM_CUDA_ALLOC ? context_bytes(device) : 0};
	/* What was asked for in it comes next. */
	vs_thread.partial = true;
	vs_call_record_aside(&own);
	vs_thread.partial = false;
}

static struct vs_contexts *contexts_get(void)
{
	struct vs_process *process = vs_process_get();

	return process ? &process->contexts : NULL;
}

/* Whether this thread is the one to say so. */
static bool set_primary(struct vs_contexts *contexts, int device, bool there)
{
	uint64_t bit = UINT64_C(1) << device;
	uint64_t before =
	    there ? atomic_fetch_or(&contexts->primary, bit) : atomic_fetch_and(&contexts->primary, ~bit);

	return !!(before & bit) != there;
}

static void primary_seen(struct vs_call *call, struct vs_contexts *contexts, int device)
{
	int active;

	if (device < 0 || device >= 64 ||
	    atomic_load_explicit(&contexts->primary, memory_order_relaxed) & UINT64_C(1) << device)
		return;
	if (vs_query_primary(device, &active) == 0 && active && set_primary(contexts, device, true))
		record(call, VRAMSHIM_CUDA_ALLOC, primary_of(device), device);
}

void vs_contexts_primary_seen(int device)
{
	struct vs_contexts *contexts = contexts_get();
	struct vs_call call = {.entry = (enum vs_entry)vs_thread.nest.entry};

	if (contexts)
		primary_seen(&call, contexts, device);
}

uint64_t vs_contexts_devices(void)
{
	struct vs_process *process = vs_process_peek();

	return process ? atomic_load(&process->contexts.primary) : 0;
}

uint64_t vs_contexts_current(void)
{
	struct vs_process *process = vs_process_peek();
	uint64_t current;

	if (!process || !atomic_load_explicit(&process->contexts.made_count, memory_order_relaxed) ||
	    vs_query_context(&current))
		return 0;
	for (size_t i = 0; i < VS_MAX_CONTEXTS; i++)
		if (atomic_load(&process->contexts.made[i]) == current)
			return current;
	return 0;
}

void vs_call_context_made(struct vs_call *call, uint64_t context, int device)
{
	struct vs_contexts *contexts = contexts_get();
	uint64_t none = 0;

	if (call->result == VS_CUDA_OUT_OF_MEMORY) {
		vs_call_context_refused(call, device, context_bytes(device));
		return;
	}
	if (call->result) {
		if (!vs_call_booked(call, 0))
			record(call, VRAMSHIM_CUDA_FAIL, 0, device);
		return;
	}
	if (!contexts || !context)
		return;
	atomic_fetch_add(&contexts->made_count, 1);
	/* Beyond the table's end a context's allocations count as the primary one's, and outlive it in the books. */
	for (size_t i = 0; i < VS_MAX_CONTEXTS; i++, none = 0)
		if (atomic_compare_exchange_strong(&contexts->made[i], &none, context)) {
			atomic_store(&contexts->uses[i], 1);
			break;
		}
	record(call, VRAMSHIM_CUDA_ALLOC, context, device);
}

void vs_call_context_gone(struct vs_call *call, uint64_t context)
{
	struct vs_contexts *contexts = contexts_get();

	if (call->result || !contexts || !context)
		return;
	for (size_t i = 0; i < VS_MAX_CONTEXTS; i++) {
		uint64_t expected = context;

		if (atomic_compare_exchange_strong(&contexts->made[i], &expected, 0)) {
			record(call, VRAMSHIM_CUDA_FREE, context, -1);
			return;
		}
	}
}

/* Its count, or NULL: none of those in the table. */
static _Atomic uint32_t *uses_of(const struct vs_call *call, uint64_t context)
{
	struct vs_contexts *contexts = call->result ? NULL : contexts_get();

	for (size_t i = 0; contexts && context && i < VS_MAX_CONTEXTS; i++)
		if (atomic_load(&contexts->made[i]) == context)
			return &contexts->uses[i];
	return NULL;
}

void vs_call_context_attached(struct vs_call *call, uint64_t context)
{
	_Atomic uint32_t *uses = uses_of(call, context);

	if (uses)
		atomic_fetch_add(uses, 1);
}

void vs_call_context_detached(struct vs_call *call, uint64_t context)
{
	_Atomic uint32_t *uses = uses_of(call, context);

	if (uses && atomic_fetch_sub(uses, 1) == 1)
		vs_call_context_gone(call, context);
}

static void primary_gone(struct vs_call *call, struct vs_contexts *contexts, int device)
{
	struct vs_process *process = vs_process_peek();

	if (device < 0 || device >= 64 || !set_primary(contexts, device, false))
		return;
	record(call, VRAMSHIM_CUDA_FREE, primary_of(device), device);
	if (process)
		vs_pools_forget(&process->pools, device);
}

void vs_call_primary(struct vs_call *call, int device)
{
	struct vs_contexts *contexts = contexts_get();
	int active;

	if (call->result && device >= 0 && device < 64)
		vs_call_context_refused(call, device, context_bytes(device));
	if (call->result || !contexts || device < 0 || device >= 64)
		return;
	primary_seen(call, contexts, device);
	if (vs_query_primary(device, &active) == 0 && !active)
		primary_gone(call, contexts, device);
}

void vs_call_first(struct vs_call *call)
{
	int device;

	if (call->result != VS_CUDA_OUT_OF_MEMORY)
		return;
	device = vs_device_current(vs_entries[call->entry].api);
	vs_call_context_refused(call, device, context_bytes(device));
}

void vs_call_reset_begins(struct vs_call *call)
{
	call->event.device = (int16_t)vs_device_current(vs_entries[call->entry].api);
}

void vs_call_reset(struct vs_call *call)
{
	struct vs_contexts *contexts = contexts_get();

	if (call->result || !contexts)
		return;
	primary_gone(call, contexts, call->event.device);
}
