/* SPDX-License-Identifier: MIT */
#include "shim/cuda_pools.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/section.h"
#include "shim/cuda_contexts.h"
#include "shim/cuda_hooks.h"
#include "shim/device.h"
#include "shim/process.h"
#include "shim/queries.h"
#include "shim/sample.h"

/* What `held` is before the first answer. */
#define UNKNOWN UINT64_MAX

/* The graphs' memory of a device is named by this in the trace (events.h). */
static uint64_t graphs_of(int device)
{
	return (uint64_t)device + 1;
}

static struct vs_pools *pools_get(void)
{
	struct vs_process *process = vs_process_get();

	return process ? &process->pools : NULL;
}

static struct vs_pool *find(struct vs_pools *pools, uint64_t handle)
{
	uint32_t count = atomic_load_explicit(&pools->count, memory_order_acquire);

	for (uint32_t i = 0; i < count && i < VS_MAX_POOLS; i++)
		if (atomic_load_explicit(&pools->pools[i].handle, memory_order_relaxed) == handle)
			return &pools->pools[i];
	return NULL;
}

/* One that is free for another pool. NULL: there are VS_MAX_POOLS; this one then goes by what is allocated from it.
 */
static struct vs_pool *place(struct vs_pools *pools)
{
	uint32_t count = atomic_load(&pools->count);

	for (uint32_t i = 0; i < count; i++)
		if (atomic_load(&pools->pools[i].state) == VS_POOL_NONE && !atomic_load(&pools->pools[i].readers))
			return &pools->pools[i];
	return count < VS_MAX_POOLS ? &pools->pools[count] : NULL;
}

static struct vs_pool *meet(struct vs_pools *pools, uint64_t handle, int device)
{
	struct vs_pool *pool = find(pools, handle);
	struct vs_section section;

	if (pool)
		return pool;
	/* Two threads that meet a pool at once must not give it two places. */
	vs_section_enter(&section);
	while (atomic_exchange(&pools->adding, true))
		sched_yield();
	pool = find(pools, handle);
	if (!pool) {
		pool = place(pools);
		if (pool) {
			atomic_store(&pool->held, UNKNOWN);
			atomic_store(&pool->device, (int16_t)device);
			atomic_store(&pool->handle, handle);
			atomic_store(&pool->state, VS_POOL_LIVE);
			if (pool == &pools->pools[atomic_load(&pools->count)])
				atomic_fetch_add(&pools->count, 1);
		}
	}
	atomic_store(&pools->adding, false);
	vs_section_leave(&section);
	return pool;
}

/* Threads that ask at the same time may record their answers in another order than they got them. Whoever records
 * asks again, and records again where the answer has changed: so the last record is true. */
struct source {
	uint64_t handle;
	int device;
	bool graphs;
};

static void record_held(const struct vs_call *call, const struct source *source, uint64_t bytes)
{
	struct vs_call held = *call;

	held.event = (struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
	                                     .memory = source->graphs ? VRAMSHIM_MEMORY_GRAPHS : VRAMSHIM_MEMORY_HELD,
	                                     .device = (int16_t)source->device,
	                                     .address = source->handle,
	                                     .size = bytes};
	vs_call_record_aside(&held);
}

static bool ask(const struct source *source, uint64_t *ret_bytes)
{
	return (source->graphs ? vs_query_graphs_held(source->device, ret_bytes)
	                       : vs_query_pool_held(source->handle, ret_bytes)) == 0;
}

static bool sample(const struct vs_call *call, const struct source *source, _Atomic uint64_t *held)
{
	uint64_t bytes, again;

	if (!ask(source, &bytes) || bytes == atomic_load(held))
		return false;
	for (;; bytes = again) {
		atomic_store(held, bytes);
		record_held(call, source, bytes);
		if (!ask(source, &again) || again == bytes)
			return true;
	}
}

static bool sample_pool(const struct vs_call *call, struct vs_pool *pool)
{
	bool changed = false;

	/* Sequentially consistent, like the pair in vs_call_pool_ends(): either it sees us, or we see it. */
	atomic_fetch_add(&pool->readers, 1);
	if (atomic_load(&pool->state) == VS_POOL_LIVE) {
		struct source source = {atomic_load(&pool->handle), atomic_load(&pool->device), false};

		changed = sample(call, &source, &pool->held);
	}
	atomic_fetch_sub(&pool->readers, 1);
	return changed;
}

static uint64_t bit_of(int device)
{
	return device >= 0 && device < 64 ? UINT64_C(1) << device : 0;
}

/* One call changed several, which come event by event: after the last the trace adds up, and the driver may be asked
 * for the free memory. */
static void changed_on(struct vs_process *process, uint64_t devices)
{
	vs_thread.partial = false;
	for (int device = 0; devices; device++, devices >>= 1) {
		struct vramshim_event event = {
		    .type = VRAMSHIM_CUDA_ALLOC, .memory = VRAMSHIM_MEMORY_HELD, .device = (int16_t)device};

		if (devices & 1)
			vs_sample_event(process, &event);
	}
}

void vs_call_pools_changed(struct vs_call *call)
{
	struct vs_process *process = vs_process_peek();
	uint32_t count = process ? atomic_load_explicit(&process->pools.count, memory_order_acquire) : 0;

	uint64_t devices = 0;

	vs_thread.partial = count > 0;
	for (uint32_t i = 0; i < count && i < VS_MAX_POOLS; i++) {
		struct vs_pool *pool = &process->pools.pools[i];

		if (atomic_load_explicit(&pool->state, memory_order_relaxed) == VS_POOL_LIVE &&
		    sample_pool(call, pool))
			devices |= bit_of(atomic_load(&pool->device));
	}
	changed_on(process, devices);
}

bool vs_pools_in_use(void)
{
	struct vs_process *process = vs_process_peek();

	return process && atomic_load_explicit(&process->pools.count, memory_order_relaxed);
}

/* How long the end of a pool waits for one of our own questions, which takes a microsecond: 2^20 turns are never. */
enum { MOST_TURNS = 1 << 20 };

/* From here on nobody asks it, and its handle may be given to another pool. */
static void ask_no_more(struct vs_pool *pool)
{
	atomic_store(&pool->state, VS_POOL_ENDS);
	atomic_store(&pool->handle, 0);
	for (int turns = 0; atomic_load(&pool->readers) && turns < MOST_TURNS; turns++)
		sched_yield();
}

/* Whether their handles are still good is not documented. A pool that is allocated from is met anew. */
void vs_pools_forget(struct vs_pools *pools, int device)
{
	uint32_t count = atomic_load(&pools->count);

	for (uint32_t i = 0; i < count && i < VS_MAX_POOLS; i++) {
		struct vs_pool *pool = &pools->pools[i];

		if (atomic_load(&pool->device) != device || atomic_load(&pool->state) != VS_POOL_LIVE)
			continue;
		ask_no_more(pool);
		atomic_store(&pool->state, VS_POOL_NONE);
	}
	atomic_store(&pools->graphs_held[device], 0);
}

void vs_call_complete(struct vs_call *call, struct vs_pool *pool)
{
	struct vs_process *process = vs_process_peek();

	vs_thread.partial = false;
	if (pool)
		sample_pool(call, pool);
	else
		vs_call_pools_changed(call);
	if (process)
		vs_sample_event(process, &call->event);
}

static void note_graphs(struct vs_pools *pools, int device)
{
	atomic_fetch_or(&pools->graph_devices, bit_of(device));
}

void vs_call_pool_allocated(struct vs_call *call, uint64_t address, uint64_t size, void *stream)
{
	struct vs_pools *pools = pools_get();
	struct vs_pool *pool = NULL;
	uint64_t handle = 0;
	int device = -1, capturing = 0;

	if (call->result || !address || !pools || vs_call_booked(call, address)) {
		vs_call_allocated(call, VRAMSHIM_MEMORY_POOL, address, size);
		return;
	}
	if (!stream && vs_entries[call->entry].per_thread)
		stream = VS_CUDA_STREAM_PER_THREAD;
	if (stream)
		vs_query_capturing(stream, &capturing);
	if (capturing) {
		/* A node of a graph to be: there is an address, and memory once the graph runs. On the stream's
		 * device, which need not be the current one: on any that has a context. */
		atomic_fetch_or(&pools->graph_devices, vs_contexts_devices());
		return;
	}
	if (vs_query_pool_of(address, &handle, &device) == 0) {
		pool = meet(pools, handle, device);
		device = pool ? atomic_load(&pool->device) : device;
	}
	vs_contexts_primary_seen(device);
	call->event = (struct vramshim_event){.type = VRAMSHIM_CUDA_ALLOC,
	                                      .memory = VRAMSHIM_MEMORY_POOL,
	                                      .device = (int16_t)(handle ? device : vs_device_current(VS_API_DRIVER)),
	                                      .address = address,
	                                      .handle = pool ? handle : 0,
	                                      .size = size};
	vs_thread.partial = pool != NULL;
	vs_call_record(call);
	if (pool)
		vs_call_complete(call, pool);
}

void vs_call_linear_freed(struct vs_call *call)
{
	if (!call->event.address)
		vs_call_first(call);
	vs_call_freed(call);
	vs_call_pools_changed(call);
}

void vs_call_pool_made(struct vs_call *call, uint64_t pool, const struct vs_cuda_pool_props *props)
{
	struct vs_pools *pools = pools_get();

	if (call->result || !pool || !props || !pools)
		return;
	meet(pools, pool, props->location.type == VS_CUDA_LOCATION_DEVICE ? props->location.id : -1);
}

/* Another process's memory: the owner asks for it. */
void vs_call_pool_imported(struct vs_call *call, uint64_t pool)
{
	(void)call;
	(void)pool;
}

/* Its last word, and its end, before the handle can be given to another pool. */
void vs_call_pool_ends(struct vs_call *call, uint64_t handle)
{
	struct vs_process *process = vs_process_peek();
	struct vs_pool *pool = process && handle ? find(&process->pools, handle) : NULL;

	if (!pool || atomic_load(&pool->state) != VS_POOL_LIVE)
		return;
	sample_pool(call, pool);
	ask_no_more(pool);
	call->object = pool;
	call->event = (struct vramshim_event){.type = VRAMSHIM_CUDA_FREE,
	                                      .memory = VRAMSHIM_MEMORY_HELD,
	                                      .device = atomic_load(&pool->device),
	                                      .address = handle};
	vs_call_record(call);
}

void vs_call_pool_ended(struct vs_call *call, uint64_t handle)
{
	struct vs_pools *pools = pools_get();
	struct vs_pool *pool = call->object;

	if (!pool || !pools)
		return;
	atomic_store(&pool->state, VS_POOL_NONE);
	if (!call->result)
		return;
	/* It is still there. */
	pool = meet(pools, handle, atomic_load(&pool->device));
	if (pool)
		sample_pool(call, pool);
}

void vs_call_graph_node(struct vs_call *call, const struct vs_cuda_alloc_node *node)
{
	struct vs_pools *pools = call->result ? NULL : pools_get();

	if (pools)
		note_graphs(pools, node && node->pool.location.type == VS_CUDA_LOCATION_DEVICE
		                       ? node->pool.location.id
		                       : vs_device_current(vs_entries[call->entry].api));
}

void vs_call_graph_any_node(struct vs_call *call, const struct vs_cuda_node *node)
{
	if (node && node->type == VS_CUDA_NODE_ALLOCATION)
		vs_call_graph_node(call, &node->allocation);
}

void vs_call_graphs_changed(struct vs_call *call)
{
	struct vs_process *process = vs_process_peek();
	uint64_t devices = process ? atomic_load_explicit(&process->pools.graph_devices, memory_order_relaxed) : 0;

	uint64_t changed = 0;

	vs_thread.partial = devices != 0;
	for (int device = 0; devices; device++, devices >>= 1) {
		struct source source = {graphs_of(device), device, true};

		if (devices & 1 && sample(call, &source, &process->pools.graphs_held[device]))
			changed |= bit_of(device);
	}
	changed_on(process, changed);
	vs_call_graph_refused(call);
}
