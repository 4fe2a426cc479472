/* SPDX-License-Identifier: MIT
 *
 * Nodes of graphs that have no memory: kernels, copies, fills, graphs inside, events. Nothing happens when one is
 * launched, so of a node there is its handle, and whatever is to be changed in one is changed.
 */
#include "base/buffer.h"
#include "sim/cuda_driver.h"
#include "sim/sim.h"
#include "sim/stream.h"

/* A handle is an address within the graph that nothing is read from, with the type in its last 4 bits. */
static void *handle(struct vs_graph *graph, size_t index)
{
	return (char *)graph + 16 * (index + 1) + graph->types[index];
}

int vs_graph_node(struct vs_graph *graph, enum vs_node_type type, void **ret_node)
{
	if (vs_grow(&graph->types, &graph->type_capacity, graph->nodes + 1, sizeof(*graph->types)) < 0)
		return CU_OUT_OF_MEMORY;
	graph->types[graph->nodes++] = (unsigned char)type;
	if (ret_node)
		*ret_node = handle(graph, graph->nodes - 1);
	return CU_OK;
}

int vs_graph_add(void **node, struct vs_graph *graph, const void *dependencies, size_t count, enum vs_node_type type)
{
	return node && graph && (dependencies || !count) ? vs_graph_node(graph, type, node) : CU_INVALID_VALUE;
}

VS_API int cuGraphNodeGetType(const void *node, int *type)
{
	if (!node || !type)
		return CU_INVALID_VALUE;
	*type = (int)((uintptr_t)node & 15);
	return CU_OK;
}
VS_ALIAS(cudaGraphNodeGetType, cuGraphNodeGetType);

VS_API int cuGraphGetNodes(struct vs_graph *graph, void **nodes, size_t *count)
{
	if (!graph || !count)
		return CU_INVALID_VALUE;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = i < graph->nodes ? handle(graph, i) : NULL;
	if (!nodes || *count > graph->nodes)
		*count = graph->nodes;
	return CU_OK;
}
VS_ALIAS(cuGraphGetRootNodes, cuGraphGetNodes); /* there are no edges */
VS_ALIAS(cudaGraphGetNodes, cuGraphGetNodes);
VS_ALIAS(cudaGraphGetRootNodes, cuGraphGetNodes);

/* What the node does follows, and is not looked at. */
#define ADD(name, type)                                                                                              \
	VS_API int cuGraphAdd##name(void **node, struct vs_graph *graph, const void *dependencies, size_t count)     \
	{                                                                                                            \
		return vs_graph_add(node, graph, dependencies, count, type);                                         \
	}                                                                                                            \
	VS_ALIAS(cudaGraphAdd##name, cuGraphAdd##name);

ADD(ChildGraphNode, VS_NODE_GRAPH)
ADD(EmptyNode, VS_NODE_EMPTY)
ADD(EventRecordNode, VS_NODE_EVENT)
ADD(EventWaitNode, VS_NODE_WAIT)
ADD(KernelNode, VS_NODE_KERNEL)
ADD(MemcpyNode, VS_NODE_COPY)
ADD(MemsetNode, VS_NODE_FILL)
VS_ALIAS(cuGraphAddKernelNode_v2, cuGraphAddKernelNode);
VS_ALIAS(cudaGraphAddMemcpyNode1D, cuGraphAddMemcpyNode);

/* (graph or node, ...): edges, and what a node does */
VS_API int cuGraphAddDependencies(const void *object)
{
	return object ? CU_OK : CU_INVALID_VALUE;
}
VS_ALIAS(cuGraphAddDependencies_v2, cuGraphAddDependencies);
VS_ALIAS(cuGraphRemoveDependencies, cuGraphAddDependencies);
VS_ALIAS(cuGraphRemoveDependencies_v2, cuGraphAddDependencies);
VS_ALIAS(cuGraphEventRecordNodeSetEvent, cuGraphAddDependencies);
VS_ALIAS(cuGraphEventWaitNodeSetEvent, cuGraphAddDependencies);
VS_ALIAS(cuGraphKernelNodeCopyAttributes, cuGraphAddDependencies);
VS_ALIAS(cuGraphKernelNodeSetAttribute, cuGraphAddDependencies);
VS_ALIAS(cuGraphKernelNodeSetParams, cuGraphAddDependencies);
VS_ALIAS(cuGraphKernelNodeSetParams_v2, cuGraphAddDependencies);
VS_ALIAS(cuGraphMemcpyNodeSetParams, cuGraphAddDependencies);
VS_ALIAS(cuGraphMemsetNodeSetParams, cuGraphAddDependencies);
VS_ALIAS(cudaGraphAddDependencies, cuGraphAddDependencies);
VS_ALIAS(cudaGraphAddDependencies_v2, cuGraphAddDependencies);
VS_ALIAS(cudaGraphKernelNodeSetAttribute, cuGraphAddDependencies);
VS_ALIAS(cudaGraphKernelNodeSetParams, cuGraphAddDependencies);

/* (executable graph, node, ...) */
VS_API int cuGraphExecKernelNodeSetParams(const void *exec, const void *node)
{
	return exec && node ? CU_OK : CU_INVALID_VALUE;
}
VS_ALIAS(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cuGraphExecChildGraphNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cuGraphExecEventRecordNodeSetEvent, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cuGraphExecEventWaitNodeSetEvent, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cuGraphExecMemcpyNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cuGraphExecMemsetNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cudaGraphExecChildGraphNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cudaGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cudaGraphExecMemcpyNodeSetParams, cuGraphExecKernelNodeSetParams);
VS_ALIAS(cudaGraphExecMemsetNodeSetParams, cuGraphExecKernelNodeSetParams);

/* CUgraphExecUpdateResultInfo */
struct update {
	int result; /* 0: CU_GRAPH_EXEC_UPDATE_SUCCESS */
	void *node, *from;
};

VS_API int cuGraphExecUpdate_v2(struct vs_graph *exec, struct vs_graph *graph, struct update *ret)
{
	if (!exec || !graph || !ret)
		return CU_INVALID_VALUE;
	*ret = (struct update){0};
	return CU_OK;
}
VS_ALIAS(cudaGraphExecUpdate, cuGraphExecUpdate_v2);

VS_API int cuGraphExecUpdate(struct vs_graph *exec, struct vs_graph *graph, void **node, int *result)
{
	if (!exec || !graph || !node || !result)
		return CU_INVALID_VALUE;
	*node = NULL;
	*result = 0;
	return CU_OK;
}
