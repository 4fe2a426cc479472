/* SPDX-License-Identifier: MIT */
#include "gpus.h"

const char *vs_gpu_find(const char *name)
{
	(void)name;
	return NULL;
}

char *vs_gpu_keys(char *text, size_t size)
{
	snprintf(text, size, "none");
	return text;
}

void vs_gpu_list(FILE *out)
{
	(void)out;
}
