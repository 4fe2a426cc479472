/* SPDX-License-Identifier: MIT
 *
 * Copies. Device memory has no contents: what is read from it is zeros, but for
 * what the host has just written (shadow.h) and for truth values (readback.h).
 * Host memory, pinned and managed included, is real.
 */
#include <string.h>

#include "sim/readback.h"
#include "sim/shadow.h"
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
	uint64_t there = (uint64_t)(uintptr_t)to, here = (uint64_t)(uintptr_t)from;
	bool from_host, to_host;

	if (!size)
		return;
	/* Managed memory may stand on the device's side of any kind: ask what it is. */
	to_host = kind == VS_COPY_H2H || kind == VS_COPY_D2H || on_host(to);
	from_host = kind == VS_COPY_H2H || kind == VS_COPY_H2D || on_host(from);
	if (to_host && from_host) {
		memmove(to, from, size);
	} else if (from_host) {
		vs_shadow_write(there, from, size);
	} else if (to_host) {
		if (!vs_shadow_read(to, here, size))
			memset(to, vs_readback_byte(size), size);
	} else {
		vs_shadow_move(there, here, size);
		vs_readback_copied(size);
	}
}

void vs_set(void *to, int value, size_t size)
{
	struct vs_allocation allocation;

	/* Only what the books know: a bad pointer must not turn into a write. */
	if (!size || vs_books_find((uint64_t)(uintptr_t)to, &allocation) != CU_OK)
		return;
	if (allocation.type == VS_TYPE_DEVICE)
		vs_shadow_write((uint64_t)(uintptr_t)to, NULL, size);
	else
		memset(to, value, size);
}
