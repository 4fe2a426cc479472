/* SPDX-License-Identifier: MIT
 *
 * cuDNN: descriptors are accepted, one engine is offered for every operation
 * graph, its workspace is assumed to be empty, and nothing is computed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/shadow.h"
#include "sim/sim.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, ALLOCATION_FAILED = 4003 };

struct handle {
	void *stream;
};

VS_API int cudnnCreate(struct handle **handle)
{
	if (!handle)
		return BAD_PARAM;
	if (vs_sim_activate(vs_thread_device()) != CU_OK)
		return NOT_INITIALIZED;
	*handle = calloc(1, sizeof(**handle));
	return *handle ? SUCCESS : ALLOCATION_FAILED;
}

VS_API int cudnnDestroy(struct handle *handle)
{
	free(handle);
	return SUCCESS;
}

VS_API int cudnnSetStream(struct handle *handle, void *stream)
{
	if (!handle)
		return BAD_PARAM;
	handle->stream = stream;
	return SUCCESS;
}

VS_API int cudnnGetStream(struct handle *handle, void **stream)
{
	if (!handle || !stream)
		return BAD_PARAM;
	*stream = handle->stream;
	return SUCCESS;
}

VS_API size_t cudnnGetCudartVersion(void)
{
	return VS_DRIVER_VERSION;
}

/* The sublibraries are of the same version as this one. */
VS_API int cudnnAdvVersionCheck(void)
{
	return SUCCESS;
}
VS_ALIAS(cudnnCnnVersionCheck, cudnnAdvVersionCheck);
VS_ALIAS(cudnnGraphVersionCheck, cudnnAdvVersionCheck);
VS_ALIAS(cudnnOpsVersionCheck, cudnnAdvVersionCheck);
VS_ALIAS(cudnnSubquadraticOpsVersionCheck, cudnnAdvVersionCheck);

VS_API const char *cudnnGetErrorString(int status)
{
	return status == SUCCESS           ? "CUDNN_STATUS_SUCCESS"
	       : status == BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
	       : status == NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
	                                   : "CUDNN_STATUS_NOT_SUPPORTED";
}

VS_API void cudnnGetLastErrorString(char *text, size_t size)
{
	if (text && size)
		snprintf(text, size, "not simulated");
}

static int create(void **ret_object)
{
	if (!ret_object)
		return BAD_PARAM;
	*ret_object = calloc(1, 64);
	return *ret_object ? SUCCESS : ALLOCATION_FAILED;
}

/* Backend API. Numbers: cudnnBackendAttributeName_t and cudnnBackendAttributeType_t. */
enum { ENGINEHEUR_RESULTS = 202, ENGINECFG_ENGINE = 300, EXECUTION_PLAN_ENGINE_CONFIG = 401 };
enum { TYPE_DESCRIPTOR = 15 };

static size_t type_size(int type)
{
	/* handle, int64, double, pointer and fraction (two int64) are wide; boolean and char are bytes; the rest int
	 */
	static const unsigned char sizes[] = {[0] = 8, [2] = 1, [3] = 8, [5] = 8, [6] = 8, [24] = 1, [26] = 16};

	return type >= 0 && type < (int)sizeof(sizes) && sizes[type] ? sizes[type] : 4;
}

VS_API int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	(void)type;
	return create(descriptor);
}

VS_API int cudnnBackendDestroyDescriptor(void *descriptor)
{
	free(descriptor);
	return SUCCESS;
}

VS_API int cudnnBackendInitialize(void *descriptor)
{
	return descriptor ? SUCCESS : BAD_PARAM;
}
VS_ALIAS(cudnnBackendFinalize, cudnnBackendInitialize);
VS_ALIAS(cudnnBackendSetAttribute, cudnnBackendInitialize);

VS_API int cudnnBackendExecute(void *handle, void *plan, void *arguments)
{
	vs_shadow_forget();
	return handle && plan && arguments ? SUCCESS : BAD_PARAM;
}

/* One result of every heuristic query; every scalar (workspace sizes too) is zero; lists of notes are empty. */
VS_API int cudnnBackendGetAttribute(const void *descriptor, int name, int type, int64_t wanted, int64_t *count,
                                    void *values)
{
	if (!descriptor)
		return BAD_PARAM;
	/* Asked how many there are, these are one. */
	if (name == ENGINEHEUR_RESULTS || name == ENGINECFG_ENGINE || name == EXECUTION_PLAN_ENGINE_CONFIG) {
		if (count)
			*count = 1;
		return SUCCESS;
	}
	if (type != TYPE_DESCRIPTOR && values && wanted > 0)
		memset(values, 0, type_size(type));
	/* A scalar is one element; more are only asked for where there may be none, like numerical notes. */
	if (count)
		*count = wanted == 1;
	return SUCCESS;
}

/* Legacy descriptors */
#define OBJECT(name)                                                                                                 \
	VS_API int cudnnCreate##name(void **object)                                                                  \
	{                                                                                                            \
		return create(object);                                                                               \
	}                                                                                                            \
	VS_API int cudnnDestroy##name(void *object)                                                                  \
	{                                                                                                            \
		free(object);                                                                                        \
		return SUCCESS;                                                                                      \
	}

OBJECT(ActivationDescriptor)
OBJECT(AttnDescriptor)
OBJECT(CTCLossDescriptor)
OBJECT(ConvolutionDescriptor)
OBJECT(DropoutDescriptor)
OBJECT(FilterDescriptor)
OBJECT(LRNDescriptor)
OBJECT(OpTensorDescriptor)
OBJECT(PoolingDescriptor)
OBJECT(RNNDataDescriptor)
OBJECT(RNNDescriptor)
OBJECT(ReduceTensorDescriptor)
OBJECT(SeqDataDescriptor)
OBJECT(SpatialTransformerDescriptor)
OBJECT(TensorDescriptor)
OBJECT(TensorTransformDescriptor)

VS_API int cudnnDropoutGetStatesSize(void *handle, size_t *size)
{
	if (!handle || !size)
		return BAD_PARAM;
	*size = 0; /* the real size is not documented: assumed empty */
	return SUCCESS;
}

/* What a batch normalisation needs beside its tensors is not documented: assumed empty. */
VS_API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *handle, int mode, int ops, void *x, void *z,
                                                                    void *y, void *scale, void *activation,
                                                                    size_t *size)
{
	(void)mode;
	(void)ops;
	(void)x;
	(void)z;
	(void)y;
	(void)scale;
	(void)activation;
	if (!handle || !size)
		return BAD_PARAM;
	*size = 0;
	return SUCCESS;
}

VS_API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *handle, int mode, int ops, void *x, void *y,
                                                             void *dy, void *dz, void *dx, void *scale,
                                                             void *activation, size_t *size)
{
	(void)mode;
	(void)ops;
	(void)x;
	(void)y;
	(void)dy;
	(void)dz;
	(void)dx;
	(void)scale;
	(void)activation;
	if (!handle || !size)
		return BAD_PARAM;
	*size = 0;
	return SUCCESS;
}

VS_API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *handle, int mode, int ops, void *activation,
                                                                void *x, size_t *size)
{
	(void)mode;
	(void)ops;
	(void)activation;
	(void)x;
	if (!handle || !size)
		return BAD_PARAM;
	*size = 0;
	return SUCCESS;
}

/* A setter or a routine on device memory: nothing to do. */
#define VS_DONE(name)                                                                                                \
	VS_API int name(void *object)                                                                                \
	{                                                                                                            \
		return object ? SUCCESS : BAD_PARAM;                                                                 \
	}
#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, NOT_SUPPORTED);                                                  \
	}
#include "sim/cudnn.def"
