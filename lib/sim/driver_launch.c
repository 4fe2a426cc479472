/* SPDX-License-Identifier: MIT
 *
 * CUDA driver: modules, functions, launches, streams, events.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/launch.h"
#include "sim/module.h"
#include "sim/pool.h"
#include "sim/readback.h"
#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cuModuleLoadData(void **module, const void *image)
{
	int r = module ? vs_sim_check() : CU_INVALID_VALUE;

	return r == CU_OK ? vs_module_load(image, module) : r;
}
VS_ALIAS(cuModuleLoad, cuModuleLoadData);
VS_ALIAS(cuModuleLoadFatBinary, cuModuleLoadData);
VS_ALIAS(cuModuleLoadDataEx, cuModuleLoadData); /* JIT options follow; nothing is compiled */
VS_ALIAS(cuLibraryLoadData, cuModuleLoadData);
VS_ALIAS(cuLibraryLoadFromFile, cuModuleLoadData);

VS_API int cuModuleUnload(void *module)
{
	return vs_module_unload(module);
}
VS_ALIAS(cuLibraryUnload, cuModuleUnload);

VS_API int cuModuleGetFunction(void **function, void *module, const char *name)
{
	return function ? vs_module_function(module, name, function) : CU_INVALID_VALUE;
}
VS_ALIAS(cuLibraryGetKernel, cuModuleGetFunction);

VS_API int cuLibraryGetModule(void **module, void *library)
{
	*module = library;
	return library ? CU_OK : CU_INVALID_HANDLE;
}

VS_API int cuKernelGetFunction(void **function, void *kernel)
{
	*function = kernel;
	return kernel ? CU_OK : CU_INVALID_HANDLE;
}

VS_API int cuModuleGetLoadingMode(int *mode)
{
	*mode = 2; /* lazy, the default since CUDA 12.2 */
	return CU_OK;
}

/* CUfunction_attribute: 0 threads, 1-3 shared, constant, local bytes, 4 registers, 5 and 6 versions, 8 shared opt-in
 */
VS_API int cuFuncGetAttribute(int *value, int attribute, void *function)
{
	const struct vs_gpu *gpu;
	int r = value && function ? vs_sim_check() : CU_INVALID_VALUE;

	if (r != CU_OK)
		return r;
	gpu = vs_sim_get()->gpu;
	switch (attribute) {
	case 0:
		*value = VS_KERNEL_THREADS;
		return CU_OK;
	case 4:
		*value = VS_KERNEL_REGISTERS;
		return CU_OK;
	case 5:
	case 6:
		*value = gpu->major * 10 + gpu->minor;
		return CU_OK;
	case 8:
		*value = 48 * 1024;
		return CU_OK;
	case 9:
		*value = -1;
		return CU_OK;
	default:
		if (attribute < 0 || attribute > 15)
			return CU_INVALID_VALUE;
		*value = 0;
		return CU_OK;
	}
}

VS_API int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device)
{
	(void)device;
	return cuFuncGetAttribute(value, attribute, kernel);
}

VS_API int cuFuncSetAttribute(void *function, int attribute, int value)
{
	int r = function ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK && attribute == 8 && (value < 0 || value > vs_sim_get()->gpu->shared_optin_kib << 10))
		r = CU_INVALID_VALUE;
	return r;
}

VS_API int cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
	(void)device;
	return cuFuncSetAttribute(kernel, attribute, value);
}

VS_API int cuFuncSetCacheConfig(void *function, int config)
{
	(void)config;
	return function ? CU_OK : CU_INVALID_VALUE;
}
VS_ALIAS(cuFuncSetSharedMemConfig, cuFuncSetCacheConfig);

VS_API int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                          unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                          void *stream, void **parameters, void **extra)
{
	int r;

	(void)extra;
	if (!function)
		return CU_INVALID_HANDLE;
	vs_readback_launched(function, parameters);
	r = vs_launch((struct vs_dim3){grid_x, grid_y, grid_z}, (struct vs_dim3){block_x, block_y, block_z}, shared,
	              stream);
	return r == CU_INVALID_CONFIGURATION ? CU_INVALID_VALUE : r; /* the driver has one code for both */
}
VS_ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel);
VS_ALIAS(cuLaunchCooperativeKernel, cuLaunchKernel); /* without `extra` */

struct launch_config {
	struct vs_dim3 grid, block;
	unsigned int shared;
	void *stream;
	void *attributes;
	unsigned int count;
};

VS_API int cuLaunchKernelEx(const struct launch_config *config, void *function, void **parameters, void **extra)
{
	(void)extra;
	if (!config || !function)
		return CU_INVALID_VALUE;
	vs_readback_launched(function, parameters);
	return vs_launch(config->grid, config->block, config->shared, config->stream) ? CU_INVALID_VALUE : CU_OK;
}
VS_ALIAS(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);

VS_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int block, size_t shared)
{
	int r = blocks && function ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*blocks = vs_occupancy(block, shared);
	return r;
}
VS_ALIAS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessor);

VS_API int cuOccupancyMaxActiveClusters(int *clusters, void *function, const struct launch_config *config)
{
	int r = clusters && function && config ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*clusters = vs_occupancy_clusters(config->block, config->shared);
	return r;
}

VS_API int cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority)
{
	int r = stream ? vs_sim_activate_current() : CU_INVALID_VALUE;

	return r == CU_OK ? vs_stream_new(vs_thread_device(), flags, priority, stream) : r;
}

VS_API int cuStreamCreate(void **stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

VS_API int cuStreamDestroy_v2(void *stream)
{
	return vs_stream_free(stream);
}

VS_API int cuStreamQuery(void *stream)
{
	(void)stream;
	return vs_sim_check();
}

VS_API int cuStreamSynchronize(void *stream)
{
	(void)stream;
	vs_pool_settle();
	return vs_sim_check();
}
VS_ALIAS(cuStreamSynchronize_ptsz, cuStreamSynchronize);

VS_API int cuStreamWaitEvent(void *stream, struct vs_event *event, unsigned int flags)
{
	(void)flags;
	return vs_event_wait(stream, event);
}

VS_API int cuStreamGetPriority(void *stream, int *priority)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!priority)
		return CU_INVALID_VALUE;
	*priority = s ? s->priority : 0;
	return CU_OK;
}

VS_API int cuStreamGetFlags(void *stream, unsigned int *flags)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!flags)
		return CU_INVALID_VALUE;
	*flags = s ? s->flags : 0;
	return CU_OK;
}

VS_API int cuStreamGetId(void *stream, unsigned long long *id)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!id)
		return CU_INVALID_VALUE;
	*id = s ? s->id : (uintptr_t)stream;
	return CU_OK;
}

VS_API int cuStreamGetCtx(void *stream, struct vs_context **context)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!context)
		return CU_INVALID_VALUE;
	*context = s ? vs_sim_primary(s->device) : vs_thread_context();
	return *context ? CU_OK : CU_INVALID_CONTEXT;
}

VS_API int cuStreamIsCapturing(void *stream, int *status)
{
	struct vs_graph *graph;
	uint64_t id;

	if (!status)
		return CU_INVALID_VALUE;
	*status = vs_capture_get(stream, &id, &graph) ? VS_CAPTURE_ACTIVE : VS_CAPTURE_NONE;
	return CU_OK;
}

static int capture_info(void *stream, int *status, uint64_t *id, struct vs_graph **graph)
{
	struct vs_graph *found;
	uint64_t number;

	if (!status)
		return CU_INVALID_VALUE;
	*status = vs_capture_get(stream, &number, &found) ? VS_CAPTURE_ACTIVE : VS_CAPTURE_NONE;
	if (*status != VS_CAPTURE_ACTIVE)
		return CU_OK;
	if (id)
		*id = number;
	if (graph)
		*graph = found;
	return CU_OK;
}

VS_API int cuStreamGetCaptureInfo(void *stream, int *status, uint64_t *id)
{
	return capture_info(stream, status, id, NULL);
}

/* There are no edges between nodes. */
VS_API int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, struct vs_graph **graph,
                                     const void **dependencies, size_t *count)
{
	if (dependencies)
		*dependencies = NULL;
	if (count)
		*count = 0;
	return capture_info(stream, status, id, graph);
}

VS_API int cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, struct vs_graph **graph,
                                     const void **dependencies, const void **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

VS_API int cuEventCreate(struct vs_event **event, unsigned int flags)
{
	int r = event ? vs_sim_activate_current() : CU_INVALID_VALUE;

	return r == CU_OK ? vs_event_new(vs_thread_device(), flags, (void **)event) : r;
}

VS_API int cuEventDestroy_v2(struct vs_event *event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	free(event);
	return CU_OK;
}

VS_API int cuEventRecord(struct vs_event *event, void *stream)
{
	return vs_event_record(event, stream);
}

VS_API int cuEventQuery(struct vs_event *event)
{
	return event ? CU_OK : CU_INVALID_HANDLE;
}

VS_API int cuEventSynchronize(struct vs_event *event)
{
	vs_pool_settle();
	return event ? CU_OK : CU_INVALID_HANDLE;
}

VS_API int cuEventElapsedTime(float *ms, struct vs_event *from, struct vs_event *to)
{
	return ms ? vs_event_elapsed(from, to, ms) : CU_INVALID_VALUE;
}
VS_ALIAS(cuEventElapsedTime_v2, cuEventElapsedTime);

VS_API int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
	return vs_stream_call(stream, function, data);
}

/* A tensor map is written by the host and read by kernels, which do not run: its 128 bytes stay zero. */
VS_API int cuTensorMapEncodeTiled(void *map)
{
	if (!map)
		return CU_INVALID_VALUE;
	memset(map, 0, 128);
	return CU_OK;
}
VS_ALIAS(cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled);
VS_ALIAS(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeTiled);
VS_ALIAS(cuTensorMapReplaceAddress, cuTensorMapEncodeTiled);
