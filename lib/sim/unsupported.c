/* SPDX-License-Identifier: MIT
 *
 * CUDA runtime and driver entries that are not simulated: each says its name
 * once and answers "not supported".
 */
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
