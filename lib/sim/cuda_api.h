/* SPDX-License-Identifier: MIT
 *
 * The part of CUDA's binary interface that the simulated device speaks:
 * numbers and layouts only, written from the public documentation, so that no
 * CUDA is needed to build. tests/sim/test_layout.py checks the layouts against
 * NVIDIA's headers where a toolkit is found.
 *
 * Runtime (cudaError_t) and driver (CUresult) codes share their numbers, so
 * one set of names serves both.
 */
#ifndef VS_SIM_CUDA_API_H
#define VS_SIM_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#define VS_API __attribute__((visibility("default")))

enum vs_cuda_error {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,       /* cudaErrorInitializationError */
	CU_INVALID_CONFIGURATION = 9, /* runtime only */
	CU_INVALID_SYMBOL = 13,       /* runtime only */
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_CONTEXT = 201, /* cudaErrorDeviceUninitialized */
	CU_ALREADY_MAPPED = 208,
	CU_INVALID_HANDLE = 400,
	CU_ILLEGAL_STATE = 401,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_PEER_ALREADY_ENABLED = 704,
	CU_PEER_NOT_ENABLED = 705,
	CU_ALREADY_REGISTERED = 712, /* HostMemoryAlreadyRegistered */
	CU_NOT_REGISTERED = 713,     /* HostMemoryNotRegistered */
	CU_NOT_SUPPORTED = 801,
	CU_CAPTURE_UNSUPPORTED = 900,
	CU_CAPTURE_INVALIDATED = 901,
	CU_CAPTURE_UNMATCHED = 903,
	CU_UNKNOWN = 999,
};

/* cudaMemcpyKind */
enum vs_copy_kind { VS_COPY_H2H = 0, VS_COPY_H2D = 1, VS_COPY_D2H = 2, VS_COPY_D2D = 3, VS_COPY_DEFAULT = 4 };

/* cudaMemoryType; CUmemorytype uses the same numbers for host and device. */
enum vs_memory_type { VS_TYPE_NONE = 0, VS_TYPE_HOST = 1, VS_TYPE_DEVICE = 2, VS_TYPE_MANAGED = 3 };

/* cudaMemLocationType / CUmemLocationType */
enum vs_location_type { VS_LOCATION_DEVICE = 1, VS_LOCATION_HOST = 2, VS_LOCATION_HOST_NUMA = 3 };

struct vs_location {
	int type;
	int id;
};

struct vs_uuid {
	unsigned char bytes[16];
};

struct vs_dim3 {
	unsigned int x, y, z;
};

/* cudaPointerAttributes */
struct vs_pointer_attributes {
	int type;
	int device;
	void *device_pointer;
	void *host_pointer;
};

/* cudaPointerAttributes of CUDA 13 has eight reserved longs behind the four fields. */
struct vs_func_attributes {
	size_t shared_size_bytes;
	size_t const_size_bytes;
	size_t local_size_bytes;
	int max_threads_per_block;
	int num_regs;
	int ptx_version;
	int binary_version;
	int cache_mode_ca;
	int max_dynamic_shared_size_bytes;
	int preferred_shmem_carveout;
	int cluster_dim_must_be_set;
	int required_cluster_width;
	int required_cluster_height;
	int required_cluster_depth;
	int cluster_scheduling_policy_preference;
	int non_portable_cluster_size_allowed;
	int reserved[16];
};

/* CUmemAllocationProp */
struct vs_allocation_prop {
	int type;
	int requested_handle_types;
	struct vs_location location;
	void *win32_handle_metadata;
	unsigned char compression_type;
	unsigned char gpu_direct_rdma_capable;
	unsigned short usage;
	unsigned char reserved[4];
};

/* CUmemPoolProps_v1 and cudaMemPoolProps */
struct vs_pool_props {
	int type;
	int handle_types;
	struct vs_location location;
	void *security;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

/* CUDA_MEM_ALLOC_NODE_PARAMS and cudaMemAllocNodeParams */
struct vs_alloc_node {
	struct vs_pool_props pool;
	const void *access;
	size_t access_count;
	size_t size;
	uint64_t address; /* out */
};

/* CUDA_ARRAY_DESCRIPTOR_v2, CUDA_ARRAY3D_DESCRIPTOR_v2 */
struct vs_array {
	size_t width, height;
	int format;
	unsigned int channels;
};

struct vs_array3d {
	size_t width, height, depth;
	int format;
	unsigned int channels;
	unsigned int flags;
};

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC and cudaExternalMemoryHandleDesc, and what is mapped of it; their first members */
struct vs_external_memory {
	int type;
	union {
		int descriptor;
		void *handle[2];
	} from;
	unsigned long long size;
};

struct vs_external_buffer {
	unsigned long long offset, size;
};

/* CUmemAccessDesc / cudaMemAccessDesc */
struct vs_access_desc {
	struct vs_location location;
	int flags;
};

/* CUipcMemHandle, CUipcEventHandle and their runtime twins: 64 opaque bytes. */
struct vs_ipc_handle {
	unsigned char bytes[64];
};

#endif
