/* SPDX-License-Identifier: MIT */
#include "sim/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sim/graph_memory.h"
#include "sim/sim.h"

/* Captures that run at the same time: one a thread in practice. */
#define CAPTURES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture {
	uint64_t id;
	struct vs_stream *origin;
	struct vs_graph *graph;
	bool held; /* the graph was there before: its owner drops it */
} captures[CAPTURES];
static _Atomic int capturing; /* how many run: 0 keeps the lock out of every launch */
static _Atomic uint64_t last_id;

static uint64_t next_id(void)
{
	return ++last_id;
}

struct vs_stream *vs_stream_of(void *stream)
{
	/* cudaStreamLegacy is 1, cudaStreamPerThread 2 */
	return (uintptr_t)stream <= 2 ? NULL : stream;
}

int vs_stream_new(int device, unsigned int flags, int priority, void **ret_stream)
{
	struct vs_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return CU_OUT_OF_MEMORY;
	stream->device = device;
	stream->flags = flags;
	stream->priority = priority;
	stream->id = next_id();
	*ret_stream = stream;
	return CU_OK;
}

int vs_stream_free(void *stream)
{
	if (!vs_stream_of(stream))
		return CU_INVALID_HANDLE;
	free(stream);
	return CU_OK;
}

int vs_event_new(int device, unsigned int flags, void **ret_event)
{
	struct vs_event *event = calloc(1, sizeof(*event));

	if (!event)
		return CU_OUT_OF_MEMORY;
	event->device = device;
	event->flags = flags;
	*ret_event = event;
	return CU_OK;
}

static struct capture *find(uint64_t id)
{
	for (int i = 0; i < CAPTURES && id; i++)
		if (captures[i].id == id)
			return &captures[i];
	return NULL;
}

int vs_event_record(struct vs_event *event, void *stream)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!event)
		return CU_INVALID_HANDLE;
	event->time_ns = vs_clock_exact();
	event->recorded = true;
	event->capture = s ? s->capture : 0;
	return CU_OK;
}

/* Waiting for an event of a captured stream draws the waiting stream into the capture. */
int vs_event_wait(void *stream, struct vs_event *event)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!event)
		return CU_INVALID_HANDLE;
	if (!capturing || !s || !event->capture)
		return CU_OK;
	pthread_mutex_lock(&lock);
	if (find(event->capture))
		s->capture = event->capture;
	pthread_mutex_unlock(&lock);
	return CU_OK;
}

int vs_event_elapsed(const struct vs_event *from, const struct vs_event *to, float *ret_ms)
{
	if (!from || !to || !from->recorded || !to->recorded)
		return CU_INVALID_HANDLE;
	/* cudaEventDisableTiming */
	if (from->flags & 2 || to->flags & 2)
		return CU_INVALID_HANDLE;
	*ret_ms = (float)((double)(int64_t)(to->time_ns - from->time_ns) / 1e6);
	return CU_OK;
}

int vs_graph_new(struct vs_graph **ret_graph)
{
	struct vs_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return CU_OUT_OF_MEMORY;
	graph->refs = 1;
	graph->id = next_id();
	*ret_graph = graph;
	return CU_OK;
}

void vs_graph_hold(struct vs_graph *graph)
{
	pthread_mutex_lock(&lock);
	graph->refs++;
	pthread_mutex_unlock(&lock);
}

void vs_user_object_drop(struct vs_user_object *object, uint32_t refs)
{
	bool last;

	pthread_mutex_lock(&lock);
	object->refs -= refs < object->refs ? refs : object->refs;
	last = !object->refs;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	object->destroy(object->pointer);
	free(object);
}

void vs_graph_drop(struct vs_graph *graph)
{
	bool last;

	if (!graph)
		return;
	pthread_mutex_lock(&lock);
	last = --graph->refs == 0;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	vs_graph_memory_drop(graph);
	for (size_t i = 0; i < graph->object_count; i++)
		vs_user_object_drop(graph->objects[i], 1);
	free(graph->objects);
	free(graph->calls);
	free(graph->types);
	free(graph);
}

int vs_graph_own(struct vs_graph *graph, struct vs_user_object *object)
{
	struct vs_user_object **grown;
	int r = CU_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	grown = realloc(graph->objects, (graph->object_count + 1) * sizeof(*grown));
	if (grown) {
		graph->objects = grown;
		grown[graph->object_count++] = object;
		r = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void vs_graph_launch(struct vs_graph *graph)
{
	for (size_t i = 0; i < graph->call_count; i++)
		graph->calls[i].function(graph->calls[i].data);
}

int vs_capture_begin(void *stream, struct vs_graph *into)
{
	struct vs_stream *s = vs_stream_of(stream);
	struct capture *slot = NULL;
	bool held = into;
	int r;

	if (!s)
		return CU_CAPTURE_UNSUPPORTED; /* the legacy stream cannot be captured */
	pthread_mutex_lock(&lock);
	if (find(s->capture)) {
		r = CU_ILLEGAL_STATE;
		goto out;
	}
	for (int i = 0; i < CAPTURES && !slot; i++)
		if (!captures[i].id)
			slot = &captures[i];
	r = CU_OUT_OF_MEMORY;
	if (!slot)
		goto out;
	r = CU_OK;
	if (into)
		into->refs++;
	else
		r = vs_graph_new(&into);
	if (r != CU_OK)
		goto out;
	*slot = (struct capture){.id = next_id(), .origin = s, .graph = into, .held = held};
	s->capture = slot->id;
	capturing++;
out:
	pthread_mutex_unlock(&lock);
	return r;
}

int vs_capture_end(void *stream, struct vs_graph **ret_graph)
{
	struct vs_stream *s = vs_stream_of(stream);
	struct capture *capture;
	struct vs_graph *held = NULL;
	int r = CU_ILLEGAL_STATE;

	pthread_mutex_lock(&lock);
	capture = s ? find(s->capture) : NULL;
	if (capture && capture->origin != s) {
		r = CU_CAPTURE_UNMATCHED;
	} else if (capture) {
		*ret_graph = capture->graph;
		held = capture->held ? capture->graph : NULL;
		*capture = (struct capture){0};
		capturing--;
		r = CU_OK;
	}
	pthread_mutex_unlock(&lock);
	vs_graph_drop(held);
	return r;
}

bool vs_capture_get(void *stream, uint64_t *ret_id, struct vs_graph **ret_graph)
{
	struct vs_stream *s = vs_stream_of(stream);
	struct capture *capture;

	if (!capturing || !s)
		return false;
	pthread_mutex_lock(&lock);
	capture = find(s->capture);
	if (capture) {
		*ret_id = capture->id;
		*ret_graph = capture->graph;
	}
	pthread_mutex_unlock(&lock);
	return capture;
}

void vs_stream_work(void *stream)
{
	struct vs_graph *graph;
	uint64_t id;

	if (vs_capture_get(stream, &id, &graph))
		vs_graph_node(graph, VS_NODE_KERNEL, NULL);
}

static int keep_call(struct vs_graph *graph, struct vs_host_call call)
{
	if (graph->call_count == graph->call_capacity) {
		size_t grown = graph->call_capacity ? graph->call_capacity * 2 : 4;
		struct vs_host_call *calls = realloc(graph->calls, grown * sizeof(*calls));

		if (!calls)
			return CU_OUT_OF_MEMORY;
		graph->calls = calls;
		graph->call_capacity = grown;
	}
	graph->calls[graph->call_count++] = call;
	return vs_graph_node(graph, VS_NODE_HOST, NULL);
}

int vs_stream_call(void *stream, void (*function)(void *), void *data)
{
	struct vs_graph *graph;
	uint64_t id;

	if (!function)
		return CU_INVALID_VALUE;
	if (vs_capture_get(stream, &id, &graph))
		return keep_call(graph, (struct vs_host_call){function, data});
	function(data);
	return CU_OK;
}
