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

/*
 * A descriptor keeps the attributes it was given, each in the word of its number. It may be the caller's own memory,
 * of 32 words for an operation and 8 for all others; a number beyond that is taken, and reads as 0.
 */
enum { WORDS = 8, WORDS_OPERATION = 32 };
enum { OPERATION_COMPUTE, OPERATION_SCALE }; /* cublasLtMatmulDescAttributes_t */
enum {
	LAYOUT_TYPE,
	LAYOUT_ROWS = 2,
	LAYOUT_COLUMNS,
	LAYOUT_STRIDE,
	LAYOUT_BATCHES
}; /* cublasLtMatrixLayoutAttribute_t */

static int create(uint64_t **ret_object)
{
	if (!ret_object)
		return INVALID_VALUE;
	*ret_object = calloc(WORDS_OPERATION, sizeof(uint64_t));
	return *ret_object ? SUCCESS : ALLOC_FAILED;
}

static int destroy(void *object)
{
	free(object);
	return SUCCESS;
}

static int set(uint64_t *object, unsigned int words, unsigned int attribute, const void *value, size_t size)
{
	if (!object || !value)
		return INVALID_VALUE;
	if (attribute < words && size <= sizeof(*object)) {
		object[attribute] = 0;
		memcpy(&object[attribute], value, size);
	}
	return SUCCESS;
}

/* Asked with no room, the real one tells how much it wants: here all have a word. */
static int get(const uint64_t *object, unsigned int words, unsigned int attribute, void *value, size_t size,
               size_t *written)
{
	uint64_t word = object && attribute < words ? object[attribute] : 0;

	if (!object || (!value && size) || (!size && !written))
		return INVALID_VALUE;
	if (written)
		*written = size && size < sizeof(word) ? size : sizeof(word);
	if (size)
		memset(value, 0, size);
	if (size)
		memcpy(value, &word, size < sizeof(word) ? size : sizeof(word));
	return SUCCESS;
}

#define OBJECT(name, words)                                                                                          \
	VS_API int name##Destroy(void *object)                                                                       \
	{                                                                                                            \
		return destroy(object);                                                                              \
	}                                                                                                            \
	VS_API int name##SetAttribute(uint64_t *object, int attribute, const void *value, size_t size)               \
	{                                                                                                            \
		return set(object, words, (unsigned int)attribute, value, size);                                     \
	}                                                                                                            \
	VS_API int name##GetAttribute(const uint64_t *object, int attribute, void *value, size_t size,               \
	                              size_t *written)                                                               \
	{                                                                                                            \
		return get(object, words, (unsigned int)attribute, value, size, written);                            \
	}

OBJECT(cublasLtMatmulDesc, WORDS_OPERATION)
OBJECT(cublasLtMatrixLayout, WORDS)
OBJECT(cublasLtMatmulPreference, WORDS)
OBJECT(cublasLtMatrixTransformDesc, WORDS)

/* In the caller's own memory, of `size` bytes. */
VS_API int cublasLtMatmulPreferenceInit_internal(uint64_t *object, size_t size)
{
	if (!object)
		return INVALID_VALUE;
	memset(object, 0, size);
	return SUCCESS;
}

VS_API int cublasLtMatmulDescInit_internal(uint64_t *object, size_t size, int compute, int scale)
{
	int r = size < WORDS_OPERATION * sizeof(*object) ? ALLOC_FAILED
	                                                 : cublasLtMatmulPreferenceInit_internal(object, size);

	if (r == SUCCESS) {
		object[OPERATION_COMPUTE] = (unsigned int)compute;
		object[OPERATION_SCALE] = (unsigned int)scale;
	}
	return r;
}

VS_API int cublasLtMatrixLayoutInit_internal(uint64_t *object, size_t size, int type, uint64_t rows, uint64_t columns,
                                             int64_t stride)
{
	int r = size < WORDS * sizeof(*object) ? ALLOC_FAILED : cublasLtMatmulPreferenceInit_internal(object, size);

	if (r == SUCCESS) {
		object[LAYOUT_TYPE] = (unsigned int)type;
		object[LAYOUT_ROWS] = rows;
		object[LAYOUT_COLUMNS] = columns;
		object[LAYOUT_STRIDE] = (uint64_t)stride;
		object[LAYOUT_BATCHES] = 1;
	}
	return r;
}

VS_API int cublasLtMatrixTransformDescInit_internal(uint64_t *object, size_t size, int scale)
{
	int r = size < WORDS * sizeof(*object) ? ALLOC_FAILED : cublasLtMatmulPreferenceInit_internal(object, size);

	if (r == SUCCESS)
		object[0] = (unsigned int)scale; /* CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE */
	return r;
}

#define CREATE(object, init)                                                                                         \
	__extension__({                                                                                              \
		int r = create(object);                                                                              \
                                                                                                                     \
		r == SUCCESS ? init : r;                                                                             \
	})
#define ROOM (WORDS_OPERATION * sizeof(uint64_t))

VS_API int cublasLtMatmulPreferenceCreate(uint64_t **object)
{
	return create(object);
}

VS_API int cublasLtMatmulDescCreate(uint64_t **object, int compute, int scale)
{
	return CREATE(object, cublasLtMatmulDescInit_internal(*object, ROOM, compute, scale));
}

VS_API int cublasLtMatrixLayoutCreate(uint64_t **object, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
	return CREATE(object, cublasLtMatrixLayoutInit_internal(*object, ROOM, type, rows, columns, stride));
}

VS_API int cublasLtMatrixTransformDescCreate(uint64_t **object, int scale)
{
	return CREATE(object, cublasLtMatrixTransformDescInit_internal(*object, ROOM, scale));
}

VS_API int cublasLtCreate(uint64_t **handle)
{
	return vs_sim_activate(vs_thread_device()) == CU_OK ? create(handle) : NOT_INITIALIZED;
}

VS_API int cublasLtDestroy(void *handle)
{
	return destroy(handle);
}

VS_API int cublasLtMatmulAlgoConfigSetAttribute(void *algorithm)
{
	return algorithm ? SUCCESS : INVALID_VALUE;
}

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
