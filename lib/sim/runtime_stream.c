/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: streams, events and their capture.
 */
#include <stdlib.h>

#include "sim/pool.h"
#include "sim/sim.h"
#include "sim/stream.h"

VS_API int cudaStreamCreateWithPriority(void **stream, unsigned int flags, int priority)
{
	int r = stream ? vs_sim_activate_current() : CU_INVALID_VALUE;

	return vs_error(r == CU_OK ? vs_stream_new(vs_thread_device(), flags, priority, stream) : r);
}

VS_API int cudaStreamCreateWithFlags(void **stream, unsigned int flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

VS_API int cudaStreamCreate(void **stream)
{
	return cudaStreamCreateWithPriority(stream, 0, 0);
}

VS_API int cudaStreamDestroy(void *stream)
{
	return vs_error(vs_stream_free(stream));
}

/* Every stream is idle. */
VS_API int cudaStreamQuery(void *stream)
{
	(void)stream;
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaStreamQuery_ptsz, cudaStreamQuery);

VS_API int cudaStreamSynchronize(void *stream)
{
	(void)stream;
	vs_pool_settle();
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaStreamSynchronize_ptsz, cudaStreamSynchronize);

VS_API int cudaStreamWaitEvent(void *stream, struct vs_event *event, unsigned int flags)
{
	(void)flags;
	return vs_error(vs_event_wait(stream, event));
}
VS_ALIAS(cudaStreamWaitEvent_ptsz, cudaStreamWaitEvent);

VS_API int cudaStreamGetPriority(void *stream, int *priority)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!priority)
		return vs_error(CU_INVALID_VALUE);
	*priority = s ? s->priority : 0;
	return CU_OK;
}
VS_ALIAS(cudaStreamGetPriority_ptsz, cudaStreamGetPriority);

VS_API int cudaStreamGetFlags(void *stream, unsigned int *flags)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!flags)
		return vs_error(CU_INVALID_VALUE);
	*flags = s ? s->flags : 0;
	return CU_OK;
}
VS_ALIAS(cudaStreamGetFlags_ptsz, cudaStreamGetFlags);

VS_API int cudaStreamGetId(void *stream, unsigned long long *id)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!id)
		return vs_error(CU_INVALID_VALUE);
	*id = s ? s->id : (uintptr_t)stream;
	return CU_OK;
}
VS_ALIAS(cudaStreamGetId_ptsz, cudaStreamGetId);

VS_API int cudaStreamGetDevice(void *stream, int *device)
{
	struct vs_stream *s = vs_stream_of(stream);

	if (!device)
		return vs_error(CU_INVALID_VALUE);
	*device = s ? s->device : vs_thread_device();
	return CU_OK;
}
VS_ALIAS(cudaStreamGetDevice_ptsz, cudaStreamGetDevice);

struct callback {
	void (*function)(void *stream, int status, void *data);
	void *stream;
	void *data;
};

static void run_callback(void *data)
{
	struct callback *callback = data;

	callback->function(callback->stream, CU_OK, callback->data);
}

VS_API int cudaStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned int flags)
{
	struct callback callback = {function, stream, data};
	struct vs_graph *graph;
	uint64_t id;

	if (!function || flags)
		return vs_error(CU_INVALID_VALUE);
	if (vs_capture_get(stream, &id, &graph))
		return vs_error(CU_CAPTURE_UNSUPPORTED);
	run_callback(&callback);
	return CU_OK;
}
VS_ALIAS(cudaStreamAddCallback_ptsz, cudaStreamAddCallback);

VS_API int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
	return vs_error(vs_stream_call(stream, function, data));
}
VS_ALIAS(cudaLaunchHostFunc_ptsz, cudaLaunchHostFunc);
VS_ALIAS(cudaLaunchHostFunc_v2, cudaLaunchHostFunc); /* one argument more, how to wait: nothing waits */
VS_ALIAS(cudaLaunchHostFunc_v2_ptsz, cudaLaunchHostFunc);

VS_API int cudaEventCreateWithFlags(struct vs_event **event, unsigned int flags)
{
	int r = event ? vs_sim_activate_current() : CU_INVALID_VALUE;

	return vs_error(r == CU_OK ? vs_event_new(vs_thread_device(), flags, (void **)event) : r);
}

VS_API int cudaEventCreate(struct vs_event **event)
{
	return cudaEventCreateWithFlags(event, 0);
}

VS_API int cudaEventDestroy(struct vs_event *event)
{
	if (!event)
		return vs_error(CU_INVALID_HANDLE);
	free(event);
	return CU_OK;
}

VS_API int cudaEventRecord(struct vs_event *event, void *stream)
{
	return vs_error(vs_event_record(event, stream));
}
VS_ALIAS(cudaEventRecord_ptsz, cudaEventRecord);

VS_API int cudaEventRecordWithFlags(struct vs_event *event, void *stream, unsigned int flags)
{
	(void)flags;
	return vs_error(vs_event_record(event, stream));
}
VS_ALIAS(cudaEventRecordWithFlags_ptsz, cudaEventRecordWithFlags);

VS_API int cudaEventQuery(struct vs_event *event)
{
	return vs_error(event ? CU_OK : CU_INVALID_HANDLE);
}

VS_API int cudaEventSynchronize(struct vs_event *event)
{
	vs_pool_settle();
	return vs_error(event ? CU_OK : CU_INVALID_HANDLE);
}

/* Time on the host's clock between the two records: there is no device time, and none is made up. */
VS_API int cudaEventElapsedTime(float *ms, struct vs_event *from, struct vs_event *to)
{
	return vs_error(ms ? vs_event_elapsed(from, to, ms) : CU_INVALID_VALUE);
}
VS_ALIAS(cudaEventElapsedTime_v2, cudaEventElapsedTime);

VS_API int cudaStreamBeginCapture(void *stream, int mode)
{
	(void)mode;
	return vs_error(vs_capture_begin(stream, NULL));
}
VS_ALIAS(cudaStreamBeginCapture_ptsz, cudaStreamBeginCapture);

VS_API int cudaStreamBeginCaptureToGraph(void *stream, struct vs_graph *graph)
{
	return vs_error(graph ? vs_capture_begin(stream, graph) : CU_INVALID_VALUE);
}
VS_ALIAS(cudaStreamBeginCaptureToGraph_ptsz, cudaStreamBeginCaptureToGraph);

VS_API int cudaStreamEndCapture(void *stream, struct vs_graph **graph)
{
	return vs_error(graph ? vs_capture_end(stream, graph) : CU_INVALID_VALUE);
}
VS_ALIAS(cudaStreamEndCapture_ptsz, cudaStreamEndCapture);

VS_API int cudaStreamIsCapturing(void *stream, int *status)
{
	struct vs_graph *graph;
	uint64_t id;

	if (!status)
		return vs_error(CU_INVALID_VALUE);
	*status = vs_capture_get(stream, &id, &graph) ? VS_CAPTURE_ACTIVE : VS_CAPTURE_NONE;
	return CU_OK;
}
VS_ALIAS(cudaStreamIsCapturing_ptsz, cudaStreamIsCapturing);

static int capture_info(void *stream, int *status, unsigned long long *id, struct vs_graph **graph, size_t *count)
{
	struct vs_graph *found = NULL;
	uint64_t number = 0;

	if (!status)
		return CU_INVALID_VALUE;
	*status = vs_capture_get(stream, &number, &found) ? VS_CAPTURE_ACTIVE : VS_CAPTURE_NONE;
	if (*status != VS_CAPTURE_ACTIVE)
		return CU_OK;
	if (id)
		*id = number;
	if (graph)
		*graph = found;
	if (count)
		*count = 0;
	return CU_OK;
}

/* CUDA 13 and cudaStreamGetCaptureInfo_v3: edges between nodes come with data; there are no edges here. */
VS_API int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id, struct vs_graph **graph,
                                    const void ***dependencies, const void **edges, size_t *count)
{
	if (dependencies)
		*dependencies = NULL;
	if (edges)
		*edges = NULL;
	return vs_error(capture_info(stream, status, id, graph, count));
}
VS_ALIAS(cudaStreamGetCaptureInfo_ptsz, cudaStreamGetCaptureInfo);
VS_ALIAS(cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo);
VS_ALIAS(cudaStreamGetCaptureInfo_v3_ptsz, cudaStreamGetCaptureInfo);

VS_API int cudaStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, struct vs_graph **graph,
                                       const void ***dependencies, size_t *count)
{
	if (dependencies)
		*dependencies = NULL;
	return vs_error(capture_info(stream, status, id, graph, count));
}
VS_ALIAS(cudaStreamGetCaptureInfo_v2_ptsz, cudaStreamGetCaptureInfo_v2);

VS_API int cudaStreamUpdateCaptureDependencies(void *stream)
{
	struct vs_graph *graph;
	uint64_t id;

	return vs_error(vs_capture_get(stream, &id, &graph) ? CU_OK : CU_ILLEGAL_STATE);
}
VS_ALIAS(cudaStreamUpdateCaptureDependencies_ptsz, cudaStreamUpdateCaptureDependencies);
VS_ALIAS(cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies);
VS_ALIAS(cudaStreamUpdateCaptureDependencies_v2_ptsz, cudaStreamUpdateCaptureDependencies);

VS_API int cudaThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int thread_mode; /* cudaStreamCaptureModeGlobal */
	int before = thread_mode;

	if (!mode || *mode < 0 || *mode > 2)
		return vs_error(CU_INVALID_VALUE);
	thread_mode = *mode;
	*mode = before;
	return CU_OK;
}
