/* SPDX-License-Identifier: MIT
 *
 * A library that comes and goes. PLUGIN names it; PLUGIN_EAGER allocates while it is loaded.
 */
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

int cudaMalloc(void **out, size_t size);
int cudaFree(void *pointer);

API const char *plugin_name(void)
{
	return PLUGIN;
}

API int plugin_count(void)
{
	static int count;

	return ++count;
}

API void *plugin_take(size_t size)
{
	void *pointer = NULL;

	if (cudaMalloc(&pointer, size))
		pointer = NULL;
	__asm__ volatile(""); /* no tail call: this frame belongs in the stack */
	return pointer;
}

API void plugin_give(void *pointer, size_t size)
{
	(void)size;
	cudaFree(pointer);
	__asm__ volatile("");
}

#ifdef PLUGIN_EAGER
void host_lock_and_report(void);

__attribute__((constructor)) static void load(void)
{
	host_lock_and_report();
}
#endif
