/* SPDX-License-Identifier: MIT
 *
 * Copies. Device memory has no contents: what is read from it is zeros (but see
 * readback.h), what is written to it is gone. Host memory, pinned and managed included, is real.
 */
#include <string.h>

#include "sim/readback.h"
#include "sim/sim.h"

static bool on_host(const void *pointer)
{
	struct vs_allocation allocation;

	if (vs_books_find((uint64_t)(uintptr_t)pointer, &allocation) != CU_OK)
		return true; /* pageable memory of the job */
	return allocation.type != VS_TYPE_DEVICE;
}

void vs_copy(void *to, const void *from, size_t size, int kind)
{
	bool from_host, to_host;

	if (!size)
		return;
	/* Managed memory may stand on the device's side of any kind: ask what it is. */
	to_host = kind == VS_COPY_H2H || kind == VS_COPY_D2H || on_host(to);
	if (!to_host) {
		if (kind != VS_COPY_H2D)
			vs_readback_copied(size);
		return;
	}
	from_host = kind == VS_COPY_H2H || kind == VS_COPY_H2D || on_host(from);
	if (from_host)
		memmove(to, from, size);
	else
		memset(to, vs_readback_byte(size), size);
}

void vs_set(void *to, int value, size_t size)
{
	struct vs_allocation allocation;

	/* Only what the books know: a bad pointer must not turn into a write. */
	if (size && vs_books_find((uint64_t)(uintptr_t)to, &allocation) == CU_OK && allocation.type != VS_TYPE_DEVICE)
		memset(to, value, size);
}
