/* SPDX-License-Identifier: MIT
 *
 * The few CUDA types that the hooked calls pass, as cuda.h and cuda_runtime_api.h lay them out since
 * CUDA 10.2. Our own, so that no CUDA toolkit is needed to build.
 */
#ifndef VS_SHIM_CUDA_TYPES_H
#define VS_SHIM_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t vs_cuda_pointer; /* CUdeviceptr_v2 */
typedef uint64_t vs_cuda_handle;  /* CUmemGenericAllocationHandle */

struct vs_cuda_location { /* CUmemLocation */
	int type;         /* VS_CUDA_LOCATION_DEVICE, or one of the host kinds */
	int id;           /* the device's ordinal, or a NUMA node */
};
#define VS_CUDA_LOCATION_DEVICE 1 /* CU_MEM_LOCATION_TYPE_DEVICE */

struct vs_cuda_allocation_prop { /* CUmemAllocationProp_v1, its first members */
	int type;
	int handle_types;
	struct vs_cuda_location location;
};

struct vs_cuda_extent { /* cudaExtent; width in bytes */
	size_t width, height, depth;
};

struct vs_cuda_pitched { /* cudaPitchedPtr */
	void *pointer;
	size_t pitch, width, height;
};

struct vs_cuda_ipc_handle { /* cudaIpcMemHandle_t and CUipcMemHandle, passed by value */
	char reserved[64];
};

/* cudaErrorInitializationError and CUDA_ERROR_NOT_INITIALIZED share this number: what a call returns
 * when no CUDA library is loaded behind us. */
/* CUDA_ERROR_* and cudaError* */
#define VS_CUDA_OUT_OF_MEMORY   2
#define VS_CUDA_NOT_INITIALIZED 3

/* CU_GET_PROC_ADDRESS_* and cudaEnable*: which flavour of the default stream an entry point serves. */
#define VS_CUDA_ENTRY_DEFAULT    0
#define VS_CUDA_ENTRY_PER_THREAD 2

#endif
