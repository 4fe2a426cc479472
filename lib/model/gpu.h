/* SPDX-License-Identifier: MIT
 *
 * GPUs a plan can be for: the table of the simulated device, as far as memory is concerned.
 */
#ifndef VS_MODEL_GPU_H
#define VS_MODEL_GPU_H

#include <stddef.h>
#include <stdint.h>

struct vs_gpu_memory {
	const char *key, *name;
	uint64_t total;              /* bytes, as cudaMemGetInfo tells */
	uint64_t context;            /* bytes; assumed, it depends on driver and libraries */
	uint32_t compute_capability; /* 80: 8.0 */
	uint32_t multiprocessors, threads_per_sm;
};

/* -ENOENT. Letters and digits count, case and punctuation do not. */
int vs_gpu_memory_find(const char *name, struct vs_gpu_memory *ret_gpu);
/* Its key, NULL past the last. */
const char *vs_gpu_memory_at(size_t index, struct vs_gpu_memory *ret_gpu);

#endif
