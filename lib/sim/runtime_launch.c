/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: kernels. They are accepted and not run.
 */
#include "sim/launch.h"

#include <string.h>

#include "sim/readback.h"
#include "sim/shadow.h"
#include "sim/sim.h"
#include "sim/stream.h"

static __thread struct {
	struct vs_dim3 grid, block;
	size_t shared;
	void *stream;
} pushed[8];
static __thread unsigned int depth;

VS_API unsigned int __cudaPushCallConfiguration(struct vs_dim3 grid, struct vs_dim3 block, size_t shared,
                                                void *stream)
{
	if (depth == sizeof(pushed) / sizeof(pushed[0]))
		return CU_INVALID_CONFIGURATION;
	pushed[depth].grid = grid;
	pushed[depth].block = block;
	pushed[depth].shared = shared;
	pushed[depth].stream = stream;
	depth++;
	return CU_OK;
}

VS_API int __cudaPopCallConfiguration(struct vs_dim3 *grid, struct vs_dim3 *block, size_t *shared, void **stream)
{
	if (!depth)
		return CU_INVALID_CONFIGURATION;
	depth--;
	*grid = pushed[depth].grid;
	*block = pushed[depth].block;
	*shared = pushed[depth].shared;
	*stream = pushed[depth].stream;
	return CU_OK;
}

int vs_launch(struct vs_dim3 grid, struct vs_dim3 block, size_t shared, void *stream)
{
	const struct vs_sim *sim;
	int r = vs_sim_check();

	if (r == CU_OK)
		r = vs_sim_activate(vs_thread_device());
	if (r != CU_OK)
		return r;
	sim = vs_sim_get();
	/* "Maximum sizes" of the CUDA C++ Programming Guide; 64-bit, so that no product wraps. */
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z || grid.y > 65535 || grid.z > 65535 ||
	    block.z > 64 || (uint64_t)block.x * block.y > 1024 || (uint64_t)block.x * block.y * block.z > 1024)
		return CU_INVALID_CONFIGURATION;
	if (shared > (size_t)sim->gpu->shared_optin_kib << 10)
		return CU_INVALID_VALUE;
	vs_shadow_forget();
	vs_stream_work(stream);
	return CU_OK;
}

VS_API int cudaLaunchKernel(const void *function, struct vs_dim3 grid, struct vs_dim3 block, void **arguments,
                            size_t shared, void *stream)
{
	vs_readback_launched(function, arguments);
	return vs_error(vs_launch(grid, block, shared, stream));
}
VS_ALIAS(cudaLaunchKernel_ptsz, cudaLaunchKernel);
VS_ALIAS(cudaLaunchCooperativeKernel, cudaLaunchKernel);
VS_ALIAS(cudaLaunchCooperativeKernel_ptsz, cudaLaunchKernel);
VS_ALIAS(__cudaLaunchKernel, cudaLaunchKernel);
VS_ALIAS(__cudaLaunchKernel_ptsz, cudaLaunchKernel);

/* cudaLaunchConfig_t; the attributes behind it are not looked at. */
struct launch_config {
	struct vs_dim3 grid, block;
	size_t shared;
	void *stream;
	void *attributes;
	unsigned int count;
};

VS_API int cudaLaunchKernelExC(const struct launch_config *config, const void *function, void **arguments)
{
	if (!config)
		return vs_error(CU_INVALID_VALUE);
	vs_readback_launched(function, arguments);
	return vs_error(vs_launch(config->grid, config->block, config->shared, config->stream));
}
VS_ALIAS(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC);

/* A kernel's own code is never looked at, so its needs are unknown: these are a small kernel's. */
VS_API int cudaFuncGetAttributes(struct vs_func_attributes *attributes, const void *function)
{
	int r = attributes && function ? vs_sim_check() : CU_INVALID_VALUE;
	const struct vs_gpu *gpu;

	if (r != CU_OK)
		return vs_error(r);
	gpu = vs_sim_get()->gpu;
	memset(attributes, 0, sizeof(*attributes));
	attributes->max_threads_per_block = VS_KERNEL_THREADS;
	attributes->num_regs = VS_KERNEL_REGISTERS;
	attributes->ptx_version = gpu->major * 10 + gpu->minor;
	attributes->binary_version = attributes->ptx_version;
	attributes->max_dynamic_shared_size_bytes = 48 * 1024;
	attributes->preferred_shmem_carveout = -1;
	return CU_OK;
}

VS_API int cudaFuncSetAttribute(const void *function, int attribute, int value)
{
	const struct vs_sim *sim = vs_sim_get();
	int r = function ? vs_sim_check() : CU_INVALID_VALUE;

	/* cudaFuncAttributeMaxDynamicSharedMemorySize: a kernel may not opt in to more than the card has */
	if (r == CU_OK && attribute == 8 && (value < 0 || value > sim->gpu->shared_optin_kib << 10))
		r = CU_INVALID_VALUE;
	return vs_error(r);
}

VS_API int cudaFuncSetCacheConfig(const void *function, int config)
{
	(void)config;
	return vs_error(function ? vs_sim_check() : CU_INVALID_VALUE);
}
VS_ALIAS(cudaFuncSetSharedMemConfig, cudaFuncSetCacheConfig);

VS_API int cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device)
{
	(void)device;
	return cudaFuncSetAttribute(kernel, attribute, value);
}

int vs_occupancy(int block, size_t shared)
{
	const struct vs_gpu *gpu = vs_sim_get()->gpu;
	int threads = (block + 31) / 32 * 32, fit;

	if (block <= 0 || block > 1024)
		return 0;
	/* The system keeps 1 KiB of shared memory of each block from compute capability 8.0 on. */
	shared += gpu->major >= 8 ? 1024 : 0;
	fit = gpu->threads_sm / threads;
	if (fit > gpu->blocks_sm)
		fit = gpu->blocks_sm;
	if (shared && (size_t)fit > ((size_t)gpu->shared_sm_kib << 10) / shared)
		fit = (int)(((size_t)gpu->shared_sm_kib << 10) / shared);
	if (fit > 65536 / VS_KERNEL_REGISTERS / threads)
		fit = 65536 / VS_KERNEL_REGISTERS / threads;
	return fit;
}

int vs_occupancy_clusters(struct vs_dim3 block, size_t shared)
{
	uint64_t threads = (uint64_t)block.x * block.y * block.z;

	/* Eight multiprocessors a cluster at most, whatever the cluster's size. */
	return vs_sim_get()->gpu->processors / 8 * vs_occupancy(threads > 1024 ? 0 : (int)threads, shared);
}

VS_API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block, size_t shared)
{
	int r = blocks && function ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*blocks = vs_occupancy(block, shared);
	return vs_error(r);
}
/* One argument more, flags about caching: they change nothing here. */
VS_ALIAS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cudaOccupancyMaxActiveBlocksPerMultiprocessor);

VS_API int cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *function, int blocks, int block)
{
	int r = shared && function && blocks > 0 ? vs_sim_check() : CU_INVALID_VALUE;

	(void)block;
	if (r == CU_OK)
		*shared = ((size_t)vs_sim_get()->gpu->shared_sm_kib << 10) / (size_t)blocks;
	return vs_error(r);
}

VS_API int cudaOccupancyMaxPotentialClusterSize(int *size, const void *function, const void *config)
{
	(void)config;
	if (!size || !function)
		return vs_error(CU_INVALID_VALUE);
	*size = 8; /* the portable maximum */
	return vs_error(vs_sim_check());
}

VS_API int cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const struct launch_config *config)
{
	int r = clusters && function && config ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*clusters = vs_occupancy_clusters(config->block, config->shared);
	return vs_error(r);
}
