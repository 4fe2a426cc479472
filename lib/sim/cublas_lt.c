/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt: descriptors are accepted, one algorithm without workspace is
 * offered for every product, and the product is not computed.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/shadow.h"
#include "sim/sim.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

/* cublasLtMatmulHeuristicResult_t */
struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

/* cublasLtMatmulAlgo_t and the opaque descriptors: 64 bytes at most are ever written by callers' own structs. */
static int create(void **ret_object)
{
	if (!ret_object)
		return INVALID_VALUE;
	*ret_object = calloc(1, 256);
	return *ret_object ? SUCCESS : ALLOC_FAILED;
}

static int destroy(void *object)
{
	free(object);
	return SUCCESS;
}

#define OBJECT(name)                                                                                                 \
	VS_API int name##Create(void **object)                                                                       \
	{                                                                                                            \
		return create(object);                                                                               \
	}                                                                                                            \
	VS_API int name##Destroy(void *object)                                                                       \
	{                                                                                                            \
		return destroy(object);                                                                              \
	}

OBJECT(cublasLtMatmulDesc) /* two types follow the pointer */
OBJECT(cublasLtMatrixLayout)
OBJECT(cublasLtMatmulPreference)
OBJECT(cublasLtMatrixTransformDesc)

VS_API int cublasLtCreate(void **handle)
{
	return vs_sim_activate(vs_thread_device()) == CU_OK ? create(handle) : NOT_INITIALIZED;
}

VS_API int cublasLtDestroy(void *handle)
{
	return destroy(handle);
}

/* (object, attribute, value, size) */
VS_API int cublasLtMatmulDescSetAttribute(void *object)
{
	return object ? SUCCESS : INVALID_VALUE;
}
VS_ALIAS(cublasLtMatrixLayoutSetAttribute, cublasLtMatmulDescSetAttribute);
VS_ALIAS(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulDescSetAttribute);
VS_ALIAS(cublasLtMatrixTransformDescSetAttribute, cublasLtMatmulDescSetAttribute);
VS_ALIAS(cublasLtMatmulAlgoConfigSetAttribute, cublasLtMatmulDescSetAttribute);

/* (object, size): the caller's own memory */
VS_API int cublasLtMatmulDescInit_internal(void *object, size_t size)
{
	if (!object)
		return INVALID_VALUE;
	memset(object, 0, size);
	return SUCCESS;
}
VS_ALIAS(cublasLtMatrixLayoutInit_internal, cublasLtMatmulDescInit_internal);
VS_ALIAS(cublasLtMatmulPreferenceInit_internal, cublasLtMatmulDescInit_internal);
VS_ALIAS(cublasLtMatrixTransformDescInit_internal, cublasLtMatmulDescInit_internal);

VS_API int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value, size_t size,
                                                size_t *written)
{
	(void)algorithm;
	(void)attribute;
	if (value && size)
		memset(value, 0, size);
	if (written)
		*written = size;
	return SUCCESS;
}
VS_ALIAS(cublasLtMatmulAlgoCapGetAttribute, cublasLtMatmulAlgoConfigGetAttribute);

VS_API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                          void *preference, int wanted, struct heuristic *results, int *count)
{
	(void)handle;
	(void)operation;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	(void)preference;
	if (wanted < 1 || !results || !count)
		return INVALID_VALUE;
	memset(&results[0], 0, sizeof(results[0]));
	results[0].waves = 1.0f;
	*count = 1;
	return SUCCESS;
}

VS_API int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                                  uint64_t algorithm[8])
{
	(void)handle;
	(void)compute;
	(void)scale;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (!algorithm)
		return INVALID_VALUE;
	memset(algorithm, 0, 64);
	algorithm[0] = (uint64_t)id;
	return SUCCESS;
}

VS_API int cublasLtMatmulAlgoGetIds(void *handle, int compute, int scale, int a, int b, int c, int d, int wanted,
                                    int *ids, int *count)
{
	(void)handle;
	(void)compute;
	(void)scale;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (wanted < 1 || !ids || !count)
		return INVALID_VALUE;
	ids[0] = 0;
	*count = 1;
	return SUCCESS;
}

VS_API int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                   const uint64_t *algorithm, struct heuristic *result)
{
	(void)handle;
	(void)operation;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (!algorithm || !result)
		return INVALID_VALUE;
	memset(result, 0, sizeof(*result));
	memcpy(result->algorithm, algorithm, sizeof(result->algorithm));
	result->waves = 1.0f;
	return SUCCESS;
}

VS_API int cublasLtMatmul(void *handle)
{
	vs_shadow_forget();
	return handle ? SUCCESS : NOT_INITIALIZED;
}
VS_ALIAS(cublasLtMatrixTransform, cublasLtMatmul);

VS_API size_t cublasLtGetVersion(void)
{
	static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
	size_t (*get)(void) = (size_t(*)(void))vs_real(names, "cublasLtGetVersion");

	return get ? get() : 130000;
}

VS_API size_t cublasLtGetCudartVersion(void)
{
	return VS_DRIVER_VERSION;
}

VS_API const char *cublasLtGetStatusName(int status)
{
	return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
VS_ALIAS(cublasLtGetStatusString, cublasLtGetStatusName);

#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, NOT_SUPPORTED);                                                  \
	}
#include "sim/cublas_lt.def"
