/* SPDX-License-Identifier: MIT
 *
 * Driver entry points by name and version: cuGetProcAddress and the runtime's
 * twins, over one table.
 */
#include "sim/sim.h"

/* CUdriverProcAddressQueryResult: 0 found, 1 no such name, 2 not in so old a version */
enum { FOUND = 0, NO_SYMBOL = 1, VERSION_TOO_OLD = 2 };

static int look_up(const char *name, void **function, int version, int *status)
{
	void *found;

	if (!name || !function)
		return CU_INVALID_VALUE;
	found = vs_entry_point(name, version);
	*function = found;
	if (status)
		*status = found ? FOUND : vs_entry_point(name, VS_DRIVER_VERSION) ? VERSION_TOO_OLD : NO_SYMBOL;
	return found ? CU_OK : CU_NOT_FOUND;
}

VS_API int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	(void)flags; /* the per-thread default stream has no entries of its own: every stream is idle */
	return look_up(name, function, version, status);
}

VS_API int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	(void)flags;
	return look_up(name, function, version, NULL);
}

VS_API int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned int version,
                                            unsigned long long flags, int *status)
{
	int r;

	(void)flags;
	if (!name || !function)
		return vs_error(CU_INVALID_VALUE);
	r = look_up(name, function, (int)version, status);
	/* With a status to tell it, a missing symbol is no error of the call. */
	return vs_error(status && r == CU_NOT_FOUND ? CU_OK : r);
}
VS_ALIAS(cudaGetDriverEntryPointByVersion_ptsz, cudaGetDriverEntryPointByVersion);

VS_API int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status)
{
	return cudaGetDriverEntryPointByVersion(name, function, VS_DRIVER_VERSION, flags, status);
}
VS_ALIAS(cudaGetDriverEntryPoint_ptsz, cudaGetDriverEntryPoint);
