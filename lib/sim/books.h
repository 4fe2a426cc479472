/* SPDX-License-Identifier: MIT
 *
 * The books of the simulated device: who holds which bytes of which card, and
 * what every pointer is. Every function takes the one lock itself, may be
 * called from any thread and answers with CUDA's own codes (enum
 * vs_cuda_error). Out-parameters are written on success only.
 */
#ifndef VS_SIM_BOOKS_H
#define VS_SIM_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/texels.h"
#include "sim/cuda_api.h"

#define VS_DEVICES 64 /* cards in one process at most; torch's own limit is 128, a server holds 16 */

/* What a pointer is. */
struct vs_allocation {
	enum vs_memory_type type;
	int device;       /* the card it is on, or whose context made it */
	uint64_t address; /* first byte */
	uint64_t size;    /* bytes asked for */
	bool registered;  /* cudaHostRegister: the job's own memory */
};

/* Describe card `device`: its capacity and what one context takes, in bytes. Once, before anything else. */
void vs_books_open(int device, uint64_t total, uint64_t context_bytes);
void vs_books_close(void); /* tests: forget everything */

/* What others hold on a card, whose capacity is shared: told how much this process holds, or is about to, and asked
 * with the books' lock held. NULL: nobody. Set before anything is taken. */
void vs_books_others(uint64_t (*others)(int device, uint64_t used));

/* Around a fork, in both processes: the child must not find the lock held by a thread that it does not have. */
void vs_books_hold(void);
void vs_books_let(void);

/* A context appears on the card (or goes): it takes its bytes. CU_OUT_OF_MEMORY when they are not there. */
int vs_books_context(int device, bool present);

/* An allocation was made in a context that the job made (0: in a primary one); the end of such a context, which gives
 * everything back that was made in it. */
void vs_books_own(uint64_t address, uint32_t context);
void vs_books_end_context(uint32_t context);

/* cudaDeviceReset: what was allocated in the primary context is gone, and what pools and graphs have on the card. */
void vs_books_reset(int device);

void vs_books_info(int device, uint64_t *ret_free, uint64_t *ret_total);
uint64_t vs_books_used(int device); /* bytes this process holds, contexts included */
uint64_t vs_books_high(int device); /* the most of it since the start or the last vs_books_lower() */
void vs_books_lower(int device);

/* cudaMalloc and cudaFree. Below 1 MiB requests share granules; see slab.h. */
int vs_books_malloc(int device, uint64_t size, uint64_t *ret_address);
int vs_books_free(uint64_t address);

/* cudaHostAlloc (real, page-aligned memory), cudaMallocManaged (the same, zero until touched). */
int vs_books_host_alloc(int device, uint64_t size, bool managed, uint64_t *ret_address);
int vs_books_host_free(uint64_t address, bool managed);
int vs_books_host_register(int device, uint64_t address, uint64_t size);
int vs_books_host_unregister(uint64_t address);

/* Another process's memory (IPC): address space here, no bytes. */
int vs_books_foreign_open(int device, uint64_t size, uint64_t *ret_address);
int vs_books_foreign_close(uint64_t address);
/* The same for what vs_books_free() ends. */
int vs_books_external(int device, uint64_t size, uint64_t *ret_address);

/* Addresses for variables of device code; their bytes are the context's. */
int vs_books_code(int device, uint64_t size, uint64_t *ret_address);

/* Arrays and mipmaps, known by their handle. `foreign`: of memory that is counted elsewhere. */
int vs_array_new(int device, const struct vs_texels *texels, bool foreign, uint64_t *ret_handle);
int vs_array_free(uint64_t handle);
int vs_array_texels(uint64_t handle, struct vs_texels *ret_texels);

/* What holds `address`; CU_INVALID_VALUE when nothing of ours does. */
int vs_books_find(uint64_t address, struct vs_allocation *ret_allocation);

/*
 * Virtual memory management (cuMemCreate and its kin). A physical handle holds
 * its bytes until it is released as often as it was created or retained and
 * unmapped everywhere. `device` -1: memory of the host, no bytes of a card.
 */
int vs_books_create(int device, uint64_t size, uint64_t *ret_handle);
int vs_books_release(uint64_t handle);
int vs_books_retain(uint64_t address, uint64_t *ret_handle);
int vs_books_handle(uint64_t handle, int *ret_device, uint64_t *ret_size);
int vs_books_reserve(uint64_t size, uint64_t *ret_address);
int vs_books_unreserve(uint64_t address, uint64_t size);
int vs_books_map(uint64_t address, uint64_t size, uint64_t handle);
int vs_books_unmap(uint64_t address, uint64_t size);
int vs_books_set_access(uint64_t address, uint64_t size);

#endif
