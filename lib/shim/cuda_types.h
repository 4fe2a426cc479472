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

/* CUstream: the two default streams have numbers for handles. */
#define VS_CUDA_STREAM_PER_THREAD ((void *)2)

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

struct vs_cuda_channels { /* cudaChannelFormatDesc */
	int bits[4];
	int kind;
};

struct vs_cuda_array { /* CUDA_ARRAY_DESCRIPTOR_v2 */
	size_t width, height;
	int format;
	unsigned int channels;
};

struct vs_cuda_array3d { /* CUDA_ARRAY3D_DESCRIPTOR_v2 */
	size_t width, height, depth;
	int format;
	unsigned int channels;
	unsigned int flags;
};

struct vs_cuda_pool_props { /* CUmemPoolProps_v1 and cudaMemPoolProps: 88 bytes, of which these begin */
	int type;
	int handle_types;
	struct vs_cuda_location location;
	void *security;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct vs_cuda_alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS and cudaMemAllocNodeParams */
	struct vs_cuda_pool_props pool;
	const void *access;
	size_t access_count;
	size_t size;
	vs_cuda_pointer pointer; /* out */
};

struct vs_cuda_node { /* CUgraphNodeParams */
	int type;
	int reserved[3];
	struct vs_cuda_alloc_node allocation; /* where the type says so */
};
#define VS_CUDA_NODE_ALLOCATION 10 /* CU_GRAPH_NODE_TYPE_MEM_ALLOC */

struct vs_cuda_external_memory { /* CUDA_EXTERNAL_MEMORY_HANDLE_DESC and cudaExternalMemoryHandleDesc */
	int type;
	union {
		int descriptor;
		void *handle[2];
	} from;
	unsigned long long size;
};

struct vs_cuda_external_buffer { /* CUDA_EXTERNAL_MEMORY_BUFFER_DESC and cudaExternalMemoryBufferDesc */
	unsigned long long offset, size;
};

struct vs_cuda_multicast { /* CUmulticastObjectProp_v1, its first members */
	unsigned int devices;
	size_t size;
};

/* CUDA_ERROR_* and cudaError* share these numbers. NOT_INITIALIZED: what a call returns when no CUDA library is loaded
 * behind us. */
#define VS_CUDA_OUT_OF_MEMORY   2
#define VS_CUDA_NOT_INITIALIZED 3

/* CU_GET_PROC_ADDRESS_* and cudaEnable*: which flavour of the default stream an entry point serves. */
#define VS_CUDA_ENTRY_DEFAULT    0
#define VS_CUDA_ENTRY_PER_THREAD 2

#endif
