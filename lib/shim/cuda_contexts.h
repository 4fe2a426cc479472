/* SPDX-License-Identifier: MIT
 *
 * Contexts: they take memory themselves, and what is allocated in one goes with it.
 */
#ifndef VS_SHIM_CUDA_CONTEXTS_H
#define VS_SHIM_CUDA_CONTEXTS_H

#include <stdatomic.h>
#include <stdint.h>

struct vs_call;

#define VS_MAX_CONTEXTS 64

struct vs_contexts {                            /* of a process; all zero to begin with */
	_Atomic uint64_t made[VS_MAX_CONTEXTS]; /* by cuCtxCreate; 0: none */
	_Atomic uint32_t uses[VS_MAX_CONTEXTS]; /* ... by cuCtxAttach, less cuCtxDetach: at 0 it ends */
	_Atomic uint32_t made_count;            /* how many ever */
	_Atomic uint64_t primary;               /* bit n: the primary context of device n is in the trace */
};

/* Before something on `device` is recorded: its primary context comes first, if it is there. -1 is no device. */
void vs_contexts_primary_seen(int device);
/* Bit n: the primary context of device n was seen. */
uint64_t vs_contexts_devices(void);
/* The calling thread's context, if the job made it; 0 is the primary one of its device. */
uint64_t vs_contexts_current(void);

/* The parts of rows (cuda_hooks.h). */
void vs_call_context_made(struct vs_call *call, uint64_t context, int device);
void vs_call_context_gone(struct vs_call *call, uint64_t context);
void vs_call_context_attached(struct vs_call *call, uint64_t context);
void vs_call_context_detached(struct vs_call *call, uint64_t context);
/* The primary context may have come or gone. */
void vs_call_primary(struct vs_call *call, int device);
/* After a call that asks for nothing itself, such as cudaFree(0): only a context can have been refused. */
void vs_call_first(struct vs_call *call);
/* cudaDeviceReset: it is gone, if the call worked. The device is the one that was current before. */
void vs_call_reset_begins(struct vs_call *call);
void vs_call_reset(struct vs_call *call);

#endif
