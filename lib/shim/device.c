/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/section.h"
#include "shim/cuda_types.h"
#include "shim/device.h"
#include "shim/facts.h"
#include "shim/process.h"
#include "shim/sample.h"
#include "shim/thread.h"

/* The device calls made here, looked up once. */
enum query {
	QUERY_RUNTIME_DEVICE,
	QUERY_DRIVER_DEVICE,
	QUERY_FREE_MEMORY,
	QUERY_COUNT,
};

static const struct {
	enum vs_api api;
	const char *name;
} queries[QUERY_COUNT] = {
    [QUERY_RUNTIME_DEVICE] = {VS_API_RUNTIME, "cudaGetDevice"},
    [QUERY_DRIVER_DEVICE] = {VS_API_DRIVER, "cuCtxGetDevice"},
    /* Not cudaMemGetInfo(), which gives a thread without a context one, and that takes memory. */
    [QUERY_FREE_MEMORY] = {VS_API_DRIVER, "cuMemGetInfo_v2"},
};

static void *query(enum query which)
{
	static _Atomic(void *) found[QUERY_COUNT];
	void *function = atomic_load_explicit(&found[which], memory_order_acquire);

	if (!function) {
		function = vs_real_symbol(queries[which].api, queries[which].name, NULL);
		atomic_store_explicit(&found[which], function, memory_order_release);
	}
	return function;
}

int vs_device_current(enum vs_api api)
{
	int (*get)(int *) = query(api == VS_API_RUNTIME ? QUERY_RUNTIME_DEVICE : QUERY_DRIVER_DEVICE);
	int saved = errno, device = -1;

	if (get && get(&device) != 0)
		device = -1;
	errno = saved;
	return device;
}

int vs_device_free(uint64_t *ret_bytes)
{
	int (*get)(size_t *, size_t *) = query(QUERY_FREE_MEMORY);
	size_t free_bytes, total;

	if (!get || get(&free_bytes, &total))
		return -ENODEV;
	*ret_bytes = free_bytes;
	return 0;
}

void vs_device_look(struct vs_process *process, const struct vramshim_event *event)
{
	bool refused = event->type == VRAMSHIM_TORCH_OOM ||
	               (event->type == VRAMSHIM_CUDA_FAIL && event->result == VS_CUDA_OUT_OF_MEMORY);
	bool first = false;
	uint64_t bit;

	if (event->device >= VS_MAX_DEVICES)
		return;
	if (refused || event->type == VRAMSHIM_CUDA_ALLOC || event->type == VRAMSHIM_TORCH_ALLOC) {
		bit = (uint64_t)1 << event->device;
		first = !(atomic_load_explicit(&process->devices_seen, memory_order_relaxed) & bit) &&
		        !(atomic_fetch_or(&process->devices_seen, bit) & bit);
	}
	if (first) {
		struct vs_section section;

		vs_section_enter(&section);
		vs_facts_device(process, event->device);
		vs_section_leave(&section);
	}
	if (first || refused)
		vs_sample_now(process, event->device, refused);
	else if (event->type == VRAMSHIM_CUDA_ALLOC || event->type == VRAMSHIM_TORCH_ALLOC)
		vs_sample_event(process, event);
}
