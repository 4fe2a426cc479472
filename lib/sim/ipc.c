/* SPDX-License-Identifier: MIT
 *
 * Memory shared between processes. A handle tells who owns how much; opening
 * it gives address space and takes no bytes: they are on the owner's books.
 */
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "sim/sim.h"
#include "sim/stream.h"

struct content {
	char magic[8];
	uint64_t address;
	uint64_t size;
	int32_t pid;
	int32_t device;
};

_Static_assert(sizeof(struct content) <= sizeof(struct vs_ipc_handle), "fits the 64 bytes CUDA gives");

static const char magic[8] = "vramsim";

static int get_handle(struct vs_ipc_handle *handle, uint64_t address)
{
	struct content content = {.pid = (int32_t)getpid()};
	struct vs_allocation allocation;
	int r = handle ? vs_books_find(address, &allocation) : CU_INVALID_VALUE;

	if (r == CU_OK && allocation.type != VS_TYPE_DEVICE)
		r = CU_INVALID_VALUE;
	if (r != CU_OK)
		return r;
	memcpy(content.magic, magic, sizeof(magic));
	content.address = allocation.address;
	content.size = allocation.size;
	content.device = allocation.device;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return CU_OK;
}

static int open_handle(struct vs_ipc_handle handle, uint64_t *ret_address)
{
	struct content content;
	int r;

	memcpy(&content, &handle, sizeof(content));
	if (memcmp(content.magic, magic, sizeof(magic)))
		return CU_INVALID_HANDLE;
	r = vs_sim_activate(vs_thread_device());
	if (r == CU_OK && content.pid == (int32_t)getpid())
		r = CU_INVALID_CONTEXT; /* CUDA refuses a handle in the process that made it */
	return r == CU_OK ? vs_books_foreign_open(vs_thread_device(), content.size, ret_address) : r;
}

VS_API int cudaIpcGetMemHandle(struct vs_ipc_handle *handle, void *pointer)
{
	return vs_error(get_handle(handle, (uint64_t)(uintptr_t)pointer));
}

VS_API int cudaIpcOpenMemHandle(void **pointer, struct vs_ipc_handle handle, unsigned int flags)
{
	uint64_t address;
	int r = pointer ? open_handle(handle, &address) : CU_INVALID_VALUE;

	(void)flags;
	if (r == CU_OK)
		*pointer = (void *)(uintptr_t)address;
	return vs_error(r);
}

VS_API int cudaIpcCloseMemHandle(void *pointer)
{
	return vs_error(vs_books_foreign_close((uint64_t)(uintptr_t)pointer));
}

VS_API int cudaIpcGetEventHandle(struct vs_ipc_handle *handle, struct vs_event *event)
{
	if (!handle || !event)
		return vs_error(CU_INVALID_VALUE);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, magic, sizeof(magic));
	return CU_OK;
}

/* Everything has happened already, on either side: a fresh, recorded event tells the same. */
VS_API int cudaIpcOpenEventHandle(struct vs_event **event, struct vs_ipc_handle handle)
{
	int r =
	    event && !memcmp(&handle, magic, sizeof(magic)) ? vs_sim_activate(vs_thread_device()) : CU_INVALID_VALUE;

	if (r == CU_OK)
		r = vs_event_new(vs_thread_device(), 2, (void **)event);
	if (r == CU_OK)
		r = vs_event_record(*event, NULL);
	return vs_error(r);
}

VS_API int cuIpcGetMemHandle(struct vs_ipc_handle *handle, uint64_t address)
{
	return get_handle(handle, address);
}

VS_API int cuIpcOpenMemHandle_v2(uint64_t *address, struct vs_ipc_handle handle, unsigned int flags)
{
	(void)flags;
	return address ? open_handle(handle, address) : CU_INVALID_VALUE;
}
VS_ALIAS(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);

VS_API int cuIpcCloseMemHandle(uint64_t address)
{
	return vs_books_foreign_close(address);
}
