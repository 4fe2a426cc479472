/* SPDX-License-Identifier: MIT
 *
 * cuBLAS: handles keep their settings, routines compute nothing (stubs in
 * cublas.def). Where a routine returns a number to the host, it is zero.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/shadow.h"
#include "sim/sim.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { POINTER_MODE_HOST = 0 };

struct handle {
	void *stream;
	int pointer_mode;
	int math_mode;
	int atomics_mode;
	int sm_target;
};

VS_API int cublasCreate_v2(struct handle **handle)
{
	int r = vs_sim_activate(vs_thread_device());

	if (!handle)
		return INVALID_VALUE;
	if (r != CU_OK)
		return NOT_INITIALIZED;
	*handle = calloc(1, sizeof(**handle));
	return *handle ? SUCCESS : 3; /* CUBLAS_STATUS_ALLOC_FAILED */
}

VS_API int cublasDestroy_v2(struct handle *handle)
{
	if (!handle)
		return NOT_INITIALIZED;
	free(handle);
	return SUCCESS;
}

VS_API int cublasSetStream_v2(struct handle *handle, void *stream)
{
	if (!handle)
		return NOT_INITIALIZED;
	handle->stream = stream;
	return SUCCESS;
}

VS_API int cublasGetStream_v2(struct handle *handle, void **stream)
{
	if (!handle)
		return NOT_INITIALIZED;
	*stream = handle->stream;
	return SUCCESS;
}

/* A setting of the handle and its getter. */
#define SETTING(setter, getter, member)                                                                              \
	VS_API int setter(struct handle *handle, int value)                                                          \
	{                                                                                                            \
		if (!handle)                                                                                         \
			return NOT_INITIALIZED;                                                                      \
		handle->member = value;                                                                              \
		return SUCCESS;                                                                                      \
	}                                                                                                            \
	VS_API int getter(struct handle *handle, int *value)                                                         \
	{                                                                                                            \
		if (!handle)                                                                                         \
			return NOT_INITIALIZED;                                                                      \
		*value = handle->member;                                                                             \
		return SUCCESS;                                                                                      \
	}

SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, pointer_mode)
SETTING(cublasSetMathMode, cublasGetMathMode, math_mode)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, atomics_mode)
SETTING(cublasSetSmCountTarget, cublasGetSmCountTarget, sm_target)

VS_API int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t size)
{
	(void)workspace;
	(void)size;
	return handle ? SUCCESS : NOT_INITIALIZED;
}

VS_API const char *cublasGetStatusName(int status)
{
	return status == SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
	       : status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
	       : status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
	                                 : "CUBLAS_STATUS_NOT_INITIALIZED";
}

VS_API const char *cublasGetStatusString(int status)
{
	return status == SUCCESS         ? "success"
	       : status == NOT_SUPPORTED ? "the functionality requested is not supported"
	       : status == INVALID_VALUE ? "an unsupported value or parameter was passed to the function"
	                                 : "the library was not initialized";
}

static int answer(const struct handle *handle, void *result, size_t size)
{
	if (!handle)
		return NOT_INITIALIZED;
	if (result && handle->pointer_mode == POINTER_MODE_HOST)
		memset(result, 0, size);
	return SUCCESS;
}

/* (handle, n, x, incx, result) */
#define REDUCTION(name, size)                                                                                        \
	VS_API int name(struct handle *handle, long n, const void *x, long incx, void *result)                       \
	{                                                                                                            \
		(void)n;                                                                                             \
		(void)x;                                                                                             \
		(void)incx;                                                                                          \
		return answer(handle, result, size);                                                                 \
	}

/* (handle, n, x, incx, y, incy, result) */
#define DOT(name, size)                                                                                              \
	VS_API int name(struct handle *handle, long n, const void *x, long incx, const void *y, long incy,           \
	                void *result)                                                                                \
	{                                                                                                            \
		(void)n;                                                                                             \
		(void)x;                                                                                             \
		(void)incx;                                                                                          \
		(void)y;                                                                                             \
		(void)incy;                                                                                          \
		return answer(handle, result, size);                                                                 \
	}

REDUCTION(cublasSnrm2_v2, 4)
REDUCTION(cublasDnrm2_v2, 8)
REDUCTION(cublasScnrm2_v2, 4)
REDUCTION(cublasDznrm2_v2, 8)
REDUCTION(cublasSasum_v2, 4)
REDUCTION(cublasDasum_v2, 8)
REDUCTION(cublasScasum_v2, 4)
REDUCTION(cublasDzasum_v2, 8)
REDUCTION(cublasIsamax_v2, 4)
REDUCTION(cublasIdamax_v2, 4)
REDUCTION(cublasIcamax_v2, 4)
REDUCTION(cublasIzamax_v2, 4)
REDUCTION(cublasIsamin_v2, 4)
REDUCTION(cublasIdamin_v2, 4)
REDUCTION(cublasIcamin_v2, 4)
REDUCTION(cublasIzamin_v2, 4)
DOT(cublasSdot_v2, 4)
DOT(cublasDdot_v2, 8)
DOT(cublasCdotu_v2, 8)
DOT(cublasCdotc_v2, 8)
DOT(cublasZdotu_v2, 16)
DOT(cublasZdotc_v2, 16)

/* A routine that works on device memory only: nothing to do, and no host value to give. */
#define VS_DONE(name)                                                                                                \
	VS_API int name(struct handle *handle)                                                                       \
	{                                                                                                            \
		vs_shadow_forget();                                                                                  \
		return handle ? SUCCESS : NOT_INITIALIZED;                                                           \
	}
#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, NOT_SUPPORTED);                                                  \
	}
#include "sim/cublas.def"
