/* SPDX-License-Identifier: MIT
 *
 * A segment of the caching allocator is told from other cudaMallocs by its
 * first block: the allocator puts the block that it needed the segment for at
 * the segment's beginning, so the thread's next PyTorch event is an
 * allocation at the same address. Expandable segments are mapped page by
 * page; runs of pages mapped (unmapped) in a row are one event to the model.
 *
 * What CUDA's calls came to, ledger/resolve.h tells. Only that a free was
 * refused is told after the free: then there never was one, as the allocator
 * keeps a segment that it could not give back.
 */
#include "caching/from_trace.h"

#include "base/buffer.h"
#include "caching/map.h"
#include "caching/settings.h"
#include "ledger/resolve.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOTHING ((enum vs_replay_kind)0) /* an event taken back */

struct converter {
	struct vs_trace_recording *out;
	struct vs_resolver resolver;
	int device;
	size_t count, event_capacity, sequence_capacity;
	struct vs_map outside;  /* addresses of device memory that is not PyTorch's -> size */
	struct vs_map segments; /* ... that is -> size */
	struct vs_map open;     /* thread -> index of the cudaMalloc that its next PyTorch event tells about */
	struct vs_map freed;    /* address -> index of its latest free */
	bool failing;           /* the event under way says that a call failed */
	bool torch;             /* PyTorch events seen */
};

static int add_kind(struct converter *c, enum vs_replay_kind kind, const struct vramshim_event *event)
{
	if (vs_grow(&c->out->events, &c->event_capacity, c->count + 1, sizeof(*c->out->events)) < 0 ||
	    vs_grow(&c->out->sequences, &c->sequence_capacity, c->count + 1, sizeof(*c->out->sequences)) < 0)
		return -ENOMEM;
	c->out->sequences[c->count] = event->sequence;
	c->out->events[c->count++] = (struct vs_replay_event){.kind = kind,
	                                                      .address = event->address,
	                                                      .size = event->size,
	                                                      .pool = {VS_REPLAY_NO_POOL, VS_REPLAY_NO_POOL}};
	return 0;
}

/* The cudaMalloc that this thread made last is settled: PyTorch's if a block begins where it does. */
static int settle(struct converter *c, uint32_t thread, uint64_t block)
{
	struct vs_replay_event *event;
	uint64_t index;

	if (!vs_map_take(&c->open, thread, &index))
		return 0;
	event = &c->out->events[index];
	if (event->address == block) {
		event->kind = VS_REPLAY_SEGMENT_ALLOC;
		return vs_map_set(&c->segments, event->address, event->size);
	}
	return vs_map_set(&c->outside, event->address, event->size);
}

static int on_torch(struct converter *c, const struct vramshim_event *event)
{
	int r = settle(c, event->thread, event->type == VRAMSHIM_TORCH_ALLOC ? event->address : 0);

	c->torch = true;
	if (r < 0)
		return r;
	switch (event->type) {
	case VRAMSHIM_TORCH_ALLOC:
		return add_kind(c, VS_REPLAY_ALLOC, event);
	case VRAMSHIM_TORCH_FREE:
		r = add_kind(c, VS_REPLAY_FREE, event);
		return r < 0 ? r : add_kind(c, VS_REPLAY_COMPLETE, event);
	default:
		return add_kind(c, VS_REPLAY_OOM, event);
	}
}

/* Pages in a row, without another event between, are one mapping. */
static int on_mapped(struct converter *c, const struct vramshim_event *event, enum vs_replay_kind kind)
{
	struct vs_replay_event *last = c->count ? &c->out->events[c->count - 1] : NULL;

	if (last && last->kind == kind && last->address + last->size == event->address) {
		last->size += event->size;
		return 0;
	}
	return add_kind(c, kind, event);
}

static int on_free(struct converter *c, const struct vramshim_event *event)
{
	enum vs_replay_kind kind = VS_REPLAY_SEGMENT_UNMAP;
	uint64_t size;
	int r;

	if (event->memory != VRAMSHIM_MEMORY_MAPPED) {
		r = settle(c, event->thread, 0);
		if (r < 0)
			return r;
		if (vs_map_take(&c->segments, event->address, &size))
			kind = VS_REPLAY_SEGMENT_FREE;
		else if (vs_map_take(&c->outside, event->address, &size))
			kind = VS_REPLAY_OUTSIDE_FREE;
		else
			return 0;
		r = add_kind(c, kind, event);
	} else {
		r = on_mapped(c, event, kind);
	}
	return r < 0 ? r : vs_map_set(&c->freed, event->address, c->count - 1);
}

/* The free that was told is taken back. Of pages in a row that were unmapped, all that is left is the part before. */
static int on_free_refused(struct converter *c, const struct vramshim_event *event)
{
	struct vs_replay_event *freed;
	uint64_t index;

	if (!vs_map_take(&c->freed, event->address, &index))
		return 0;
	freed = &c->out->events[index];
	switch (freed->kind) {
	case VS_REPLAY_SEGMENT_UNMAP:
		freed->size = event->address - freed->address;
		if (!freed->size)
			freed->kind = NOTHING;
		return 0;
	case VS_REPLAY_SEGMENT_FREE:
		freed->kind = NOTHING;
		return vs_map_set(&c->segments, event->address, event->size);
	default:
		freed->kind = NOTHING;
		return vs_map_set(&c->outside, event->address, event->size);
	}
}

static int on_alloc(struct converter *c, const struct vramshim_event *event)
{
	int r;

	if (event->memory == VRAMSHIM_MEMORY_MAPPED)
		return on_mapped(c, event, VS_REPLAY_SEGMENT_MAP);
	r = settle(c, event->thread, 0);
	if (r == 0)
		r = add_kind(c, VS_REPLAY_OUTSIDE_ALLOC, event);
	return r < 0 ? r : vs_map_set(&c->open, event->thread, c->count - 1);
}

static int on_cuda(void *user, const struct vramshim_event *event)
{
	struct converter *c = user;

	if (event->device != c->device ||
	    (event->memory != VRAMSHIM_MEMORY_DEVICE && event->memory != VRAMSHIM_MEMORY_ARRAY &&
	     event->memory != VRAMSHIM_MEMORY_MAPPED))
		return 0;
	if (event->type == VRAMSHIM_CUDA_FREE)
		return on_free(c, event);
	return c->failing ? on_free_refused(c, event) : on_alloc(c, event);
}

static int on_event(struct converter *c, const struct vramshim_event *event)
{
	switch (event->type) {
	case VRAMSHIM_TORCH_ALLOC:
	case VRAMSHIM_TORCH_FREE:
	case VRAMSHIM_TORCH_OOM:
		return event->device == c->device ? on_torch(c, event) : 0;
	default:
		c->failing = event->type == VRAMSHIM_CUDA_FAIL;
		return vs_resolve(&c->resolver, event, on_cuda, c);
	}
}

/* What was taken back leaves no gap. */
static size_t close_gaps(struct vs_trace_recording *out, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++) {
		if (out->events[i].kind == NOTHING)
			continue;
		out->sequences[left] = out->sequences[i];
		out->events[left++] = out->events[i];
	}
	return left;
}

static uint64_t number_fact(const struct vramshim_trace *trace, int device, const char *what)
{
	const char *text;
	char key[64];

	snprintf(key, sizeof(key), "device:%d:%s", device, what);
	text = vramshim_trace_fact(trace, key);
	return text ? strtoull(text, NULL, 10) : 0;
}

/* "2.15.0+cu132" -> 215; 211 where unknown. */
static uint32_t torch_version(const struct vramshim_trace *trace)
{
	const char *text = vramshim_trace_fact(trace, "torch");
	unsigned int major, minor;

	if (!text || sscanf(text, "%u.%u", &major, &minor) != 2 || major > 99 || minor > 99)
		return 211;
	return 100 * major + minor;
}

static void read_facts(struct vramshim_trace *trace, int device, struct vs_trace_recording *out)
{
	struct vs_caching_settings *settings = &out->recording.settings;
	const char *text = vramshim_trace_fact(trace, "env:PYTORCH_CUDA_ALLOC_CONF"), *name;
	char key[64];

	vs_caching_defaults(settings, torch_version(trace));
	/* The new name is in libc10_cuda.so since 2.10; 2.9 has it in its text and ignores it for CUDA (issue
	 * 183387). */
	if (!text && settings->version >= 210)
		text = vramshim_trace_fact(trace, "env:PYTORCH_ALLOC_CONF");
	out->settings = text ? text : "";
	if (vs_caching_parse_settings(out->settings, settings, &out->unknown) == 0)
		out->unknown = NULL;
	out->recording.total = number_fact(trace, device, "total_bytes");
	out->context = number_fact(trace, device, "context_bytes");
	out->lost = vramshim_trace_info(trace)->lost;
	snprintf(key, sizeof(key), "device:%d:name", device);
	name = vramshim_trace_fact(trace, key);
	snprintf(out->device_name, sizeof(out->device_name), "%s", name ? name : "");
}

int vs_trace_recording(struct vramshim_trace *trace, int device, struct vs_trace_recording *ret_recording)
{
	struct vs_trace_recording out = {0};
	struct converter c = {.out = &out, .device = device};
	struct vramshim_event event;
	int r = 0;

	vramshim_trace_rewind(trace);
	while (r == 0 && vramshim_trace_next(trace, &event) > 0)
		r = on_event(&c, &event);
	vs_resolver_release(&c.resolver);
	vs_map_done(&c.outside);
	vs_map_done(&c.segments);
	vs_map_done(&c.open);
	vs_map_done(&c.freed);
	if (r == 0 && !c.torch)
		r = -ENOENT;
	if (r < 0) {
		vs_trace_recording_done(&out);
		return r;
	}
	read_facts(trace, device, &out);
	out.recording.events = out.events;
	out.recording.event_count = close_gaps(&out, c.count);
	*ret_recording = out;
	return 0;
}

void vs_trace_recording_done(struct vs_trace_recording *recording)
{
	if (!recording)
		return;
	free(recording->events);
	free(recording->sequences);
	*recording = (struct vs_trace_recording){0};
}
