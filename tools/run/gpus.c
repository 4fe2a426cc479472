/* SPDX-License-Identifier: MIT */
#include "gpus.h"

#include <ctype.h>
#include <string.h>

#include "base/alike.h"
#include "common/size.h"

/* A row of the table, column by column; what a list does not show has its column all the same. */
static const struct gpu {
	const char *key, *name;
	uint32_t memory_mib, context_kib, major, minor, processors, l2_kib, shared_sm_kib, shared_optin_kib,
	    threads_sm, blocks_sm, bus_bits, clock_mhz, memory_clock_mhz, ecc, pci_id;
} gpus[] = {
#include "sim/gpus.def"
};

#define COUNT (sizeof(gpus) / sizeof(gpus[0]))

const char *vs_gpu_find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++) {
		if (vs_alike(name, gpus[i].key) || vs_alike(name, gpus[i].name))
			return gpus[i].key;
	}
	return NULL;
}

/* As the names are usually written. */
static const char *upper(const char *key, char *text, size_t size)
{
	size_t i = 0;

	for (; key[i] && i + 1 < size; i++)
		text[i] = toupper((unsigned char)key[i]);
	text[i] = '\0';
	return text;
}

char *vs_gpu_keys(char *text, size_t size)
{
	char key[32];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < COUNT && used < size; i++)
		used +=
		    snprintf(text + used, size - used, "%s%s", i ? ", " : "", upper(gpus[i].key, key, sizeof(key)));
	return text;
}

void vs_gpu_list(FILE *out)
{
	char size[VS_SIZE_MAX], key[32];

	fprintf(out, "%-10s %10s  %10s  %3s  %s\n", "name", "memory", "capability", "SMs", "product");
	for (size_t i = 0; i < COUNT; i++)
		fprintf(out, "%-10s %10s  %8u.%u  %3u  %s\n", upper(gpus[i].key, key, sizeof(key)),
		        vs_size_format((uint64_t)gpus[i].memory_mib << 20, size), gpus[i].major, gpus[i].minor,
		        gpus[i].processors, gpus[i].name);
}
