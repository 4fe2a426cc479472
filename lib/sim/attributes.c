/* SPDX-License-Identifier: MIT
 *
 * Device attributes: what the chosen GPU's row says, and for the rest the
 * values of the CUDA C++ Programming Guide's table "Technical Specifications
 * per Compute Capability" (the same for every supported capability).
 */
#include "sim/sim.h"

static int from_row(const struct vs_gpu *gpu, int attribute, int *ret_value)
{
	switch (attribute) {
	case 13: /* clock rate, kHz */
		*ret_value = (int)gpu->clock_mhz * 1000;
		return CU_OK;
	case 16: /* multiprocessors */
		*ret_value = gpu->processors;
		return CU_OK;
	case 32: /* ECC */
		*ret_value = gpu->ecc;
		return CU_OK;
	case 36: /* memory clock, kHz */
		*ret_value = (int)gpu->memory_clock_mhz * 1000;
		return CU_OK;
	case 37: /* memory bus, bits */
		*ret_value = gpu->bus_bits;
		return CU_OK;
	case 38: /* L2, bytes */
		*ret_value = (int)gpu->l2_kib * 1024;
		return CU_OK;
	case 39: /* threads per multiprocessor */
		*ret_value = gpu->threads_sm;
		return CU_OK;
	case 75:
		*ret_value = gpu->major;
		return CU_OK;
	case 76:
		*ret_value = gpu->minor;
		return CU_OK;
	case 81: /* shared memory per multiprocessor, bytes */
		*ret_value = gpu->shared_sm_kib * 1024;
		return CU_OK;
	case 97: /* shared memory per block, opt-in, bytes */
		*ret_value = gpu->shared_optin_kib * 1024;
		return CU_OK;
	case 106: /* blocks per multiprocessor */
		*ret_value = gpu->blocks_sm;
		return CU_OK;
	case 139: /* PCI device and vendor */
		*ret_value = (int)((uint32_t)gpu->pci_id << 16 | 0x10de);
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

/* Capabilities that came with a generation. */
static int from_generation(const struct vs_gpu *gpu, int attribute, int *ret_value)
{
	switch (attribute) {
	case 87: /* float to double speed: 2 on the data-centre parts */
		*ret_value = gpu->minor == 0 && gpu->major <= 9 ? 2
		             : gpu->major == 10                 ? 2
		             : gpu->major == 12                 ? 64
		                                                : 32;
		return CU_OK;
	case 107: /* compression */
		*ret_value = gpu->major >= 8;
		return CU_OK;
	case 108: /* L2 that can be set aside: 3/4 of it from Ampere on */
		*ret_value = gpu->major >= 8 ? (int)(gpu->l2_kib * 1024 / 4 * 3) : 0;
		return CU_OK;
	case 109: /* access policy window, bytes */
		*ret_value = gpu->major >= 8 ? 128 << 20 : 0;
		return CU_OK;
	case 111: /* shared memory the system keeps of each block, bytes */
		*ret_value = gpu->major >= 8 ? 1024 : 0;
		return CU_OK;
	case 120: /* clusters */
	case 127: /* tensor maps */
		*ret_value = gpu->major >= 9;
		return CU_OK;
	case 126: /* memory synchronisation domains */
		*ret_value = gpu->major >= 9 ? 4 : 1;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

struct constant {
	int attribute;
	int value;
};

static const struct constant constants[] = {
    {1, 1024},                                  /* threads per block */
    {2, 1024},                                  /* block x */
    {3, 1024},                                  /* block y */
    {4, 64},                                    /* block z */
    {5, 2147483647},                            /* grid x */
    {6, 65535},                                 /* grid y */
    {7, 65535},                                 /* grid z */
    {8, 49152},                                 /* shared memory per block, bytes */
    {9, 65536},                                 /* constant memory, bytes */
    {10, 32},                                   /* warp */
    {11, 2147483647},                           /* pitch */
    {12, 65536},                                /* registers per block */
    {14, 512},                                  /* texture alignment */
    {15, 1},                                    /* copy and execute at once */
    {17, 0},                                    /* kernel timeout */
    {18, 0},                                    /* integrated */
    {19, 1},                                    /* maps host memory */
    {20, 0},                                    /* compute mode: default */
    {21, 131072},                               /* texture 1D */
    {22, 131072},                               /* texture 2D width */
    {23, 65536},                                /* ... height */
    {24, 16384},                                /* texture 3D */
    {25, 16384},      {26, 16384}, {27, 32768}, /* texture 2D layered */
    {28, 32768},      {29, 2048},  {30, 512},   /* surface alignment */
    {31, 1},                                    /* concurrent kernels */
    {34, 0},                                    /* PCI device */
    {35, 0},                                    /* TCC */
    {40, 3},                                    /* copy engines */
    {41, 1},                                    /* unified addresses */
    {42, 32768},      {43, 2048},  {44, 1},         {45, 32768},  {46, 32768},
    {47, 8192},       {48, 8192},  {49, 32768},     {50, 0}, /* PCI domain */
    {51, 32},                                                /* texture pitch alignment */
    {52, 32768},      {53, 32768}, {54, 2046},      {55, 32768},  {56, 131072},
    {57, 65536},      {58, 16384}, {59, 16384},     {60, 16384},  {61, 32768},
    {62, 2048},       {63, 32768}, {64, 32768},     {65, 2048},   {66, 32768},
    {67, 32768},      {68, 2046},  {69, 268435456}, {70, 131072}, {71, 65000},
    {72, 2097120},    {73, 32768}, {74, 32768},     {77, 32768},  {78, 1}, /* stream priorities */
    {79, 1},                                                               /* L1 caches globals */
    {80, 1},                                                               /* ... locals */
    {82, 65536},                                                           /* registers per multiprocessor */
    {83, 1},                                                               /* managed memory */
    {84, 0},                                                               /* multi-GPU board */
    {85, 0},          {86, 0},                                             /* native host atomics */
    {88, 0},                                                               /* pageable memory access */
    {89, 1},                                                               /* concurrent managed access */
    {90, 1},                                                               /* compute preemption */
    {91, 1},                                                               /* host pointers of registered memory */
    {92, 0},          {93, 0},     {94, 0},         {95, 1},               /* cooperative launch */
    {96, 1},          {98, 0},     {99, 1},                                /* host registration */
    {100, 0},         {101, 0},    {102, 1},                               /* virtual memory management */
    {103, 1},                                                              /* handles as file descriptors */
    {104, 0},         {105, 0},    {110, 0},        {112, 1},     {113, 1},
    {114, 1},         {115, 1},                               /* memory pools */
    {116, 0},         {117, 0},    {118, 0},        {119, 1}, /* pool handles: file descriptors */
    {121, 1},         {122, 1},    {123, 1},        {124, 0}, /* DMA-BUF */
    {125, 1},                                                 /* IPC events */
    {128, 0},                                                 /* fabric handles */
    {129, 0},         {130, 0},    {131, -1},       {132, 0}, /* multicast */
    {133, 0},         {134, -1},   {135, 0},        {136, 0},     {137, 0},
    {138, 0},         {140, 0},    {141, 0},        {142, 0},     {143, 0},
    {144, 0},         {145, 0},    {146, 0},        {147, 0},
};

int vs_attribute(int attribute, int device, int *ret_value)
{
	const struct vs_sim *sim = vs_sim_get();

	if (attribute == 33) { /* PCI bus */
		*ret_value = vs_gpu_bus(sim->physical[device]);
		return CU_OK;
	}
	if (from_row(sim->gpu, attribute, ret_value) == CU_OK)
		return CU_OK;
	if (from_generation(sim->gpu, attribute, ret_value) == CU_OK)
		return CU_OK;
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		if (constants[i].attribute == attribute) {
			*ret_value = constants[i].value;
			return CU_OK;
		}
	}
	return CU_INVALID_VALUE;
}
