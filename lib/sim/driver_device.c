/* SPDX-License-Identifier: MIT
 *
 * CUDA driver: initialisation, devices, contexts.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/pool.h"
#include "sim/sim.h"

VS_API int cuInit(unsigned int flags)
{
	return flags ? CU_INVALID_VALUE : vs_sim_check();
}

VS_API int cuDriverGetVersion(int *version)
{
	if (!version)
		return CU_INVALID_VALUE;
	*version = VS_DRIVER_VERSION;
	return CU_OK;
}

VS_API int cuDeviceGetCount(int *count)
{
	int r = count ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*count = vs_sim_get()->visible;
	return r;
}

VS_API int cuDeviceGet(int *device, int ordinal)
{
	int r = device ? vs_sim_check_device(ordinal) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*device = ordinal;
	return r;
}

VS_API int cuDeviceGetName(char *name, int length, int device)
{
	int r = name && length > 0 ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		snprintf(name, (size_t)length, "%s", vs_sim_get()->gpu->name);
	return r;
}

VS_API int cuDeviceGetUuid(struct vs_uuid *uuid, int device)
{
	int r = uuid ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		vs_gpu_uuid(vs_sim_get()->physical[device], uuid);
	return r;
}
VS_ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid);

VS_API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	int r = bytes ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*bytes = vs_sim_get()->total;
	return r;
}

VS_API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	int r = value ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	return r == CU_OK ? vs_attribute(attribute, device, value) : r;
}

VS_API int cuDeviceComputeCapability(int *major, int *minor, int device)
{
	int r = cuDeviceGetAttribute(major, 75, device);

	return r == CU_OK ? cuDeviceGetAttribute(minor, 76, device) : r;
}

VS_API int cuDeviceGetPCIBusId(char *text, int length, int device)
{
	int r = text ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK && snprintf(text, (size_t)length, "0000:%02X:00.0",
	                           (unsigned int)vs_gpu_bus(vs_sim_get()->physical[device])) >= length)
		r = CU_INVALID_VALUE;
	return r;
}

VS_API int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	int r = can ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_sim_check_device(peer);
	if (r == CU_OK)
		*can = device != peer;
	return r;
}

VS_API int cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer)
{
	int r = value ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_sim_check_device(peer);
	if (r == CU_OK)
		*value = attribute != 1; /* performance rank 0: the best */
	return r;
}

VS_API int cuDevicePrimaryCtxRetain(struct vs_context **context, int device)
{
	int r = context ? vs_sim_retain(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		*context = vs_sim_primary(device);
	return r;
}

VS_API int cuDevicePrimaryCtxRelease_v2(int device)
{
	return vs_sim_release(device);
}
VS_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

VS_API int cuDevicePrimaryCtxReset_v2(int device)
{
	int r = vs_sim_check_device(device);

	if (r == CU_OK)
		vs_sim_deactivate(device);
	return r;
}
VS_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

VS_API int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned int flags)
{
	int r = vs_sim_check_device(device);

	if (r == CU_OK)
		vs_sim_primary(device)->flags = flags;
	return r;
}
VS_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

VS_API int cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *is_active)
{
	int r = flags && is_active ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK) {
		*flags = vs_sim_primary(device)->flags;
		*is_active = vs_sim_is_active(device);
	}
	return r;
}

/* Contexts that the job made. Dead ones stay: a handle that is used too long gets an error, not a crash. */
static struct made {
	struct vs_context context;
	struct made *next;
} * made;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t made_count;

bool vs_sim_contexts_made(void)
{
	return made_count != 0;
}

static bool is_context(const struct vs_context *context)
{
	bool found = false;

	for (int i = 0; i < VS_DEVICES; i++)
		if (context == vs_sim_primary(i))
			return true;
	pthread_mutex_lock(&made_lock);
	for (struct made *m = made; m && !found; m = m->next)
		found = context == &m->context && m->context.active;
	pthread_mutex_unlock(&made_lock);
	return found;
}

VS_API int cuCtxGetCurrent(struct vs_context **context)
{
	int r = context ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*context = vs_thread_context();
	return r;
}

VS_API int cuCtxSetCurrent(struct vs_context *context)
{
	int r = !context || is_context(context) ? vs_sim_check() : CU_INVALID_CONTEXT;

	if (r == CU_OK)
		vs_thread_set_context(context);
	return r;
}

static __thread struct {
	struct vs_context *context; /* NULL: none was there */
	int device;
} stack[16];
static __thread unsigned int depth;

static int push(struct vs_context *context)
{
	if (!context || !is_context(context))
		return CU_INVALID_CONTEXT;
	if (depth == sizeof(stack) / sizeof(stack[0]))
		return CU_OUT_OF_MEMORY;
	stack[depth].context = vs_thread_context();
	stack[depth++].device = vs_thread_device();
	vs_thread_set_context(context);
	return CU_OK;
}

VS_API int cuCtxPushCurrent_v2(struct vs_context *context)
{
	return push(context);
}
VS_ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2);

static int pop(struct vs_context **context)
{
	struct vs_context *popped = vs_thread_context();

	if (!popped)
		return CU_INVALID_CONTEXT;
	if (context)
		*context = popped;
	if (!depth) {
		vs_thread_set_context(NULL);
		return CU_OK;
	}
	depth--;
	vs_thread_set_device(stack[depth].device);
	if (stack[depth].context)
		vs_thread_set_context(stack[depth].context);
	return CU_OK;
}

VS_API int cuCtxPopCurrent_v2(struct vs_context **context)
{
	return pop(context);
}
VS_ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2);

static int create(struct vs_context **context, unsigned int flags, int device)
{
	struct made *fresh;
	int r = context ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r != CU_OK)
		return r;
	fresh = calloc(1, sizeof(*fresh));
	r = fresh ? vs_books_context(device, true) : CU_OUT_OF_MEMORY;
	if (r != CU_OK) {
		free(fresh);
		return r;
	}
	fresh->context.device = device;
	fresh->context.active = true;
	fresh->context.flags = flags;
	pthread_mutex_lock(&made_lock);
	fresh->context.id = ++made_count;
	fresh->next = made;
	made = fresh;
	pthread_mutex_unlock(&made_lock);
	*context = &fresh->context;
	return push(&fresh->context);
}

VS_API int cuCtxCreate_v2(struct vs_context **context, unsigned int flags, int device)
{
	return create(context, flags, device);
}

VS_ALIAS(cuCtxCreate, cuCtxCreate_v2);

/* v3 and v4 have the parameters of affinity, which the books do not need, between context and flags. */
VS_API int cuCtxCreate_v3(struct vs_context **context, void *affinity, int count, unsigned int flags, int device)
{
	(void)affinity;
	(void)count;
	return create(context, flags, device);
}

VS_API int cuCtxCreate_v4(struct vs_context **context, void *parameters, unsigned int flags, int device)
{
	(void)parameters;
	return create(context, flags, device);
}

VS_API int cuCtxDestroy_v2(struct vs_context *context)
{
	if (!context || !is_context(context) || context->primary)
		return CU_INVALID_CONTEXT;
	if (vs_thread_context() == context)
		pop(NULL);
	context->active = false;
	vs_books_end_context(context->id);
	vs_books_context(context->device, false);
	return CU_OK;
}
VS_ALIAS(cuCtxDestroy, cuCtxDestroy_v2);

/* A thread's only: whoever attaches and detaches a context at once by several does so at its own risk on a card, too.
 */
VS_API int cuCtxAttach(struct vs_context **context, unsigned int flags)
{
	struct vs_context *current = vs_thread_context();

	if (!context || flags)
		return CU_INVALID_VALUE;
	if (!current)
		return CU_INVALID_CONTEXT;
	if (!current->primary)
		current->retained++;
	*context = current;
	return CU_OK;
}

VS_API int cuCtxDetach(struct vs_context *context)
{
	if (!context || context != vs_thread_context() || context->primary)
		return CU_INVALID_CONTEXT;
	if (!context->retained)
		return cuCtxDestroy_v2(context);
	context->retained--;
	return CU_OK;
}

VS_API int cuCtxGetDevice(int *device)
{
	struct vs_context *context = vs_thread_context();

	if (!device)
		return CU_INVALID_VALUE;
	if (!context)
		return CU_INVALID_CONTEXT;
	*device = context->device;
	return CU_OK;
}

VS_API int cuCtxGetDevice_v2(int *device, struct vs_context *context)
{
	if (!context)
		return cuCtxGetDevice(device);
	*device = context->device;
	return CU_OK;
}

VS_API int cuCtxGetFlags(unsigned int *flags)
{
	struct vs_context *context = vs_thread_context();

	if (!context)
		return CU_INVALID_CONTEXT;
	*flags = context->flags;
	return CU_OK;
}

VS_API int cuCtxGetId(struct vs_context *context, unsigned long long *id)
{
	*id = (uintptr_t)(context ? context : vs_thread_context());
	return CU_OK;
}

VS_API int cuCtxGetApiVersion(struct vs_context *context, unsigned int *version)
{
	(void)context;
	*version = VS_DRIVER_VERSION;
	return CU_OK;
}

VS_API int cuCtxSynchronize(void)
{
	vs_pool_settle();
	return vs_thread_context() ? CU_OK : CU_INVALID_CONTEXT;
}
VS_ALIAS(cuCtxSynchronize_v2, cuCtxSynchronize);

VS_API int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CU_OK;
}

VS_API int cuCtxEnablePeerAccess(struct vs_context *peer, unsigned int flags)
{
	(void)flags;
	return peer ? CU_OK : CU_INVALID_CONTEXT;
}

VS_API int cuCtxDisablePeerAccess(struct vs_context *peer)
{
	return peer ? CU_OK : CU_INVALID_CONTEXT;
}

VS_API int cuCtxSetLimit(int limit, size_t value)
{
	(void)limit;
	(void)value;
	return vs_sim_check();
}

VS_API int cuCtxSetCacheConfig(int config)
{
	(void)config;
	return vs_sim_check();
}

VS_API int cuProfilerStart(void)
{
	return CU_OK;
}

VS_API int cuProfilerStop(void)
{
	return CU_OK;
}

/* Nothing is logged, so a callback is never called. */
VS_API int cuLogsRegisterCallback(void *function, void *data, void **ret_handle)
{
	(void)data;
	if (!function)
		return CU_INVALID_VALUE;
	if (ret_handle)
		*ret_handle = function;
	return CU_OK;
}

VS_API int cuLogsUnregisterCallback(void *handle)
{
	return handle ? CU_OK : CU_INVALID_VALUE;
}
