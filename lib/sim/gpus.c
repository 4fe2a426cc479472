/* SPDX-License-Identifier: MIT */
#include "sim/gpus.h"

#include <strings.h>

static const struct vs_gpu gpus[] = {
#include "sim/gpus.def"
};

const struct vs_gpu *vs_gpu_at(size_t index)
{
	return index < sizeof(gpus) / sizeof(gpus[0]) ? &gpus[index] : NULL;
}

const struct vs_gpu *vs_gpu_find(const char *key)
{
	const struct vs_gpu *gpu;

	for (size_t i = 0; (gpu = vs_gpu_at(i)); i++)
		if (!strcasecmp(gpu->key, key))
			return gpu;
	return NULL;
}
