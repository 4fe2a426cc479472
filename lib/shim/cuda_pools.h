/* SPDX-License-Identifier: MIT
 *
 * Memory pools, and the graphs' memory: what they hold from the card is asked of the driver, never reckoned.
 */
#ifndef VS_SHIM_CUDA_POOLS_H
#define VS_SHIM_CUDA_POOLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cuda_types.h"

struct vs_call;

#define VS_MAX_POOLS 256

/* A pool that was seen. The job may destroy it at any time that no call of its own is in it, so ours must not be in
 * it either: whoever asks counts itself as a reader first, and looks at the state then. */
struct vs_pool {
	_Atomic uint64_t handle;
	_Atomic uint64_t held; /* bytes, as last recorded */
	_Atomic uint32_t readers;
	_Atomic uint32_t state; /* VS_POOL_* */
	_Atomic int16_t device; /* -1: host memory */
};

enum { VS_POOL_NONE, VS_POOL_LIVE, VS_POOL_ENDS };

struct vs_pools { /* of a process; all zero to begin with */
	struct vs_pool pools[VS_MAX_POOLS];
	_Atomic uint32_t count; /* places ever used */
	_Atomic bool adding;
	_Atomic uint64_t graph_devices; /* bit n: graphs may have memory on device n */
	_Atomic uint64_t graphs_held[64];
};

/* Whether a pool was ever seen. */
bool vs_pools_in_use(void);
/* The primary context of a device is gone, and with it what its pools and graphs had. */
void vs_pools_forget(struct vs_pools *pools, int device);

/* An allocation was recorded that may have changed a pool, or, NULL, all of them: now the trace adds up again. */
void vs_call_complete(struct vs_call *call, struct vs_pool *pool);

/* The parts of rows (cuda_hooks.h). */
void vs_call_pool_allocated(struct vs_call *call, uint64_t address, uint64_t size, void *stream);
void vs_call_linear_freed(struct vs_call *call);
void vs_call_pool_made(struct vs_call *call, uint64_t pool, const struct vs_cuda_pool_props *props);
void vs_call_pool_imported(struct vs_call *call, uint64_t pool);
void vs_call_pool_ends(struct vs_call *call, uint64_t pool);
void vs_call_pool_ended(struct vs_call *call, uint64_t pool);
void vs_call_pools_changed(struct vs_call *call);
void vs_call_graph_node(struct vs_call *call, const struct vs_cuda_alloc_node *node);
void vs_call_graph_any_node(struct vs_call *call, const struct vs_cuda_node *node);
void vs_call_graphs_changed(struct vs_call *call);

#endif
