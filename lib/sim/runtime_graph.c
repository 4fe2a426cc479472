/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: graphs as stream capture makes them.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_driver.h"
#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cudaGraphCreate(struct vs_graph **graph, unsigned int flags)
{
	return vs_error(graph && !flags ? vs_graph_new(graph) : CU_INVALID_VALUE);
}

VS_API int cudaGraphDestroy(struct vs_graph *graph)
{
	if (!graph)
		return vs_error(CU_INVALID_VALUE);
	vs_graph_drop(graph);
	return CU_OK;
}

VS_API int cudaGraphInstantiateWithFlags(struct vs_graph **exec, struct vs_graph *graph, unsigned long long flags)
{
	return vs_error(cuGraphInstantiateWithFlags(exec, graph, flags));
}

/* The runtime of CUDA 11 has an address in the place of flags. */
VS_API int cudaGraphInstantiate(struct vs_graph **exec, struct vs_graph *graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags < 4096 ? flags : 0);
}

VS_API int cudaGraphInstantiateWithParams(struct vs_graph **exec, struct vs_graph *graph,
                                          const unsigned long long *parameters)
{
	return vs_error(cuGraphInstantiateWithParams(exec, graph, parameters));
}
VS_ALIAS(cudaGraphInstantiateWithParams_ptsz, cudaGraphInstantiateWithParams);

VS_API int cudaGraphExecDestroy(struct vs_graph *exec)
{
	return cudaGraphDestroy(exec);
}

VS_API int cudaGraphLaunch(struct vs_graph *exec, void *stream)
{
	return vs_error(cuGraphLaunch(exec, stream));
}
VS_ALIAS(cudaGraphLaunch_ptsz, cudaGraphLaunch);

VS_API int cudaGraphUpload(struct vs_graph *exec, void *stream)
{
	return vs_error(cuGraphUpload(exec, stream));
}
VS_ALIAS(cudaGraphUpload_ptsz, cudaGraphUpload);

VS_API int cudaGraphNodeGetDependencies(void *node, void **dependencies, void *edges, size_t *count)
{
	(void)dependencies;
	(void)edges;
	if (!node || !count)
		return vs_error(CU_INVALID_VALUE);
	*count = 0;
	return CU_OK;
}
VS_ALIAS(cudaGraphNodeGetDependencies_v2, cudaGraphNodeGetDependencies);
VS_ALIAS(cudaGraphNodeGetDependentNodes, cudaGraphNodeGetDependencies);
VS_ALIAS(cudaGraphNodeGetDependentNodes_v2, cudaGraphNodeGetDependencies);

VS_API int cudaGraphDebugDotPrint(struct vs_graph *graph, const char *path, unsigned int flags)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	(void)graph;
	(void)path;
	(void)flags;
	return vs_error(vs_unsupported(&said, __func__, CU_NOT_SUPPORTED));
}

VS_API int cudaUserObjectCreate(struct vs_user_object **object, void *pointer, void (*destroy)(void *),
                                unsigned int refs, unsigned int flags)
{
	if (!object || !destroy || !refs || flags != 1)
		return vs_error(CU_INVALID_VALUE);
	*object = calloc(1, sizeof(**object));
	if (!*object)
		return vs_error(CU_OUT_OF_MEMORY);
	**object = (struct vs_user_object){pointer, destroy, refs};
	return CU_OK;
}

VS_API int cudaUserObjectRetain(struct vs_user_object *object, unsigned int count)
{
	if (!object || !count)
		return vs_error(CU_INVALID_VALUE);
	object->refs += count;
	return CU_OK;
}

VS_API int cudaUserObjectRelease(struct vs_user_object *object, unsigned int count)
{
	if (!object || !count)
		return vs_error(CU_INVALID_VALUE);
	vs_user_object_drop(object, count);
	return CU_OK;
}

VS_API int cudaGraphRetainUserObject(struct vs_graph *graph, struct vs_user_object *object, unsigned int count,
                                     unsigned int flags)
{
	int r = CU_OK;

	if (!graph || !object || !count)
		return vs_error(CU_INVALID_VALUE);
	if (!(flags & 1)) /* cudaGraphUserObjectMove: the caller's reference becomes the graph's */
		object->refs += count;
	for (unsigned int i = 0; i < count && r == CU_OK; i++)
		r = vs_graph_own(graph, object);
	return vs_error(r);
}

VS_API int cudaGraphAddMemAllocNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                    struct vs_alloc_node *params)
{
	return vs_error(cuGraphAddMemAllocNode(node, graph, dependencies, count, params));
}

VS_API int cudaGraphAddMemFreeNode(void **node, struct vs_graph *graph, const void *dependencies, size_t count,
                                   void *pointer)
{
	return vs_error(cuGraphAddMemFreeNode(node, graph, dependencies, count, (uint64_t)(uintptr_t)pointer));
}

VS_API int cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	return vs_error(cuDeviceGetGraphMemAttribute(device, attribute, value));
}

VS_API int cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
	return vs_error(cuDeviceSetGraphMemAttribute(device, attribute, value));
}

VS_API int cudaDeviceGraphMemTrim(int device)
{
	return vs_error(cuDeviceGraphMemTrim(device));
}
