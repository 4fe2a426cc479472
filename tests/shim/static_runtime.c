/* SPDX-License-Identifier: MIT
 *
 * A library with a CUDA runtime of its own linked in.
 */
#include <stddef.h>
#include <stdint.h>

/* Of this runtime. */
__attribute__((visibility("default"))) int calls;

__attribute__((visibility("default"))) int cudaMalloc(void **out, size_t size);
__attribute__((visibility("default"))) int cudaMalloc(void **out, size_t size)
{
	calls++;
	*out = (void *)(uintptr_t)(size + 7);
	return 0;
}

/* Where that succeeds, 7 more than it was asked for. */
__attribute__((visibility("default"))) int use(size_t size);
__attribute__((visibility("default"))) int use(size_t size)
{
	void *pointer = NULL;
	int result = cudaMalloc(&pointer, size);

	return result ? -result : (int)(uintptr_t)pointer;
}
