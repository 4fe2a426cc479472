/* SPDX-License-Identifier: MIT */
#include "shim/gateways.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/cuda_hooks.h"

/* The driver's own answer for `base` in one version. NULL: it has none, or there is no driver to ask. */
static void *ask(const char *base, unsigned int version, uint64_t flags)
{
	int (*get_v2)(const char *, void **, int, uint64_t, int *) = vs_real(VS_ENTRY_cuGetProcAddress_v2, 0);
	int (*get)(const char *, void **, int, uint64_t) = vs_real(VS_ENTRY_cuGetProcAddress, 0);
	void *found = NULL;
	int status;

	/* The fifth argument came with CUDA 12.0, under the same base name. */
	if (get_v2 ? get_v2(base, &found, (int)version, flags, &status)
	           : !get || get(base, &found, (int)version, flags))
		return NULL;
	return found;
}

/* One name has had several ABIs, and may get another that is not known here; some gateways do not even tell which one
 * they serve. So it is not reckoned which row a pointer belongs to: it is the row for which the driver answers the
 * same pointer. Rows of a name are in ascending order of their versions. */
static void *exchange(const char *base, void *real, int per_thread)
{
	for (int i = VS_ENTRY_COUNT - 1; i >= 0; i--) {
		const struct vs_entry_info *info = &vs_entries[i];

		if (info->api != VS_API_DRIVER || (info->per_thread && !per_thread) || strcmp(info->base, base))
			continue;
		if (ask(base, info->since, per_thread ? VS_CUDA_ENTRY_PER_THREAD : VS_CUDA_ENTRY_DEFAULT) == real)
			return vs_real_wrapper((enum vs_entry)i, real);
	}
	return real;
}

void vs_call_entry_point(struct vs_call *call, const char *base, void **out, unsigned long long flags)
{
	/* The _ptsz twins are what code compiled for per-thread default streams calls: there, the default flavour is
	 * that one. */
	int per_thread =
	    flags == VS_CUDA_ENTRY_DEFAULT ? vs_entries[call->entry].per_thread : flags == VS_CUDA_ENTRY_PER_THREAD;

	if (call->result || !out || !*out || !base || strncmp(base, "cu", 2) || vs_real_is_ours(*out))
		return;
	*out = exchange(base, *out, per_thread);
}
