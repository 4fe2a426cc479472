/* SPDX-License-Identifier: MIT
 *
 * The CUDA driver as a program or a private runtime has it that is not linked with it: libcuda.so.1 is opened, and
 * every entry comes from cuGetProcAddress.
 */
#ifndef VS_TESTS_CLIENT_DRIVER_H
#define VS_TESTS_CLIENT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

struct placement { /* CUmemAllocationProp */
	int type;  /* 1: pinned */
	int handle_types;
	int location, device; /* location 1: a device */
	void *windows;
	unsigned char flags[8];
};

struct access { /* CUmemAccessDesc */
	int location, device;
	int flags; /* 3: read and write */
};

/* Member, name, the CUDA version whose ABI is meant, parameters. */
/* clang-format off */
#define DRIVER(E) \
	E(init, "cuInit", 2000, (unsigned int flags)) \
	E(device_get, "cuDeviceGet", 2000, (int *device, int ordinal)) \
	E(context_create, "cuCtxCreate", 3020, (void **context, unsigned int flags, int device)) \
	E(context_destroy, "cuCtxDestroy", 4000, (void *context)) \
	E(primary_retain, "cuDevicePrimaryCtxRetain", 7000, (void **context, int device)) \
	E(context_push, "cuCtxPushCurrent", 4000, (void *context)) \
	E(context_pop, "cuCtxPopCurrent", 4000, (void **context)) \
	E(module_load, "cuModuleLoadData", 2000, (void **module, const void *image)) \
	E(module_function, "cuModuleGetFunction", 2000, (void **function, void *module, const char *name)) \
	E(module_unload, "cuModuleUnload", 2000, (void *module)) \
	E(launch, "cuLaunchKernel", 4000, (void *function, unsigned int grid_x, unsigned int grid_y, \
	  unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, \
	  unsigned int shared, void *stream, void **parameters, void **extra)) \
	E(allocate, "cuMemAlloc", 3020, (uint64_t *address, size_t size)) \
	E(allocate_pitch, "cuMemAllocPitch", 3020, (uint64_t *address, size_t *pitch, size_t width, \
	  size_t height, unsigned int element)) \
	E(release, "cuMemFree", 3020, (uint64_t address)) \
	E(host_allocate, "cuMemHostAlloc", 2020, (void **pointer, size_t size, unsigned int flags)) \
	E(host_release, "cuMemFreeHost", 2000, (void *pointer)) \
	E(info, "cuMemGetInfo", 3020, (size_t *free_bytes, size_t *total)) \
	E(reserve, "cuMemAddressReserve", 10020, (uint64_t *address, size_t size, size_t alignment, \
	  uint64_t hint, unsigned long long flags)) \
	E(unreserve, "cuMemAddressFree", 10020, (uint64_t address, size_t size)) \
	E(create, "cuMemCreate", 10020, (uint64_t *handle, size_t size, const struct placement \
	  *placement, unsigned long long flags)) \
	E(drop, "cuMemRelease", 10020, (uint64_t handle)) \
	E(retain, "cuMemRetainAllocationHandle", 11000, (uint64_t *handle, void *address)) \
	E(map, "cuMemMap", 10020, (uint64_t address, size_t size, size_t offset, uint64_t handle, \
	  unsigned long long flags)) \
	E(unmap, "cuMemUnmap", 10020, (uint64_t address, size_t size)) \
	E(set_access, "cuMemSetAccess", 10020, (uint64_t address, size_t size, const struct access \
	  *access, size_t count))
/* clang-format on */

struct driver {
#define MEMBER(member, name, version, parameters) int(*member) parameters;
	DRIVER(MEMBER)
#undef MEMBER
};

/* 0, or a CUresult; 999 where there is no driver. */
int driver_open(struct driver *driver);

#endif
