/* SPDX-License-Identifier: MIT
 *
 * cuSPARSE, cuSPARSELt, cuSOLVER and cuFFT: handles and descriptors are
 * accepted. Routines that would need a workspace or give a result are not
 * simulated: their workspaces' sizes are not public.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };
enum { CUSPARSE_NOT_SUPPORTED = 10, CUSOLVER_NOT_SUPPORTED = 9, CUFFT_NOT_SUPPORTED = 16 };

static int create(void **ret_object)
{
	if (!ret_object)
		return INVALID_VALUE;
	*ret_object = calloc(1, 256);
	return *ret_object ? SUCCESS : ALLOC_FAILED;
}

#define CREATE(name)                                                                                                 \
	VS_API int name(void **object)                                                                               \
	{                                                                                                            \
		return create(object);                                                                               \
	}
#define DESTROY(name)                                                                                                \
	VS_API int name(void *object)                                                                                \
	{                                                                                                            \
		free(object);                                                                                        \
		return SUCCESS;                                                                                      \
	}
#define VS_DONE(name)                                                                                                \
	VS_API int name(void *object)                                                                                \
	{                                                                                                            \
		return object ? SUCCESS : INVALID_VALUE;                                                             \
	}
#define NONE(name, code)                                                                                             \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, code);                                                           \
	}

CREATE(cusparseCreate)
DESTROY(cusparseDestroy)
VS_DONE(cusparseSetStream)
VS_DONE(cusparseSetPointerMode)
CREATE(cusparseCreateMatDescr)
DESTROY(cusparseDestroyMatDescr)
VS_DONE(cusparseSetMatDiagType)
VS_DONE(cusparseSetMatFillMode)
VS_DONE(cusparseSetMatIndexBase)
VS_DONE(cusparseSetMatType)

CREATE(cusolverDnCreate)
DESTROY(cusolverDnDestroy)
VS_DONE(cusolverDnSetStream)
CREATE(cusolverDnCreateParams)
DESTROY(cusolverDnDestroyParams)
CREATE(cusolverDnCreateSyevjInfo)
DESTROY(cusolverDnDestroySyevjInfo)
CREATE(cusolverDnCreateGesvdjInfo)
DESTROY(cusolverDnDestroyGesvdjInfo)

VS_API int cufftCreate(int *plan)
{
	static _Atomic int last;

	if (!plan)
		return INVALID_VALUE;
	*plan = ++last;
	return SUCCESS;
}

VS_API int cufftDestroy(int plan)
{
	(void)plan;
	return SUCCESS;
}
VS_ALIAS(cufftSetAutoAllocation, cufftDestroy);
VS_ALIAS(cufftSetStream, cufftDestroy);
VS_ALIAS(cufftSetWorkArea, cufftDestroy);
VS_ALIAS(cufftXtExec, cufftDestroy);

VS_API const char *cusparseGetErrorString(int status)
{
	return status == SUCCESS ? "success" : "operation not supported";
}

VS_API const char *cusparseGetErrorName(int status)
{
	return status == SUCCESS ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED";
}

VS_API const char *cusparseLtGetErrorString(int status)
{
	return cusparseGetErrorString(status);
}

#define VS_NONE(name) NONE(name, CUSPARSE_NOT_SUPPORTED)
#include "sim/cusparse.def"
#undef VS_NONE
#define VS_NONE(name) NONE(name, CUSOLVER_NOT_SUPPORTED)
#include "sim/cusolver.def"
#undef VS_NONE
#define VS_NONE(name) NONE(name, CUFFT_NOT_SUPPORTED)
#include "sim/cufft.def"
#undef VS_NONE
