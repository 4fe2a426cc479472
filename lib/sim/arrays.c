/* SPDX-License-Identifier: MIT
 *
 * CUDA arrays and mipmaps in the books. How the card lays one out is not known: here it takes what its elements need.
 */
#include <stdlib.h>

#include "sim/books_private.h"

struct array {
	struct vs_texels texels;
	uint64_t bytes;
	int device;
	bool foreign;
	struct array *next;
};

static struct array *arrays;

int vs_array_new(int device, const struct vs_texels *texels, bool foreign, uint64_t *ret_handle)
{
	struct array *array;
	int r = CU_OK;

	if (!texels->width || !texels->bits)
		return CU_INVALID_VALUE;
	array = calloc(1, sizeof(*array));
	if (!array)
		return CU_OUT_OF_MEMORY;
	*array = (struct array){.texels = *texels, .device = device, .foreign = foreign};
	array->bytes = foreign ? 0 : vs_texels_bytes(texels);
	pthread_mutex_lock(&vs_books.lock);
	r = vs_books_charge(device, array->bytes);
	if (r == CU_OUT_OF_MEMORY && vs_pools_squeeze(device))
		r = vs_books_charge(device, array->bytes);
	if (r == CU_OK) {
		array->next = arrays;
		arrays = array;
		*ret_handle = (uint64_t)(uintptr_t)array;
	}
	pthread_mutex_unlock(&vs_books.lock);
	if (r != CU_OK)
		free(array);
	return r;
}

static void drop(struct array **link)
{
	struct array *array = *link;

	vs_books_discharge(array->device, array->bytes);
	vs_disown((uint64_t)(uintptr_t)array);
	*link = array->next;
	free(array);
}

int vs_array_free(uint64_t handle)
{
	int r = CU_INVALID_HANDLE;

	pthread_mutex_lock(&vs_books.lock);
	for (struct array **link = &arrays; *link && r != CU_OK; link = &(*link)->next) {
		if ((uint64_t)(uintptr_t)*link != handle)
			continue;
		drop(link);
		r = CU_OK;
		break;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_array_texels(uint64_t handle, struct vs_texels *ret_texels)
{
	int r = CU_INVALID_HANDLE;

	pthread_mutex_lock(&vs_books.lock);
	for (struct array *array = arrays; array; array = array->next) {
		if ((uint64_t)(uintptr_t)array != handle)
			continue;
		*ret_texels = array->texels;
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

void vs_arrays_forget(int device)
{
	struct array **link = &arrays;

	while (*link) {
		if (device < 0 || ((*link)->device == device && !vs_owned((uint64_t)(uintptr_t)*link)))
			drop(link);
		else
			link = &(*link)->next;
	}
}
