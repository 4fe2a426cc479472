/* SPDX-License-Identifier: MIT
 *
 * Which allocations were made in a context of the job's own making, and end with it. Everything else belongs to the
 * primary context of its device.
 */
#include <stdlib.h>

#include "base/u64map.h"
#include "sim/books_private.h"

static struct vs_u64map owners; /* address -> context */

void vs_books_own(uint64_t address, uint32_t context)
{
	pthread_mutex_lock(&vs_books.lock);
	if (context)
		vs_u64map_put(&owners, address, context); /* out of memory: it outlives the context */
	else
		vs_disown(address);
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_disown(uint64_t address)
{
	uint32_t before;

	vs_u64map_take(&owners, address, &before);
}

bool vs_owned(uint64_t address)
{
	uint32_t context;

	return vs_u64map_get(&owners, address, &context);
}

void vs_owned_forget(void)
{
	vs_u64map_release(&owners);
}

/* By its address alone, whatever it is. */
static void give_back(uint64_t address)
{
	if (vs_books_free(address) == CU_OK || vs_books_host_free(address, true) == CU_OK ||
	    vs_books_host_free(address, false) == CU_OK || vs_books_host_unregister(address) == CU_OK ||
	    vs_books_foreign_close(address) == CU_OK)
		return;
	vs_array_free(address);
}

void vs_books_end_context(uint32_t context)
{
	uint64_t address;

	do {
		address = 0;
		pthread_mutex_lock(&vs_books.lock);
		for (size_t i = 0; i < owners.size && !address; i++)
			if (owners.slots[i].key && owners.slots[i].value == context)
				address = owners.slots[i].key;
		if (address)
			vs_disown(address);
		pthread_mutex_unlock(&vs_books.lock);
		if (address)
			give_back(address);
	} while (address);
}
