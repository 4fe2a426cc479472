/* SPDX-License-Identifier: MIT */
#include "shim/queries.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "shim/real.h"

enum query { POINTER, POOL, GRAPHS, CAPTURING, PRIMARY, CONTEXT, QUERIES };

static const char *const names[QUERIES] = {
    [POINTER] = "cuPointerGetAttribute",       [POOL] = "cuMemPoolGetAttribute",
    [GRAPHS] = "cuDeviceGetGraphMemAttribute", [CAPTURING] = "cuStreamIsCapturing",
    [PRIMARY] = "cuDevicePrimaryCtxGetState",  [CONTEXT] = "cuCtxGetCurrent",
};

/* CUDA's numbers, cuda.h: CU_POINTER_ATTRIBUTE_*, CU_MEMPOOL_ATTR_*, CU_GRAPH_MEM_ATTR_*, CU_STREAM_CAPTURE_STATUS_*.
 */
enum {
	POINTER_DEVICE_ORDINAL = 9,
	POINTER_MEMPOOL_HANDLE = 17,
	POOL_RESERVED_CURRENT = 5,
	GRAPH_RESERVED_CURRENT = 2,
	CAPTURE_ACTIVE = 1,
};

/* Whoever asks is inside a call of CUDA's, so the driver is loaded: "not there" is remembered as this mark's address.
 */
static char absent;

static void *find(enum query which)
{
	static _Atomic(void *) found[QUERIES];
	void *function = atomic_load_explicit(&found[which], memory_order_acquire);

	if (!function) {
		bool settled;

		function = vs_real_symbol(VS_API_DRIVER, names[which], &settled);
		if (!settled)
			return function;
		if (!function)
			function = &absent;
		atomic_store_explicit(&found[which], function, memory_order_release);
	}
	return function == &absent ? NULL : function;
}

/* The three kinds of question that are asked here. */
static int ask_about(enum query which, uint64_t object, int attribute, void *value)
{
	int (*get)(uint64_t, int, void *) = find(which);
	int saved = errno, result = get ? get(object, attribute, value) : -1;

	errno = saved;
	return result ? -1 : 0;
}

int vs_query_pool_of(uint64_t address, uint64_t *ret_pool, int *ret_device)
{
	int (*get)(void *, int, uint64_t) = find(POINTER);
	int saved = errno, result = -1, device = -1;
	uint64_t pool = 0;

	if (get)
		result = get(&pool, POINTER_MEMPOOL_HANDLE, address);
	if (!result)
		result = get(&device, POINTER_DEVICE_ORDINAL, address);
	errno = saved;
	if (result || !pool)
		return -1;
	*ret_pool = pool;
	*ret_device = device;
	return 0;
}

int vs_query_pool_held(uint64_t pool, uint64_t *ret_bytes)
{
	return ask_about(POOL, pool, POOL_RESERVED_CURRENT, ret_bytes);
}

int vs_query_graphs_held(int device, uint64_t *ret_bytes)
{
	/* A device is an int, and passed in the same register. */
	return ask_about(GRAPHS, (uint64_t)device, GRAPH_RESERVED_CURRENT, ret_bytes);
}

int vs_query_capturing(void *stream, int *ret_capturing)
{
	int (*get)(void *, int *) = find(CAPTURING);
	int saved = errno, status = 0, result = get ? get(stream, &status) : -1;

	errno = saved;
	*ret_capturing = status == CAPTURE_ACTIVE;
	return result ? -1 : 0;
}

int vs_query_primary(int device, int *ret_active)
{
	int (*get)(int, unsigned int *, int *) = find(PRIMARY);
	unsigned int flags;
	int saved = errno, result = get ? get(device, &flags, ret_active) : -1;

	errno = saved;
	return result ? -1 : 0;
}

int vs_query_context(uint64_t *ret_context)
{
	int (*get)(void **) = find(CONTEXT);
	void *context = NULL;
	int saved = errno, result = get ? get(&context) : -1;

	errno = saved;
	*ret_context = (uintptr_t)context;
	return result ? -1 : 0;
}
