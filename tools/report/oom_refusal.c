/* SPDX-License-Identifier: MIT */
#include "oom_refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "ledger/resolve.h"
#include "ledger/sites.h"
#include "oom/oom.h"
#include "symbol/symbol.h"

/* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY are the same number. */
#define OUT_OF_MEMORY 2

/* As many as PyTorch knows (C10_COMPILE_TIME_MAX_GPUS is 120). */
#define DEVICES_MAX 128

struct search {
	struct vramshim_trace *trace;
	struct vs_symbols *symbols;
	struct vs_sites *sites;
	struct vs_resolver resolver;
	uint64_t held[DEVICES_MAX];     /* bytes of each card */
	uint32_t contexts[DEVICES_MAX]; /* on each */
	uint64_t allocated, reserved;
	bool torch, uncached;
	struct vs_refusal refusal; /* .sequence 0: none yet */
	uint32_t thread;
};

static const struct vs_driver_said nothing_said = {VS_OOM_UNKNOWN, VS_OOM_UNKNOWN, VS_OOM_UNKNOWN};

static struct vs_driver_said said(const struct vramshim_event *sample)
{
	struct vs_driver_said said = {sample->size, VS_OOM_UNKNOWN, VS_OOM_UNKNOWN};

	/* A process that asks holds something itself. */
	if (sample->allocated) {
		said.own = sample->allocated;
		said.others = sample->reserved;
	}
	return said;
}

static bool takes_memory(enum vramshim_memory memory)
{
	return memory == VRAMSHIM_MEMORY_DEVICE || memory == VRAMSHIM_MEMORY_MANAGED ||
	       memory == VRAMSHIM_MEMORY_ARRAY || memory == VRAMSHIM_MEMORY_POOL ||
	       memory == VRAMSHIM_MEMORY_PHYSICAL || memory == VRAMSHIM_MEMORY_CONTEXT ||
	       memory == VRAMSHIM_MEMORY_GRAPHS;
}

/* What is on a card; what is in use of a pool is in what the pool holds. */
static int account(void *user, const struct vramshim_event *event)
{
	struct search *search = user;
	bool got = event->type == VRAMSHIM_CUDA_ALLOC;

	if (event->device < 0 || event->device >= DEVICES_MAX)
		return 0;
	switch (event->memory) {
	case VRAMSHIM_MEMORY_DEVICE:
	case VRAMSHIM_MEMORY_ARRAY:
	case VRAMSHIM_MEMORY_PHYSICAL:
	case VRAMSHIM_MEMORY_HELD:
	case VRAMSHIM_MEMORY_GRAPHS:
		search->held[event->device] += got ? event->size : -event->size;
		return 0;
	case VRAMSHIM_MEMORY_CONTEXT:
		search->contexts[event->device] += got ? 1 : -1u;
		return 0;
	default:
		return 0;
	}
}

/* The file whose code called: the innermost native frame. */
static void caller(const struct search *search, uint32_t stack, char *library, size_t size)
{
	const struct vs_frame *frames;
	size_t count;

	library[0] = '\0';
	if (vs_symbol_stack(search->symbols, stack, &frames, &count) < 0 || !count ||
	    frames[0].kind != VS_FRAME_NATIVE)
		return;
	snprintf(library, size, "%s", vs_path_file(frames[0].module));
}

static void refused(struct search *search, const struct vramshim_event *event)
{
	struct vs_refusal refusal = {
	    .device = event->device,
	    .sequence = event->sequence,
	    .size = event->size,
	    .time_ns = event->time_ns,
	    .stack = event->stack,
	    .entry = vramshim_trace_string(search->trace, event->name),
	    .driver = nothing_said,
	    .torch = search->torch,
	    .allocated = search->allocated,
	    .reserved = search->reserved,
	    .graph = event->memory == VRAMSHIM_MEMORY_GRAPHS,
	    .context = event->memory == VRAMSHIM_MEMORY_CONTEXT,
	};

	if (event->device < DEVICES_MAX) {
		refusal.held = search->held[event->device];
		refusal.first = !refusal.held && !search->contexts[event->device];
	}

	caller(search, event->stack, refusal.library, sizeof(refusal.library));
	refusal.by_torch = vs_sites_owner(search->sites, event->stack) == VS_OWNER_PYTORCH;
	/* The caching allocator asks again after it has given back its cache, and reports its error itself; where it
	 * has no context, it can not, as it asks how much is free before that. */
	if (refusal.by_torch && event->memory != VRAMSHIM_MEMORY_POOL && !search->uncached && !refusal.first)
		return;
	search->refusal = refusal;
	search->thread = event->thread;
}

static void torch_event(struct search *search, const struct vramshim_event *event)
{
	search->torch = true;
	search->allocated = event->allocated;
	search->reserved = event->reserved;
	if (!search->refusal.sequence || event->type == VRAMSHIM_TORCH_FREE)
		return;
	search->refusal.caught = true;
	/* Without native stacks nobody tells who asked. If the thread's next word is PyTorch's, it was PyTorch, which
	 * asked again or gave up. */
	if (!search->refusal.library[0] && event->thread == search->thread)
		search->refusal.sequence = 0;
}

static int step(struct search *search, const struct vramshim_event *event)
{
	switch (event->type) {
	case VRAMSHIM_TORCH_ALLOC:
	case VRAMSHIM_TORCH_FREE:
	case VRAMSHIM_TORCH_OOM:
		torch_event(search, event);
		return 0;
	case VRAMSHIM_CUDA_ALLOC:
		search->refusal.caught |= takes_memory(event->memory);
		return vs_resolve(&search->resolver, event, account, search);
	case VRAMSHIM_CUDA_FREE:
		return vs_resolve(&search->resolver, event, account, search);
	case VRAMSHIM_CUDA_FAIL:
		if (event->result == OUT_OF_MEMORY && takes_memory(event->memory) && event->device >= 0)
			refused(search, event);
		return vs_resolve(&search->resolver, event, account, search);
	case VRAMSHIM_MEMINFO:
		if (search->refusal.sequence && search->refusal.driver.free == VS_OOM_UNKNOWN &&
		    event->thread == search->thread && event->device == search->refusal.device &&
		    !search->refusal.caught)
			search->refusal.driver = said(event);
		return 0;
	default:
		return 0;
	}
}

int vs_refusal_find(struct vramshim_trace *trace, struct vs_symbols *symbols, struct vs_refusal *ret_refusal)
{
	struct search search = {.trace = trace, .symbols = symbols};
	struct vramshim_event event;
	int r = vs_sites_new(trace, symbols, &search.sites);

	search.uncached = vramshim_trace_fact(trace, "env:PYTORCH_NO_CUDA_MEMORY_CACHING");
	vramshim_trace_rewind(trace);
	while (r == 0 && vramshim_trace_next(trace, &event) > 0)
		r = step(&search, &event);
	vs_resolver_release(&search.resolver);
	vs_sites_free(search.sites);
	if (r == 0 && !search.refusal.sequence)
		r = -ENOENT;
	if (r == 0)
		*ret_refusal = search.refusal;
	return r;
}

struct vs_driver_said vs_refusal_sample(struct vramshim_trace *trace, uint64_t sequence)
{
	struct vramshim_event event, oom = {.device = -1};

	vramshim_trace_rewind(trace);
	while (vramshim_trace_next(trace, &event) > 0) {
		if (event.sequence == sequence) {
			oom = event;
		} else if (oom.device >= 0 && event.thread == oom.thread) {
			if (event.type != VRAMSHIM_MEMINFO || event.device != oom.device)
				break;
			return said(&event);
		}
	}
	return nothing_said;
}
