/* SPDX-License-Identifier: MIT
 *
 * The GPUs that can be simulated: one row of gpus.def each.
 */
#ifndef VS_SIM_GPUS_H
#define VS_SIM_GPUS_H

#include <stddef.h>
#include <stdint.h>

struct vs_gpu {
	const char *key;      /* what VRAMSIM_GPU names */
	const char *name;     /* cudaDeviceProp.name */
	uint32_t memory_mib;  /* cudaMemGetInfo total */
	uint32_t context_kib; /* assumed size of one CUDA context */
	uint8_t major, minor; /* compute capability */
	uint16_t processors;  /* streaming multiprocessors */
	uint32_t l2_kib;
	uint16_t shared_sm_kib;    /* shared memory per multiprocessor */
	uint16_t shared_optin_kib; /* ... per block, opt-in */
	uint16_t threads_sm;       /* resident threads per multiprocessor */
	uint8_t blocks_sm;         /* resident blocks per multiprocessor */
	uint16_t bus_bits;
	uint32_t clock_mhz; /* boost */
	uint32_t memory_clock_mhz;
	uint8_t ecc;
	uint16_t pci_id; /* PCI device id; vendor is 0x10de */
};

/* The row called `key`, whatever its case; NULL if there is none. */
const struct vs_gpu *vs_gpu_find(const char *key);

/* Row `index`, NULL past the end. */
const struct vs_gpu *vs_gpu_at(size_t index);

#endif
