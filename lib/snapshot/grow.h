/* SPDX-License-Identifier: MIT
 *
 * Growable arrays of one type: amortised doubling, with the size arithmetic checked.
 */
#ifndef VS_SNAPSHOT_GROW_H
#define VS_SNAPSHOT_GROW_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Make room for one more element of `width` bytes. The array moves; on failure nothing changes. */
static inline int vs_grow(void *array_pointer, size_t count, size_t *capacity, size_t width)
{
	void **array = array_pointer;
	size_t grown;
	void *fresh;

	if (count < *capacity)
		return 0;
	if (*capacity > SIZE_MAX / 2 / width)
		return -ENOMEM;
	grown = *capacity ? *capacity * 2 : 16;
	fresh = realloc(*array, grown * width);
	if (!fresh)
		return -ENOMEM;
	*array = fresh;
	*capacity = grown;
	return 0;
}

#endif
