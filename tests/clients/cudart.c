/* SPDX-License-Identifier: MIT
 *
 * The libcudart.so.12 that the programs are linked with, in the place of NVIDIA's on a machine with a toolkit: its
 * symbols have its version, and without a GPU it has nothing to give.
 */
#include "runtime.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define API __attribute__((visibility("default")))

enum { NO_DEVICE = 100 };

#define DEFINE(name, parameters)                                                                                     \
	API int name parameters                                                                                      \
	{                                                                                                            \
		return NO_DEVICE;                                                                                    \
	}
RUNTIME(DEFINE)

API void **__cudaRegisterFatBinary(void *binary)
{
	return binary;
}

API void __cudaRegisterFatBinaryEnd(void **handle)
{
}

API void __cudaUnregisterFatBinary(void **handle)
{
}

API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                void *thread, void *block, void *block_dim, void *grid_dim, int *warps)
{
}
