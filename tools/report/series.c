/* SPDX-License-Identifier: MIT */
#include "series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/u64map.h"

/* Beyond any run that is meant to be small. */
#define EVENTS_MAX (32u << 20)

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return vs_hash_word(hash + vs_hash_word(value));
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return vs_hash(text ? text : "", text ? strlen(text) : 0, hash);
}

/* Where in the program: Python frames by function and instruction, else native ones by file and offset. Addresses
 * differ from run to run, places do not. */
static uint64_t key_of(const struct vramshim_trace *trace, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);
	uint64_t hash = 7;

	if (!stack)
		return 0;
	for (uint32_t i = 0; i < stack->python_count; i++) {
		struct vramshim_python_frame frame;
		const struct vramshim_code *code;

		if (!vramshim_trace_python_frame(trace, stack->python[i], &frame))
			continue;
		code = vramshim_trace_code(trace, frame.code);
		hash = mix_text(hash, code ? code->function : "");
		hash = mix(hash, (uint64_t)frame.instruction);
	}
	for (uint32_t i = 0; i < stack->native_count && !stack->python_count; i++) {
		const struct vramshim_module *module = vramshim_trace_module(trace, stack->native[i]);

		hash = mix(hash, module ? stack->native[i] - module->base : 0);
	}
	return hash;
}

static int append(struct vs_recorded_series *r, size_t *room, struct vs_series_event event)
{
	if (r->series.count == *room) {
		size_t more = *room ? *room * 2 : 4096;
		void *bigger = more > EVENTS_MAX ? NULL : realloc(r->events, more * sizeof(*r->events));

		if (!bigger)
			return -ENOMEM;
		r->events = bigger;
		*room = more;
	}
	r->events[r->series.count++] = event;
	return 0;
}

static int sequence_order(const void *a, const void *b)
{
	const struct vs_block *x = a, *y = b;

	return (x->allocated_at > y->allocated_at) - (x->allocated_at < y->allocated_at);
}

/* Blocks in the order they were allocated, to be walked beside the events. */
struct tagged {
	struct vs_block *blocks;
	size_t count, next;
};

/* Blocks alive at the measured peak have a tag; others made by Python code are activations, the rest temporaries. */
static uint32_t category_of(struct tagged *t, const struct vramshim_event *e, const struct vramshim_stack *stack)
{
	while (t->next < t->count && t->blocks[t->next].allocated_at < e->sequence)
		t->next++;
	if (t->next < t->count && t->blocks[t->next].allocated_at == e->sequence)
		return t->blocks[t->next].tag;
	return stack && stack->python_count ? VS_TAG_ACTIVATIONS : VS_TAG_TEMPORARIES;
}

struct reading {
	struct vramshim_trace *trace;
	uint64_t *keys; /* by stack: what it hashes to; 0: not yet */
	struct tagged tagged;
	struct vs_u64map live; /* address to the index of the event */
	struct vs_recorded_series *series;
	size_t room;
};

static int allocated(struct reading *r, const struct vramshim_event *e)
{
	struct vs_series_event event = {.size = e->size};
	int error;

	if (e->stack && e->stack <= vramshim_trace_stack_count(r->trace)) {
		if (!r->keys[e->stack])
			r->keys[e->stack] = key_of(r->trace, e->stack);
		event.key = r->keys[e->stack];
	}
	event.category = category_of(&r->tagged, e, vramshim_trace_stack(r->trace, e->stack));
	error = vs_u64map_put(&r->live, e->address, (uint32_t)r->series->series.count);
	return error ? error : append(r->series, &r->room, event);
}

static int read_events(struct reading *r, int device)
{
	struct vramshim_event e;
	uint32_t index;
	int error = 0;

	vramshim_trace_rewind(r->trace);
	while (!error && vramshim_trace_next(r->trace, &e) == 1) {
		if (e.device != device || !e.address || !e.size)
			continue;
		if (e.type == VRAMSHIM_TORCH_ALLOC)
			error = allocated(r, &e);
		else if (e.type == VRAMSHIM_TORCH_FREE && vs_u64map_take(&r->live, e.address, &index))
			error = append(r->series, &r->room, (struct vs_series_event){.freed = index});
	}
	return error;
}

int vs_series_read(struct vramshim_trace *trace, const struct vs_device_summary *device,
                   struct vs_recorded_series *series)
{
	struct reading r = {.trace = trace, .series = series, .tagged.count = device->block_count};
	int error = -ENOMEM;

	r.keys = calloc((size_t)vramshim_trace_stack_count(trace) + 1, sizeof(*r.keys));
	r.tagged.blocks = calloc(device->block_count + 1, sizeof(*r.tagged.blocks));
	if (r.keys && r.tagged.blocks) {
		if (device->block_count)
			memcpy(r.tagged.blocks, device->blocks, device->block_count * sizeof(*device->blocks));
		qsort(r.tagged.blocks, device->block_count, sizeof(*r.tagged.blocks), sequence_order);
		error = read_events(&r, device->index);
	}
	series->series.events = series->events;
	vs_u64map_release(&r.live);
	free(r.tagged.blocks);
	free(r.keys);
	return error;
}

void vs_series_release(struct vs_recorded_series *series)
{
	free(series->events);
	*series = (struct vs_recorded_series){0};
}
