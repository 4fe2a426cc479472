/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime: devices, versions, errors, limits.
 */
#include <stdio.h>
#include <string.h>

#include "sim/pool.h"
#include "sim/properties.h"
#include "sim/sim.h"

VS_API int cudaGetDeviceCount(int *count)
{
	int r = vs_sim_check();

	if (!count)
		return vs_error(CU_INVALID_VALUE);
	*count = r == CU_OK ? vs_sim_get()->visible : 0;
	return vs_error(r);
}

VS_API int cudaGetDevice(int *device)
{
	int r = vs_sim_check();

	if (!device)
		return vs_error(CU_INVALID_VALUE);
	if (r == CU_OK)
		*device = vs_thread_device();
	return vs_error(r);
}

VS_API int cudaSetDevice(int device)
{
	/* Since CUDA 12 this makes the primary context as well. */
	int r = vs_sim_activate_primary(device);

	if (r == CU_OK)
		vs_thread_set_device(device);
	return vs_error(r);
}

VS_API int cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	(void)device_flags;
	(void)flags;
	return vs_error(vs_sim_activate_primary(device));
}

VS_API int cudaSetDeviceFlags(unsigned int flags)
{
	int r = vs_sim_check();

	if (r == CU_OK)
		vs_sim_primary(vs_thread_device())->flags = flags;
	return vs_error(r);
}

VS_API int cudaGetDeviceFlags(unsigned int *flags)
{
	int r = flags ? vs_sim_check() : CU_INVALID_VALUE;

	if (r == CU_OK)
		*flags = vs_sim_primary(vs_thread_device())->flags;
	return vs_error(r);
}

VS_API int cudaSetValidDevices(int *devices, int count)
{
	(void)devices;
	(void)count;
	return vs_error(vs_sim_check());
}

VS_API int cudaChooseDevice(int *device, const void *properties)
{
	int r = device ? vs_sim_check() : CU_INVALID_VALUE;

	(void)properties; /* the cards are all alike */
	if (r == CU_OK)
		*device = 0;
	return vs_error(r);
}

VS_API int cudaGetDeviceProperties_v2(struct vs_properties_12 *properties, int device)
{
	int r = properties ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		vs_properties_12(device, properties);
	return vs_error(r);
}

VS_API int cudaGetDeviceProperties(struct vs_properties_13 *properties, int device)
{
	int r = properties ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		vs_properties_13(device, properties);
	return vs_error(r);
}

VS_API int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	int r = value ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_attribute(attribute, device, value);
	return vs_error(r);
}

VS_API int cudaDeviceGetPCIBusId(char *text, int length, int device)
{
	int r = text ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK && snprintf(text, (size_t)length, "0000:%02X:00.0",
	                           (unsigned int)vs_gpu_bus(vs_sim_get()->physical[device])) >= length)
		r = CU_INVALID_VALUE;
	return vs_error(r);
}

VS_API int cudaDeviceGetByPCIBusId(int *device, const char *text)
{
	int r = device && text ? vs_sim_check() : CU_INVALID_VALUE;
	unsigned int domain, bus, slot;

	if (r == CU_OK) {
		const struct vs_sim *sim = vs_sim_get();

		if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
			domain = 0, bus = sscanf(text, "%x:%x", &bus, &slot) == 2 ? bus : 0;
		r = CU_INVALID_DEVICE;
		for (int i = 0; i < sim->visible; i++)
			if (!domain && (unsigned int)vs_gpu_bus(sim->physical[i]) == bus)
				*device = i, r = CU_OK;
	}
	return vs_error(r);
}

VS_API int cudaDeviceReset(void)
{
	int r = vs_sim_check();

	if (r == CU_OK)
		vs_sim_deactivate(vs_thread_device());
	return vs_error(r);
}
VS_ALIAS(cudaThreadExit, cudaDeviceReset);

VS_API int cudaDeviceSynchronize(void)
{
	int r = vs_sim_check();

	vs_pool_settle();
	return vs_error(r == CU_OK ? vs_sim_activate(vs_thread_device()) : r);
}
VS_ALIAS(cudaThreadSynchronize, cudaDeviceSynchronize);

/* Limits that CUDA starts with, bytes (cudaLimitStackSize, PrintfFifoSize, MallocHeapSize, DevRuntime...). */
static const size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

VS_API int cudaDeviceGetLimit(size_t *value, int limit)
{
	if (!value || limit < 0 || limit >= (int)(sizeof(limits) / sizeof(limits[0])))
		return vs_error(CU_INVALID_VALUE);
	*value = limits[limit];
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaThreadGetLimit, cudaDeviceGetLimit);

VS_API int cudaDeviceSetLimit(int limit, size_t value)
{
	(void)limit;
	(void)value;
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaThreadSetLimit, cudaDeviceSetLimit);

VS_API int cudaDeviceGetCacheConfig(int *config)
{
	if (!config)
		return vs_error(CU_INVALID_VALUE);
	*config = 0;
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaThreadGetCacheConfig, cudaDeviceGetCacheConfig);

VS_API int cudaDeviceSetCacheConfig(int config)
{
	(void)config;
	return vs_error(vs_sim_check());
}
VS_ALIAS(cudaThreadSetCacheConfig, cudaDeviceSetCacheConfig);
VS_ALIAS(cudaDeviceSetSharedMemConfig, cudaDeviceSetCacheConfig);

VS_API int cudaDeviceGetSharedMemConfig(int *config)
{
	if (!config)
		return vs_error(CU_INVALID_VALUE);
	*config = 1; /* four-byte banks */
	return vs_error(vs_sim_check());
}

VS_API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5; /* six levels since compute capability 7.0 */
	return vs_error(vs_sim_check());
}

/* Cards of one simulated machine reach each other, as over NVLink or one PCIe switch. */
VS_API int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	int r = can ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_sim_check_device(peer);
	if (r == CU_OK)
		*can = device != peer;
	return vs_error(r);
}

VS_API int cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	(void)flags;
	return vs_error(vs_sim_check_device(peer));
}

VS_API int cudaDeviceDisablePeerAccess(int peer)
{
	return vs_error(vs_sim_check_device(peer));
}

VS_API int cudaDeviceGetP2PAttribute(int *value, int attribute, int device, int peer)
{
	int r = value ? vs_sim_check_device(device) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_sim_check_device(peer);
	if (r == CU_OK)
		*value = attribute != 1; /* rank 0 is the best; access and atomics: yes */
	return vs_error(r);
}

VS_API int cudaDeviceFlushGPUDirectRDMAWrites(int target, int scope)
{
	(void)target;
	(void)scope;
	return vs_error(vs_sim_check());
}

VS_API int cudaCtxResetPersistingL2Cache(void)
{
	return vs_error(vs_sim_check());
}

VS_API int cudaProfilerStart(void)
{
	return CU_OK;
}

VS_API int cudaProfilerStop(void)
{
	return CU_OK;
}

VS_API int cudaDriverGetVersion(int *version)
{
	if (!version)
		return vs_error(CU_INVALID_VALUE);
	*version = vs_sim_get() ? VS_DRIVER_VERSION : 0;
	return CU_OK;
}

/* The version of the runtime library the job came with: a constant of that library, no device is asked. */
static int runtime_version(void)
{
	static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", NULL};
	int (*get)(int *) = (int (*)(int *))vs_real(names, "cudaRuntimeGetVersion");
	int version;

	return get && get(&version) == CU_OK ? version : VS_DRIVER_VERSION;
}

VS_API int cudaRuntimeGetVersion(int *version)
{
	static _Atomic int cached;
	int known = cached;

	if (!version)
		return vs_error(CU_INVALID_VALUE);
	if (!known)
		cached = known = runtime_version();
	*version = known;
	return CU_OK;
}

VS_API int cudaGetLastError(void)
{
	return vs_last_error(true);
}

VS_API int cudaPeekAtLastError(void)
{
	return vs_last_error(false);
}
