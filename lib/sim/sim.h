/* SPDX-License-Identifier: MIT
 *
 * State of the simulated device in this process, and what every API family
 * shares: configuration, current device, last error, contexts.
 */
#ifndef VS_SIM_SIM_H
#define VS_SIM_SIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/books.h"
#include "sim/cuda_api.h"
#include "sim/gpus.h"

/* One export under another name: the per-thread-default-stream twins, older and newer spellings of one ABI. */
#if defined(__has_attribute) && __has_attribute(copy)
#define VS_COPY_ATTRIBUTES(name) , copy(name)
#else
#define VS_COPY_ATTRIBUTES(name)
#endif
#define VS_ALIAS(alias_name, name)                                                                                   \
	VS_API extern __typeof__(name) alias_name __attribute__((alias(#name) VS_COPY_ATTRIBUTES(name)))

struct vs_sim {
	const struct vs_gpu *gpu;
	uint64_t total;           /* bytes a card: VRAMSIM_MEMORY or the row's */
	int installed;            /* VRAMSIM_COUNT: what NVML sees */
	int visible;              /* after CUDA_VISIBLE_DEVICES: what CUDA sees */
	int physical[VS_DEVICES]; /* installed index of a visible device */
};

/* A context: the primary one of a device, or one the job made. Its address is the handle. */
struct vs_context {
	int device;
	bool primary;
	_Atomic bool active; /* its bytes are on the books */
	_Atomic bool
	    implicit; /* primary: by something else than cuDevicePrimaryCtxRetain, which nothing ends but a reset */
	unsigned int retained; /* primary: how often; others: by cuCtxAttach */
	uint32_t id;           /* of one that the job made; 0: primary */
	unsigned int flags;
};

/*
 * The configuration, read from the environment on first use. NULL when no
 * device is simulated (one line on stderr says why).
 */
const struct vs_sim *vs_sim_get(void);

/*
 * What every entry that needs a device asks first. CU_OK, CU_NO_DEVICE, or
 * CU_NOT_INITIALIZED in a child that was forked after its parent used CUDA.
 */
int vs_sim_check(void);

/* vs_sim_check() and `device` exists: else CU_INVALID_DEVICE. */
int vs_sim_check_device(int device);

/* ... and its primary context is on the books: what cudaSetDevice does. */
int vs_sim_activate_primary(int device);

/* ... or one that the job made and the calling thread works in: what a first cudaMalloc does. */
int vs_sim_activate(int device);
int vs_sim_activate_current(void); /* ... of the calling thread's device */

/* cuDevicePrimaryCtxRetain and its release, by which the context may go. */
int vs_sim_retain(int device);
int vs_sim_release(int device);

/* Whether the job ever made a context (driver_device.c). */
bool vs_sim_contexts_made(void);

/* After an allocating call whose result is `r`: the thread's context has it. Returns `r`. */
int vs_sim_own(int r, uint64_t address);

bool vs_sim_is_active(int device);
struct vs_context *vs_sim_primary(int device);
void vs_sim_deactivate(int device); /* cudaDeviceReset: the context's bytes go, and the allocations on it */

/* The calling thread's device and, for the driver API, its explicitly set context (NULL: the primary one). */
int vs_thread_device(void);
void vs_thread_set_device(int device);
struct vs_context *vs_thread_context(void);
void vs_thread_set_context(struct vs_context *context);

/* The runtime's last error of this thread. vs_error() records a failure and returns it. */
int vs_error(int error);
int vs_last_error(bool clear);

/* Bytes of one context on `device`; also what the recorder reads. */
VS_API uint64_t vramsim_context_bytes(int device);

/* Device attribute by CUDA's number (cudaDeviceAttr and CUdevice_attribute agree). CU_INVALID_VALUE: no such. */
int vs_attribute(int attribute, int device, int *ret_value);

/* Of an installed card: its identity, the same as "GPU-...", and its PCI bus number. */
void vs_gpu_uuid(int installed, struct vs_uuid *ret_uuid);
#define VS_UUID_TEXT 41 /* bytes, with the final 0 */
void vs_gpu_uuid_text(int installed, char ret_text[VS_UUID_TEXT]);
int vs_gpu_bus(int installed);

/* Versions as CUDA counts them: 1000 * major + 10 * minor. */
#define VS_DRIVER_VERSION 13020

/* Says that a device is simulated; in this library, whose path it tells. */
extern const int vramsim_active;

/* The dlopen() behind ours: CUDA's libraries themselves, by their names. */
void *(*vs_dlopen_next(void))(const char *, int);

/* `symbol` in the first loaded library of the NULL-ended list, where it is not our own; NULL if there is none. */
void *vs_real(const char *const *sonames, const char *symbol);

/* A driver entry point by the rules of cuGetProcAddress; NULL if there is none of that name or version. */
void *vs_entry_point(const char *name, int version);

/*
 * An entry that is not simulated was called: say its name on stderr, once, and
 * hand back `code`, the library's own "not supported".
 */
int vs_unsupported(atomic_flag *said, const char *name, int code);

/* What cudaMemcpy and its kin do with host memory; see copy.c. */
void vs_copy(void *to, const void *from, size_t size, int kind);
void vs_set(void *to, int value, size_t size);

#endif
