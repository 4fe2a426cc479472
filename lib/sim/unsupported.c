/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime and driver entries that are not simulated: each says its name
 * once and answers "not supported".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "sim/sim.h"

#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_error(vs_unsupported(&said, #name, CU_NOT_SUPPORTED));                                     \
	}
#include "sim/cudart.def"
#undef VS_NONE

#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, CU_NOT_SUPPORTED);                                               \
	}
#include "sim/cuda.def"
#undef VS_NONE

/* What a runtime that is linked into a library asks first of all: that library's calls of CUDA cannot be answered,
 * and its name says more than the call's. Once a library. */
VS_API int cuGetExportTable(const void **table, const void *id)
{
	static _Atomic(void *) told[16];
	atomic_flag said = ATOMIC_FLAG_INIT;
	Dl_info info = {0};
	char text[160];

	(void)table;
	(void)id;
	if (!dladdr(__builtin_return_address(0), &info) || !info.dli_fname || !info.dli_fbase)
		return CU_NOT_SUPPORTED;
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
		void *before = NULL;

		if (atomic_compare_exchange_strong(&told[i], &before, info.dli_fbase)) {
			snprintf(text, sizeof(text), "a CUDA runtime of its own in %.100s (cuGetExportTable)",
			         vs_path_file(info.dli_fname));
			return vs_unsupported(&said, text, CU_NOT_SUPPORTED);
		}
		if (before == info.dli_fbase)
			break;
	}
	return CU_NOT_SUPPORTED;
}
