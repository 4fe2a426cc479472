/* SPDX-License-Identifier: MIT
 *
 * The calls that hand out CUDA's functions by name. The library is asked first, so that its choice of version,
 * its errors and its status are what the caller gets; then the pointer is exchanged for our wrapper.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "shim/cuda_types.h"
#include "shim/export.h"
#include "shim/real.h"
#include "shim/thread.h"

/* A gateway as everything below needs it; the ABIs differ in how they say the rest. */
struct gateway {
	const char *name;
	enum vs_api api;
	_Atomic(void *) real;
};

static void *gateway_real(struct gateway *gateway)
{
	void *real = atomic_load_explicit(&gateway->real, memory_order_acquire);

	if (!real) {
		real = vs_real_symbol(gateway->api, gateway->name);
		atomic_store_explicit(&gateway->real, real, memory_order_release);
	}
	return real;
}

/* A gateway that is asked for a gateway: CUDA's own runtime asks the driver for cuGetProcAddress first. */
static void *wrapped_gateway(const char *base, unsigned int version, void *real);

static int wrapped(int result, const char *base, void **out, unsigned int version, int per_thread)
{
	if (!result && out && *out && base && vs_recording)
		*out = vs_real_wrap(base, version, per_thread, wrapped_gateway(base, version, *out));
	return result;
}

/* cudaGetDriverEntryPoint serves the newest ABI its runtime knows. The _ptsz twin is what code compiled for
 * per-thread default streams calls: there, the default flavour is that one. */
#define VS_ENTRY_POINT(export, default_per_thread)                                                                   \
	VS_EXPORT int export(const char *base, void **out, unsigned long long flags, int *status);                   \
	int export(const char *base, void **out, unsigned long long flags, int *status)                              \
	{                                                                                                            \
		static struct gateway gateway = {#export, VS_API_RUNTIME, NULL};                                     \
		int (*real)(const char *, void **, unsigned long long, int *) = gateway_real(&gateway);              \
                                                                                                                     \
		if (!real)                                                                                           \
			return VS_CUDA_NOT_INITIALIZED;                                                              \
		return wrapped(real(base, out, flags, status), base, out, UINT_MAX,                                  \
		               flags == VS_CUDA_ENTRY_DEFAULT ? default_per_thread                                   \
		                                              : flags == VS_CUDA_ENTRY_PER_THREAD);                  \
	}

#define VS_ENTRY_POINT_BY_VERSION(export, default_per_thread)                                                        \
	VS_EXPORT int export(const char *base, void **out, unsigned int version, unsigned long long flags,           \
	                     int *status);                                                                           \
	int export(const char *base, void **out, unsigned int version, unsigned long long flags, int *status)        \
	{                                                                                                            \
		static struct gateway gateway = {#export, VS_API_RUNTIME, NULL};                                     \
		int (*real)(const char *, void **, unsigned int, unsigned long long, int *) =                        \
		    gateway_real(&gateway);                                                                          \
                                                                                                                     \
		if (!real)                                                                                           \
			return VS_CUDA_NOT_INITIALIZED;                                                              \
		return wrapped(real(base, out, version, flags, status), base, out, version,                          \
		               flags == VS_CUDA_ENTRY_DEFAULT ? default_per_thread                                   \
		                                              : flags == VS_CUDA_ENTRY_PER_THREAD);                  \
	}

VS_ENTRY_POINT(cudaGetDriverEntryPoint, 0)
VS_ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, 1)
VS_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion, 0)
VS_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz, 1)

/* The fifth argument came with CUDA 12.0, under the same base name. */
#define STATUS_SINCE 12000

static struct gateway driver_gateway = {"cuGetProcAddress", VS_API_DRIVER, NULL};
static struct gateway driver_gateway_v2 = {"cuGetProcAddress_v2", VS_API_DRIVER, NULL};

VS_EXPORT int cuGetProcAddress(const char *base, void **out, int version, uint64_t flags);
int cuGetProcAddress(const char *base, void **out, int version, uint64_t flags)
{
	int (*real)(const char *, void **, int, uint64_t) = gateway_real(&driver_gateway);

	if (!real)
		return VS_CUDA_NOT_INITIALIZED;
	return wrapped(real(base, out, version, flags), base, out, version < 0 ? 0 : (unsigned int)version,
	               flags == VS_CUDA_ENTRY_PER_THREAD);
}

VS_EXPORT int cuGetProcAddress_v2(const char *base, void **out, int version, uint64_t flags, int *status);
int cuGetProcAddress_v2(const char *base, void **out, int version, uint64_t flags, int *status)
{
	int (*real)(const char *, void **, int, uint64_t, int *) = gateway_real(&driver_gateway_v2);

	if (!real)
		return VS_CUDA_NOT_INITIALIZED;
	return wrapped(real(base, out, version, flags, status), base, out, version < 0 ? 0 : (unsigned int)version,
	               flags == VS_CUDA_ENTRY_PER_THREAD);
}

static void *wrapped_gateway(const char *base, unsigned int version, void *real)
{
	struct gateway *gateway = version >= STATUS_SINCE ? &driver_gateway_v2 : &driver_gateway;

	/* Ours is handed out only if it has something to call. */
	if (strcmp(base, "cuGetProcAddress") || !gateway_real(gateway))
		return real;
	return version >= STATUS_SINCE ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
}
