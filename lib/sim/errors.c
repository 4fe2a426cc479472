/* SPDX-License-Identifier: MIT
 *
 * Names and texts of the errors that the simulated device can answer with, as
 * CUDA words them: jobs match on them.
 */
#include "sim/sim.h"

struct text {
	int code;
	const char *runtime; /* cudaGetErrorName */
	const char *driver;  /* cuGetErrorName */
	const char *text;
};

static const struct text texts[] = {
    {CU_OK, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {CU_INVALID_VALUE, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CU_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CU_NOT_INITIALIZED, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CU_INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {CU_INVALID_SYMBOL, "cudaErrorInvalidSymbol", "cudaErrorInvalidSymbol", "invalid device symbol"},
    {CU_NO_DEVICE, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CU_INVALID_DEVICE, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CU_INVALID_CONTEXT, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CU_ALREADY_MAPPED, "cudaErrorAlreadyMapped", "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {CU_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CU_ILLEGAL_STATE, "cudaErrorIllegalState", "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CU_NOT_FOUND, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CU_NOT_READY, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {CU_PEER_ALREADY_ENABLED, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {CU_PEER_NOT_ENABLED, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "peer access has not been enabled"},
    {CU_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CU_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CU_NOT_SUPPORTED, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CU_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CU_CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CU_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched", "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CU_UNKNOWN, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const struct text *find(int code)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].code == code)
			return &texts[i];
	return NULL;
}

VS_API const char *cudaGetErrorName(int code)
{
	const struct text *text = find(code);

	return text ? text->runtime : "unrecognized error code";
}

VS_API const char *cudaGetErrorString(int code)
{
	const struct text *text = find(code);

	return text ? text->text : "unrecognized error code";
}

VS_API int cuGetErrorName(int code, const char **ret_name)
{
	const struct text *text = find(code);

	*ret_name = text ? text->driver : NULL;
	return text ? CU_OK : CU_INVALID_VALUE;
}

VS_API int cuGetErrorString(int code, const char **ret_text)
{
	const struct text *text = find(code);

	*ret_text = text ? text->text : NULL;
	return text ? CU_OK : CU_INVALID_VALUE;
}
