/* SPDX-License-Identifier: MIT */
#include "model/gpu.h"

#include "base/alike.h"

#include <errno.h>

/* A row of the table, column by column; what a plan does not need has its column all the same. */
static const struct row {
	const char *key, *name;
	uint32_t memory_mib, context_kib, major, minor, processors, l2_kib, shared_sm_kib, shared_optin_kib,
	    threads_sm, blocks_sm, bus_bits, clock_mhz, memory_clock_mhz, ecc, pci_id;
} rows[] = {
#include "sim/gpus.def"
};

const char *vs_gpu_memory_at(size_t index, struct vs_gpu_memory *ret_gpu)
{
	const struct row *r = &rows[index];

	if (index >= sizeof(rows) / sizeof(rows[0]))
		return NULL;
	if (ret_gpu)
		*ret_gpu = (struct vs_gpu_memory){
		    .key = r->key,
		    .name = r->name,
		    .total = (uint64_t)r->memory_mib << 20,
		    .context = (uint64_t)r->context_kib << 10,
		    .compute_capability = r->major * 10 + r->minor,
		    .multiprocessors = r->processors,
		    .threads_per_sm = r->threads_sm,
		};
	return r->key;
}

int vs_gpu_memory_find(const char *name, struct vs_gpu_memory *ret_gpu)
{
	for (size_t i = 0; vs_gpu_memory_at(i, NULL); i++) {
		if (vs_alike(rows[i].key, name) || vs_alike(rows[i].name, name)) {
			vs_gpu_memory_at(i, ret_gpu);
			return 0;
		}
	}
	return -ENOENT;
}
