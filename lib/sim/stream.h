/* SPDX-License-Identifier: MIT
 *
 * Streams, events, captures and graphs: handles with the little state that a
 * job can observe. Work is done when it is asked for, so every stream is idle
 * and every event has happened.
 */
#ifndef VS_SIM_STREAM_H
#define VS_SIM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda_api.h"

/* cudaStreamCaptureStatus */
enum vs_capture_status { VS_CAPTURE_NONE = 0, VS_CAPTURE_ACTIVE = 1, VS_CAPTURE_INVALIDATED = 2 };

struct vs_host_call {
	void (*function)(void *);
	void *data;
};

/* CUgraphNodeType; what captured work is, is not told apart: kernels. */
enum vs_node_type {
	VS_NODE_KERNEL = 0,
	VS_NODE_COPY = 1,
	VS_NODE_FILL = 2,
	VS_NODE_HOST = 3,
	VS_NODE_GRAPH = 4,
	VS_NODE_EMPTY = 5,
	VS_NODE_WAIT = 6,
	VS_NODE_EVENT = 7,
	VS_NODE_ALLOCATION = 10,
	VS_NODE_FREE = 11,
	VS_NODE_BATCH = 12,
};

/* What a capture collects. */
struct vs_graph {
	uint64_t id;
	size_t nodes;         /* kernels, copies and host calls captured or added */
	unsigned char *types; /* of each */
	size_t type_capacity;
	struct vs_host_call *calls; /* run at each launch */
	size_t call_count;
	size_t call_capacity;
	struct vs_user_object **objects; /* released with the graph */
	size_t object_count;
	uint32_t refs;        /* the graph itself and what was instantiated from it */
	bool frees_at_launch; /* what its last launch left in use (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) */
};

struct vs_user_object {
	void *pointer;
	void (*destroy)(void *);
	uint32_t refs;
};

struct vs_stream {
	int device;
	unsigned int flags;
	int priority;
	uint64_t id;
	uint64_t capture; /* id of the capture it takes part in, 0: none */
};

struct vs_event {
	int device;
	unsigned int flags;
	bool recorded;
	uint64_t time_ns; /* of the host's clock, when it was recorded */
	uint64_t capture;
};

int vs_stream_new(int device, unsigned int flags, int priority, void **ret_stream);
int vs_stream_free(void *stream);

/* The stream behind a handle. NULL for the legacy and the per-thread default streams. */
struct vs_stream *vs_stream_of(void *stream);

int vs_event_new(int device, unsigned int flags, void **ret_event);
int vs_event_record(struct vs_event *event, void *stream);
int vs_event_wait(void *stream, struct vs_event *event);
int vs_event_elapsed(const struct vs_event *from, const struct vs_event *to, float *ret_ms);

int vs_capture_begin(void *stream, struct vs_graph *into);
int vs_capture_end(void *stream, struct vs_graph **ret_graph);
/* The running capture `stream` takes part in: its id and graph; false if none. */
bool vs_capture_get(void *stream, uint64_t *ret_id, struct vs_graph **ret_graph);

/* Work is put on a stream: a node of the graph if it is being captured. */
void vs_stream_work(void *stream);
/* A host function: run now, or kept for the launches of the graph. */
int vs_stream_call(void *stream, void (*function)(void *), void *data);

int vs_graph_new(struct vs_graph **ret_graph);
void vs_graph_hold(struct vs_graph *graph);
void vs_graph_drop(struct vs_graph *graph);
/* One more node; its handle too, where it is asked for (graph_nodes.c). */
int vs_graph_node(struct vs_graph *graph, enum vs_node_type type, void **ret_node);
/* The same as a call of the driver's: with the arguments that all of these have, checked. */
int vs_graph_add(void **ret_node, struct vs_graph *graph, const void *dependencies, size_t count,
                 enum vs_node_type type);
void vs_graph_launch(struct vs_graph *graph);
int vs_graph_own(struct vs_graph *graph, struct vs_user_object *object);
void vs_user_object_drop(struct vs_user_object *object, uint32_t refs);

#endif
