/* SPDX-License-Identifier: MIT
 *
 * CUDA driver: graphs, as far as they have memory.
 */
#include "sim/cuda_driver.h"
#include "sim/graph_memory.h"
#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cuGraphCreate(struct vs_graph **graph, unsigned int flags)
{
	return graph && !flags ? vs_graph_new(graph) : CU_INVALID_VALUE;
}

VS_API int cuGraphDestroy(struct vs_graph *graph)
{
	if (!graph)
		return CU_INVALID_VALUE;
	vs_graph_drop(graph);
	return CU_OK;
}
VS_ALIAS(cuGraphExecDestroy, cuGraphDestroy);

/* CUgraphInstantiate_flags and cudaGraphInstantiateFlags */
enum { AUTO_FREE_ON_LAUNCH = 1, MOST_FLAGS = 15 };

/* An executable graph is the graph held once more: all of one graph have the flags of the last. */
VS_API int cuGraphInstantiateWithFlags(struct vs_graph **exec, struct vs_graph *graph, unsigned long long flags)
{
	if (!exec || !graph || flags > MOST_FLAGS)
		return CU_INVALID_VALUE;
	vs_graph_hold(graph);
	graph->frees_at_launch = flags & AUTO_FREE_ON_LAUNCH;
	*exec = graph;
	return CU_OK;
}

/* Of before CUDA 12: a node and a text for errors in the place of flags. */
VS_API int cuGraphInstantiate(struct vs_graph **exec, struct vs_graph *graph)
{
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}
VS_ALIAS(cuGraphInstantiate_v2, cuGraphInstantiate);

/* CUDA_GRAPH_INSTANTIATE_PARAMS and cudaGraphInstantiateParams begin with the flags. */
VS_API int cuGraphInstantiateWithParams(struct vs_graph **exec, struct vs_graph *graph,
                                        const unsigned long long *parameters)
{
	return parameters ? cuGraphInstantiateWithFlags(exec, graph, *parameters) : CU_INVALID_VALUE;
}
VS_ALIAS(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams);

VS_API int cuGraphLaunch(struct vs_graph *exec, void *stream)
{
	int r = exec ? vs_graph_memory_launch(exec) : CU_INVALID_VALUE;

	if (r != CU_OK)
		return r;
	vs_stream_work(stream);
	vs_graph_launch(exec);
	return CU_OK;
}
VS_ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

VS_API int cuGraphUpload(struct vs_graph *exec, void *stream)
{
	(void)stream;
	return exec ? vs_graph_memory_upload(exec) : CU_INVALID_VALUE;
}
VS_ALIAS(cuGraphUpload_ptsz, cuGraphUpload);

VS_API int cuStreamBeginCapture_v2(void *stream, int mode)
{
	(void)mode;
	return vs_capture_begin(stream, NULL);
}
VS_ALIAS(cuStreamBeginCapture, cuStreamBeginCapture_v2);

VS_API int cuStreamBeginCaptureToGraph(void *stream, struct vs_graph *graph)
{
	return graph ? vs_capture_begin(stream, graph) : CU_INVALID_VALUE;
}

VS_API int cuStreamEndCapture(void *stream, struct vs_graph **graph)
{
	return graph ? vs_capture_end(stream, graph) : CU_INVALID_VALUE;
}

VS_API int cuStreamUpdateCaptureDependencies(void *stream)
{
	struct vs_graph *graph;
	uint64_t id;

	return vs_capture_get(stream, &id, &graph) ? CU_OK : CU_ILLEGAL_STATE;
}
VS_ALIAS(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies);

VS_API int cuGraphAddMemAllocNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                  struct vs_alloc_node *params)
{
	int device, r;

	if (!node || !graph || !params || (count && !dependencies) ||
	    params->pool.location.type != VS_LOCATION_DEVICE)
		return CU_INVALID_VALUE;
	device = params->pool.location.id;
	r = vs_sim_activate(device);
	if (r == CU_OK)
		r = vs_graph_memory_node(graph, device, params->size, &params->address);
	return r == CU_OK ? vs_graph_node(graph, VS_NODE_ALLOCATION, node) : r;
}

VS_API int cuGraphAddMemFreeNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                 uint64_t address)
{
	int r =
	    node && graph && (dependencies || !count) ? vs_graph_memory_free_node(graph, address) : CU_INVALID_VALUE;

	return r == CU_OK ? vs_graph_node(graph, VS_NODE_FREE, node) : r;
}

/* CUgraphNodeParams: the type, then what it needs. */
struct any_node {
	enum vs_node_type type;
	int reserved[3];
	struct vs_alloc_node allocation; /* of a free: its address is the first member */
};

VS_API int cuGraphAddNode_v2(void **node, struct vs_graph *graph, const void *dependencies, const void *edges,
                             size_t count, struct any_node *params)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	(void)edges;
	if (!params)
		return CU_INVALID_VALUE;
	switch (params->type) {
	case VS_NODE_KERNEL:
	case VS_NODE_COPY:
	case VS_NODE_FILL:
	case VS_NODE_GRAPH:
	case VS_NODE_EMPTY:
	case VS_NODE_WAIT:
	case VS_NODE_EVENT:
	case VS_NODE_BATCH:
		return vs_graph_add(node, graph, dependencies, count, params->type);
	case VS_NODE_ALLOCATION:
		return cuGraphAddMemAllocNode(node, graph, dependencies, count, &params->allocation);
	case VS_NODE_FREE:
		return cuGraphAddMemFreeNode(node, graph, dependencies, count, *(uint64_t *)&params->allocation);
	case VS_NODE_HOST: /* its function would have to be called at each launch */
		break;
	}
	return vs_unsupported(&said, __func__, CU_NOT_SUPPORTED);
}

VS_API int cuGraphAddNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                          struct any_node *params)
{
	return cuGraphAddNode_v2(node, graph, dependencies, NULL, count, params);
}

VS_API int cuDeviceGraphMemTrim(int device)
{
	int r = vs_sim_check_device(device);

	if (r == CU_OK)
		vs_graph_memory_trim(device);
	return r;
}

VS_API int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	int r = vs_sim_check_device(device);

	return r == CU_OK ? vs_graph_memory_attribute(device, attribute, false, value) : r;
}

VS_API int cuDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
	int r = vs_sim_check_device(device);

	return r == CU_OK ? vs_graph_memory_attribute(device, attribute, true, value) : r;
}

/* Multicast objects: a handle of nobody's bytes, to which memory is bound that is counted already. */
struct multicast {
	unsigned int devices;
	size_t size;
};

VS_API int cuMulticastCreate(uint64_t *handle, const struct multicast *prop)
{
	int r = handle && prop && prop->devices ? vs_sim_check() : CU_INVALID_VALUE;

	return r == CU_OK ? vs_books_create(-1, prop->size, handle) : r;
}

VS_API int cuMulticastAddDevice(uint64_t handle, int device)
{
	uint64_t size;
	int on, r = vs_sim_check_device(device);

	return r == CU_OK ? vs_books_handle(handle, &on, &size) : r;
}

VS_API int cuMulticastBindMem(uint64_t handle)
{
	uint64_t size;
	int on;

	return vs_books_handle(handle, &on, &size);
}
VS_ALIAS(cuMulticastBindAddr, cuMulticastBindMem);
VS_ALIAS(cuMulticastUnbind, cuMulticastBindMem);

VS_API int cuMulticastGetGranularity(size_t *granularity, const struct multicast *prop, int option)
{
	(void)option;
	if (!granularity || !prop)
		return CU_INVALID_VALUE;
	*granularity = UINT64_C(2) << 20;
	return CU_OK;
}
