/* SPDX-License-Identifier: MIT */
#include "ledger/counters.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void vs_counters_release(struct vs_counters *counters)
{
	for (size_t i = 0; i < counters->count; i++) {
		free(counters->devices[i].steps);
		free(counters->devices[i].marks);
		free(counters->devices[i].ooms);
		vs_cuda_release(&counters->devices[i].cuda);
		vs_accounts_release(&counters->devices[i].accounts);
	}
	free(counters->devices);
	*counters = (struct vs_counters){0};
}

struct vs_counter *vs_counters_device(struct vs_counters *counters, int device, bool *ret_new)
{
	size_t at = 0;

	*ret_new = false;
	while (at < counters->count && counters->devices[at].index < device)
		at++;
	if (at < counters->count && counters->devices[at].index == device)
		return &counters->devices[at];
	if (vs_grow(&counters->devices, &counters->capacity, counters->count + 1, sizeof(*counters->devices)))
		return NULL;
	memmove(&counters->devices[at + 1], &counters->devices[at],
	        (counters->count - at) * sizeof(*counters->devices));
	counters->devices[at] = (struct vs_counter){.index = device};
	counters->count++;
	*ret_new = true;
	return &counters->devices[at];
}

static int push_point(struct vs_point **points, size_t *count, size_t *capacity, const struct vs_point *point)
{
	if (vs_grow(points, capacity, *count + 1, sizeof(*point)))
		return -ENOMEM;
	(*points)[(*count)++] = *point;
	return 0;
}

static int allocated(struct vs_counter *counter)
{
	const struct vs_point *now = &counter->now;
	struct vs_point *last = counter->step_count ? &counter->steps[counter->step_count - 1] : NULL;

	if (now->allocated > counter->peak.allocated || !counter->peak.sequence)
		counter->peak = *now;
	if (now->phase == VS_PHASE_SETUP) /* belongs to no step */
		return 0;
	if (!last || last->step != now->step)
		return push_point(&counter->steps, &counter->step_count, &counter->step_capacity, now);
	if (now->allocated > last->allocated)
		*last = *now;
	return 0;
}

static int torch_event(struct vs_counter *counter, const struct vramshim_event *event)
{
	counter->now.allocated = event->allocated;
	counter->now.reserved = event->reserved;
	if (event->reserved > counter->max_reserved)
		counter->max_reserved = event->reserved;
	vs_accounts_torch(&counter->accounts, &counter->now, &counter->cuda.holdings);
	if (event->type == VRAMSHIM_TORCH_ALLOC) {
		counter->allocations++;
		counter->running += event->size;
	} else {
		counter->frees++;
		counter->running -= event->size;
	}
	if (counter->running != event->allocated) { /* say so once, then go on from what PyTorch says */
		counter->mismatches++;
		counter->running = event->allocated;
	}
	if (event->type != VRAMSHIM_TORCH_ALLOC)
		return 0;
	while (counter->caught_count < counter->oom_count)
		counter->ooms[counter->caught_count++].caught = true;
	return allocated(counter);
}

static int out_of_memory(struct vs_counter *counter, const struct vramshim_event *event)
{
	struct vs_oom_event oom = {.requested = event->size, .stack = event->stack};

	counter->now.allocated = event->allocated;
	counter->now.reserved = event->reserved;
	oom.at = counter->now;
	oom.free_known = counter->free_is_fresh || counter->total;
	/* PyTorch asks the driver for the free memory just before it reports. */
	if (counter->free_is_fresh)
		oom.free = counter->free_sampled;
	else if (counter->total > counter->now.device)
		oom.free = counter->total - counter->now.device;
	if (vs_grow(&counter->ooms, &counter->oom_capacity, counter->oom_count + 1, sizeof(oom)))
		return -ENOMEM;
	counter->ooms[counter->oom_count++] = oom;
	return 0;
}

static uint64_t device_bytes(const struct vs_counter *counter)
{
	return counter->context + counter->cuda.holdings.taken;
}

/* Where contexts come with their bytes, their sum takes the place of the device's figure for one. */
static void context_event(struct vs_counter *counter, const struct vramshim_event *event)
{
	if (!event->size)
		return;
	if (!counter->contexts_seen)
		counter->context = 0;
	counter->contexts_seen = true;
	counter->context += event->type == VRAMSHIM_CUDA_ALLOC ? event->size : -event->size;
}

static int cuda_event(struct vs_counter *counter, const struct vramshim_event *event, uint8_t owner)
{
	int error = vs_cuda_event(&counter->cuda, event, owner);

	if (event->memory == VRAMSHIM_MEMORY_CONTEXT)
		context_event(counter, event);

	counter->free_is_fresh = false;
	counter->now.device = device_bytes(counter);
	if (counter->now.device > counter->max_device)
		counter->max_device = counter->now.device;
	vs_accounts_cuda(&counter->accounts, &counter->now, counter->context, &counter->cuda.holdings);
	return error;
}

static int sample(struct vs_counter *counter, const struct vramshim_event *event)
{
	counter->free_sampled = event->size;
	counter->free_is_fresh = true;
	if (counter->total < event->size)
		return 0;
	/* What the driver says this process holds beyond all that was asked for is its context. The first time only:
	 * later it is also what libraries got without our seeing. */
	if (!counter->context && !counter->accounts.seen && event->allocated > counter->cuda.holdings.taken) {
		counter->context = event->allocated - counter->cuda.holdings.taken;
		counter->context_measured = true;
	}
	return vs_accounts_sample(&counter->accounts, event, &counter->now, counter->total, counter->context,
	                          &counter->cuda.holdings);
}

static void set_now(struct vs_counter *counter, const struct vramshim_event *event, const struct vs_epoch *epoch)
{
	counter->now.sequence = event->sequence;
	counter->now.time_ns = event->time_ns;
	counter->now.step = epoch->step;
	counter->now.phase = epoch->phase;
	counter->now.device = device_bytes(counter);
	if (counter->now.device > counter->max_device)
		counter->max_device = counter->now.device;
}

int vs_counters_event(struct vs_counters *counters, struct vs_counter *counter, const struct vramshim_event *event,
                      const struct vs_epoch *epoch, uint8_t owner, const char *mark)
{
	int error = 0;

	counters->last_ns = event->time_ns;
	if (event->type == VRAMSHIM_MARK) {
		for (size_t i = 0; i < counters->count && !error; i++) {
			struct vs_counter *device = &counters->devices[i];
			struct vs_point point;

			if (counters->mark_total >= VS_MARKS_MAX) {
				counters->marks_dropped++;
				continue;
			}
			counters->mark_total++;
			set_now(device, event, epoch);
			point = device->now;
			point.name = mark;
			error = push_point(&device->marks, &device->mark_count, &device->mark_capacity, &point);
		}
		return error;
	}
	if (!counter)
		return 0;
	set_now(counter, event, epoch);
	switch (event->type) {
	case VRAMSHIM_TORCH_ALLOC:
	case VRAMSHIM_TORCH_FREE:
		return torch_event(counter, event);
	case VRAMSHIM_TORCH_OOM:
		return out_of_memory(counter, event);
	case VRAMSHIM_CUDA_ALLOC:
	case VRAMSHIM_CUDA_FREE:
		return cuda_event(counter, event, owner);
	case VRAMSHIM_MEMINFO:
		return sample(counter, event);
	default:
		return 0;
	}
}
