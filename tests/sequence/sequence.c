/* SPDX-License-Identifier: MIT
 *
 * CUDA calls at random, of every family that takes memory, by several threads and through every way to a function,
 * with wrong calls among them: sequence SEED CALLS [THREADS]. At many instants it marks in the trace what the device
 * itself says is used; check.c compares. Prints calls, marks, and a sum over what the first thread's calls returned:
 * by one thread it is the same each time, recorded or not.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda_api.h"

enum { DEVICES = 2, SLOTS = 64, THREADS_MAX = 8, WAYS = 5, CHECKS = 400 };

#define MIB ((size_t)1 << 20)

/* name, base name for cuGetProcAddress ("" for the runtime), version */
#define FUNCTIONS(F)                                                                                                 \
	F(cudaMalloc, "", 0)                                                                                         \
	F(cudaFree, "", 0)                                                                                           \
	F(cudaMallocPitch, "", 0)                                                                                    \
	F(cudaMalloc3D, "", 0)                                                                                       \
	F(cudaMallocManaged, "", 0)                                                                                  \
	F(cudaMallocHost, "", 0)                                                                                     \
	F(cudaHostAlloc, "", 0)                                                                                      \
	F(cudaFreeHost, "", 0)                                                                                       \
	F(cudaHostRegister, "", 0)                                                                                   \
	F(cudaHostUnregister, "", 0)                                                                                 \
	F(cudaMallocArray, "", 0)                                                                                    \
	F(cudaMalloc3DArray, "", 0)                                                                                  \
	F(cudaMallocMipmappedArray, "", 0)                                                                           \
	F(cudaFreeArray, "", 0)                                                                                      \
	F(cudaMallocAsync, "", 0)                                                                                    \
	F(cudaMallocFromPoolAsync, "", 0)                                                                            \
	F(cudaFreeAsync, "", 0)                                                                                      \
	F(cudaMemPoolCreate, "", 0)                                                                                  \
	F(cudaMemPoolDestroy, "", 0)                                                                                 \
	F(cudaMemPoolTrimTo, "", 0)                                                                                  \
	F(cudaMemPoolSetAttribute, "", 0)                                                                            \
	F(cudaStreamSynchronize, "", 0)                                                                              \
	F(cudaDeviceSynchronize, "", 0)                                                                              \
	F(cudaDeviceReset, "", 0)                                                                                    \
	F(cudaSetDevice, "", 0)                                                                                      \
	F(cudaMemGetInfo, "", 0)                                                                                     \
	F(cudaIpcOpenMemHandle, "", 0)                                                                               \
	F(cudaIpcCloseMemHandle, "", 0)                                                                              \
	F(cudaStreamCreate, "", 0)                                                                                   \
	F(cudaStreamBeginCapture, "", 0)                                                                             \
	F(cudaStreamEndCapture, "", 0)                                                                               \
	F(cudaGraphCreate, "", 0)                                                                                    \
	F(cudaGraphAddMemAllocNode, "", 0)                                                                           \
	F(cudaGraphAddMemFreeNode, "", 0)                                                                            \
	F(cudaGraphInstantiate, "", 0)                                                                               \
	F(cudaGraphLaunch, "", 0)                                                                                    \
	F(cudaGraphUpload, "", 0)                                                                                    \
	F(cudaGraphExecDestroy, "", 0)                                                                               \
	F(cudaGraphDestroy, "", 0)                                                                                   \
	F(cudaDeviceGraphMemTrim, "", 0)                                                                             \
	F(cudaImportExternalMemory, "", 0)                                                                           \
	F(cudaExternalMemoryGetMappedBuffer, "", 0)                                                                  \
	F(cudaDestroyExternalMemory, "", 0)                                                                          \
	F(cuMemAlloc_v2, "cuMemAlloc", 3020)                                                                         \
	F(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020)                                                               \
	F(cuMemFree_v2, "cuMemFree", 3020)                                                                           \
	F(cuMemAllocManaged, "cuMemAllocManaged", 6000)                                                              \
	F(cuMemHostAlloc, "cuMemHostAlloc", 2020)                                                                    \
	F(cuMemFreeHost, "cuMemFreeHost", 2000)                                                                      \
	F(cuMemHostRegister_v2, "cuMemHostRegister", 6050)                                                           \
	F(cuMemHostUnregister, "cuMemHostUnregister", 4000)                                                          \
	F(cuArrayCreate_v2, "cuArrayCreate", 3020)                                                                   \
	F(cuArray3DCreate_v2, "cuArray3DCreate", 3020)                                                               \
	F(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000)                                                    \
	F(cuArrayDestroy, "cuArrayDestroy", 2000)                                                                    \
	F(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000)                                                  \
	F(cuMemAllocAsync, "cuMemAllocAsync", 11020)                                                                 \
	F(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020)                                                 \
	F(cuMemFreeAsync, "cuMemFreeAsync", 11020)                                                                   \
	F(cuMemPoolCreate, "cuMemPoolCreate", 11020)                                                                 \
	F(cuMemPoolDestroy, "cuMemPoolDestroy", 11020)                                                               \
	F(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020)                                                                 \
	F(cuCtxSynchronize, "cuCtxSynchronize", 2000)                                                                \
	F(cuStreamSynchronize, "cuStreamSynchronize", 2000)                                                          \
	F(cuMemCreate, "cuMemCreate", 10020)                                                                         \
	F(cuMemRelease, "cuMemRelease", 10020)                                                                       \
	F(cuMemMap, "cuMemMap", 10020)                                                                               \
	F(cuMemUnmap, "cuMemUnmap", 10020)                                                                           \
	F(cuMemAddressReserve, "cuMemAddressReserve", 10020)                                                         \
	F(cuMemAddressFree, "cuMemAddressFree", 10020)                                                               \
	F(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000)                                         \
	F(cuMulticastCreate, "cuMulticastCreate", 12010)                                                             \
	F(cuMulticastAddDevice, "cuMulticastAddDevice", 12010)                                                       \
	F(cuMulticastBindMem, "cuMulticastBindMem", 12010)                                                           \
	F(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020)                                       \
	F(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020)                                   \
	F(cudaMemPoolExportToShareableHandle, "", 0)                                                                 \
	F(cudaMemPoolImportFromShareableHandle, "", 0)                                                               \
	F(cudaMemPoolExportPointer, "", 0)                                                                           \
	F(cudaMemPoolImportPointer, "", 0)                                                                           \
	F(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020)                               \
	F(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020)                           \
	F(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020)                                                   \
	F(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020)                                                   \
	F(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000)                                                        \
	F(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010)                                                          \
	F(cuCtxCreate_v2, "cuCtxCreate", 3020)                                                                       \
	F(cuCtxDestroy_v2, "cuCtxDestroy", 4000)                                                                     \
	F(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000)                                                               \
	F(cuCtxAttach, "cuCtxAttach", 2000)                                                                          \
	F(cuCtxDetach, "cuCtxDetach", 2000)                                                                          \
	F(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000)                                              \
	F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)                                                \
	F(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000)                                          \
	F(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040)                                                   \
	F(cuGraphLaunch, "cuGraphLaunch", 10000)                                                                     \
	F(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040)                                                       \
	F(cuModuleLoadData, "cuModuleLoadData", 2000)                                                                \
	F(cuModuleUnload, "cuModuleUnload", 2000)

enum function {
#define F(name, base, version) F_##name,
	FUNCTIONS(F)
#undef F
	    COUNT
};

static const struct {
	const char *name, *base;
	int version;
} names[COUNT] = {
#define F(name, base, version) [F_##name] = {#name, base, version},
    FUNCTIONS(F)
#undef F
};

typedef int any_function();
static any_function *ways[COUNT][WAYS];
static _Atomic uint64_t calls;
static void (*mark)(const char *);

enum kind {
	NONE,
	LINEAR,
	MANAGED,
	PINNED,
	REGISTERED,
	ARRAY,
	BLOCK, /* of a pool */
	POOL,
	PHYSICAL,
	GRAPH,
	CONTEXT,
	EXTERNAL,
	MAPPED_EXTERNAL,
	SHARED, /* physical memory, mapped by its own handle and by an imported one, and neither is left */
	MODULE,
};

struct slot {
	enum kind kind;
	int device;
	uint64_t a, b, size; /* what it is known by; PHYSICAL: handle, reserved address; GRAPH: graph, exec */
	uint64_t context;    /* that it was made in; 0: primary */
	unsigned mapped, references;
	void *memory;
};

struct thread {
	uint64_t state, results;
	void *stream;
	struct slot slots[SLOTS];
};

static struct thread threads[THREADS_MAX];
static unsigned thread_count;
static uint64_t wanted;
/* Calls that other threads' calls may not come between (a double free, the end of a context, a look at the books)
 * take it for writing. */
static pthread_rwlock_t quiet = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic uint64_t next_check;
static unsigned checks;

static uint64_t below(struct thread *t, uint64_t limit)
{
	t->state = t->state * 6364136223846793005u + 1442695040888963407u;
	return (t->state >> 33) % limit;
}

static any_function *pick(struct thread *t, enum function f)
{
	any_function *found = NULL;

	while (!found)
		found = ways[f][below(t, WAYS)];
	calls++;
	return found;
}

/* What the call returned, as it goes on; the sum tells whether two runs of one seed were answered alike. */
static int noted(struct thread *t, int result)
{
	t->results = (t->results ^ (uint64_t)(unsigned)result) * 0x100000001b3u;
	return result;
}

#define CALL(name, ...) noted(t, pick(t, F_##name)(__VA_ARGS__))

static void die(const char *what)
{
	fprintf(stderr, "sequence: %s\n", what);
	abort();
}

#define MUST(call)                                                                                                   \
	do {                                                                                                         \
		if ((call) != 0)                                                                                     \
			die(#call);                                                                                  \
	} while (0)
#define MUST_FAIL(call)                                                                                              \
	do {                                                                                                         \
		if ((call) == 0)                                                                                     \
			die("succeeds: " #call);                                                                     \
	} while (0)

static size_t some_size(struct thread *t)
{
	switch (below(t, 4)) {
	case 0:
		return 1 + below(t, 4096);
	case 1:
		return 1 + below(t, MIB);
	default:
		return 1 + below(t, 16 * MIB);
	}
}

/* Everything on a device that goes with its primary context, whoever has it. */
static void forget(int device, uint64_t context)
{
	for (unsigned i = 0; i < thread_count; i++) {
		for (struct slot *s = threads[i].slots; s < threads[i].slots + SLOTS; s++) {
			bool goes = context ? s->context == context : !s->context && s->device == device;

			if (goes && (s->kind == LINEAR || s->kind == MANAGED || s->kind == PINNED ||
			             s->kind == REGISTERED || s->kind == ARRAY || s->kind == BLOCK)) {
				free(s->memory);
				*s = (struct slot){0};
			}
		}
	}
}

static void look(struct thread *t)
{
	char text[256];
	int length = snprintf(text, sizeof(text), "books");

	for (int device = 0; device < DEVICES; device++) {
		size_t free_bytes, total;
		void *p;

		/* A context that somebody's call made is in the trace once something is allocated in it. */
		MUST(CALL(cudaSetDevice, device));
		MUST(CALL(cudaMalloc, &p, MIB));
		MUST(CALL(cudaFree, p));
		MUST(CALL(cudaMemGetInfo, &free_bytes, &total));
		length += snprintf(text + length, sizeof(text) - (size_t)length, " %zu", total - free_bytes);
	}
	if (mark)
		mark(text);
	checks++;
}

static void take(struct thread *t, struct slot *s, int device)
{
	static const struct {
		int bits[4];
		int kind;
	} format = {{32, 32, 0, 0}, 2};
	struct vs_array array = {1 + below(t, 500), below(t, 300), 0x20, 2};
	struct vs_array3d array3d = {1 + below(t, 300),    1 + below(t, 200), below(t, 9), 0x10, 4,
	                             (unsigned)below(t, 2)};
	struct extent {
		size_t width, height, depth;
	} extent = {1 + below(t, 200), 1 + below(t, 100), 1 + below(t, 4)};
	struct pitched {
		void *pointer;
		size_t pitch, width, height;
	} pitched = {NULL, 0, 0, 0};
	size_t size = some_size(t), pitch;
	void *out = NULL;
	int r = 0;

	s->device = device;
	switch (below(t, 8)) {
	case 0:
		s->kind = LINEAR;
		switch (below(t, 5)) {
		case 0:
			r = CALL(cudaMalloc, &out, size);
			break;
		case 1:
			r = CALL(cuMemAlloc_v2, &out, size);
			break;
		case 2:
			r = CALL(cudaMallocPitch, &out, &pitch, 1 + size / 64, (size_t)64);
			break;
		case 3:
			r = CALL(cuMemAllocPitch_v2, &out, &pitch, 1 + size / 64, (size_t)64, 4);
			break;
		default:
			r = CALL(cudaMalloc3D, &pitched, extent);
			out = pitched.pointer;
			break;
		}
		break;
	case 1:
		s->kind = MANAGED;
		r = below(t, 2) ? CALL(cudaMallocManaged, &out, size, 1) : CALL(cuMemAllocManaged, &out, size, 1);
		break;
	case 2:
		s->kind = PINNED;
		switch (below(t, 3)) {
		case 0:
			r = CALL(cudaMallocHost, &out, size);
			break;
		case 1:
			r = CALL(cudaHostAlloc, &out, size, 0);
			break;
		default:
			r = CALL(cuMemHostAlloc, &out, size, 0);
			break;
		}
		break;
	case 3:
		s->kind = REGISTERED;
		out = s->memory = malloc(4096);
		r = below(t, 2) ? CALL(cudaHostRegister, out, (size_t)4096, 0)
		                : CALL(cuMemHostRegister_v2, out, (size_t)4096, 0);
		break;
	case 4:
		s->kind = ARRAY;
		switch (below(t, 6)) {
		case 0:
			r = CALL(cudaMallocArray, &out, &format, array.width, array.height, 0);
			break;
		case 1:
			r = CALL(cudaMalloc3DArray, &out, &format, extent, 0);
			break;
		case 2:
			r = CALL(cudaMallocMipmappedArray, &out, &format, extent, 3, 0);
			break;
		case 3:
			r = CALL(cuArrayCreate_v2, &out, &array);
			break;
		case 4:
			r = CALL(cuArray3DCreate_v2, &out, &array3d);
			break;
		default:
			r = CALL(cuMipmappedArrayCreate, &out, &array3d, 4);
			break;
		}
		break;
	default:
		s->kind = BLOCK;
		s->context = 0;
		for (struct slot *p = t->slots; p < t->slots + SLOTS; p++) {
			if (p->kind != POOL || below(t, 3))
				continue;
			s->device = p->device;
			r = below(t, 2) ? CALL(cudaMallocFromPoolAsync, &out, size, (void *)p->a, NULL)
			                : CALL(cuMemAllocFromPoolAsync, &out, size, (void *)p->a, NULL);
			break;
		}
		if (!out && !r)
			r = below(t, 2) ? CALL(cudaMallocAsync, &out, size, NULL)
			                : CALL(cuMemAllocAsync, &out, size, NULL);
		break;
	}
	if (r) {
		free(s->memory);
		*s = (struct slot){0};
		return;
	}
	s->a = (uintptr_t)out;
	s->size = size;
}

static int give(struct thread *t, enum kind kind, uint64_t address)
{
	void *p = (void *)(uintptr_t)address;

	switch (kind) {
	case LINEAR:
	case MANAGED:
	case MAPPED_EXTERNAL:
		return below(t, 2) ? CALL(cudaFree, p) : CALL(cuMemFree_v2, address);
	case PINNED:
		return below(t, 2) ? CALL(cudaFreeHost, p) : CALL(cuMemFreeHost, p);
	case REGISTERED:
		return below(t, 2) ? CALL(cudaHostUnregister, p) : CALL(cuMemHostUnregister, p);
	case ARRAY:
		switch (below(t, 3)) {
		case 0:
			return CALL(cudaFreeArray, p);
		case 1:
			return CALL(cuArrayDestroy, p);
		default:
			return CALL(cuMipmappedArrayDestroy, p);
		}
	case BLOCK:
		switch (below(t, 4)) {
		case 0:
			return CALL(cudaFree, p);
		case 1:
			return CALL(cuMemFree_v2, address);
		case 2:
			return CALL(cuMemFreeAsync, address, NULL);
		default:
			return CALL(cudaFreeAsync, p, NULL);
		}
	default:
		return 0;
	}
}

/* Physical memory: mapped up to twice, its address asked for the handle, released before or after its mappings. */
static void physical(struct thread *t, struct slot *s, int device)
{
	struct vs_allocation_prop prop = {.type = 1, .location = {VS_LOCATION_DEVICE, device}};
	uint64_t handle;

	if (s->kind == NONE) {
		s->size = (1 + below(t, 6)) * 2 * MIB;
		if (!below(t, 8))
			prop.location = (struct vs_location){VS_LOCATION_HOST, 0};
		if (CALL(cuMemCreate, &s->a, s->size, &prop, 0ULL))
			return;
		MUST(CALL(cuMemAddressReserve, &s->b, 3 * s->size, (size_t)0, (uint64_t)0, 0ULL));
		*s = (struct slot){
		    .kind = PHYSICAL, .device = device, .a = s->a, .b = s->b, .size = s->size, .references = 1};
		return;
	}
	switch (below(t, 5)) {
	case 0:
	case 1:
		if (s->references && s->mapped < 2) {
			MUST(CALL(cuMemMap, s->b + s->mapped * s->size, s->size, (size_t)0, s->a, 0ULL));
			s->mapped++;
		}
		break;
	case 2:
		if (s->mapped) {
			MUST(CALL(cuMemRetainAllocationHandle, &handle, (void *)(s->b + 1)));
			if (handle != s->a)
				die("another handle");
			s->references++;
		}
		break;
	case 3:
		if (s->references) {
			MUST(CALL(cuMemRelease, s->a));
			s->references--;
		}
		break;
	default:
		MUST_FAIL(CALL(cuMemUnmap, s->b, 3 * s->size)); /* not all of it is mapped */
		if (s->mapped)
			MUST(CALL(cuMemUnmap, s->b, s->mapped * s->size));
		s->mapped = 0;
		break;
	}
	if (!s->references && !s->mapped) {
		MUST(CALL(cuMemAddressFree, s->b, 3 * s->size));
		*s = (struct slot){0};
	}
}

static void end_physical(struct thread *t, struct slot *s)
{
	for (; s->references; s->references--)
		MUST(CALL(cuMemRelease, s->a));
	if (s->mapped)
		MUST(CALL(cuMemUnmap, s->b, s->mapped * s->size));
	MUST(CALL(cuMemAddressFree, s->b, 3 * s->size));
	*s = (struct slot){0};
}

static void graph(struct thread *t, struct slot *s, int device)
{
	struct vs_alloc_node node = {.pool = {.type = 1, .location = {VS_LOCATION_DEVICE, device}}};
	void *made = NULL, *exec, *handle, *p;

	if (s->kind == NONE) {
		if (below(t, 2)) {
			MUST(CALL(cudaGraphCreate, &made, 0));
			node.size = some_size(t);
			MUST(below(t, 2) ? CALL(cudaGraphAddMemAllocNode, &handle, made, NULL, (size_t)0, &node)
			                 : CALL(cuGraphAddMemAllocNode, &handle, made, NULL, (size_t)0, &node));
			MUST(CALL(cudaGraphAddMemFreeNode, &handle, made, NULL, (size_t)0, (void *)node.address));
		} else {
			MUST(CALL(cudaStreamBeginCapture, t->stream, 0));
			MUST(CALL(cudaMallocAsync, &p, some_size(t), t->stream));
			MUST(CALL(cudaFreeAsync, p, t->stream));
			MUST(CALL(cudaStreamEndCapture, t->stream, &made));
		}
		MUST(CALL(cudaGraphInstantiate, &exec, made, 0ULL));
		*s = (struct slot){.kind = GRAPH, .device = device, .a = (uintptr_t)made, .b = (uintptr_t)exec};
		return;
	}
	switch (below(t, 4)) {
	case 0:
		(void)CALL(cudaGraphUpload, (void *)s->b, NULL);
		break;
	case 1:
		(void)CALL(cuGraphLaunch, (void *)s->b, NULL);
		break;
	case 2:
		(void)CALL(cudaGraphLaunch, (void *)s->b, NULL);
		break;
	default:
		MUST(CALL(cudaGraphExecDestroy, (void *)s->b));
		MUST(CALL(cudaGraphDestroy, (void *)s->a));
		*s = (struct slot){0};
		break;
	}
}

static void pool(struct thread *t, struct slot *s, int device)
{
	struct vs_pool_props props = {.type = 1, .location = {VS_LOCATION_DEVICE, device}};
	uint64_t threshold = below(t, 2) ? 0 : below(t, 64 * MIB);
	void *made;

	if (s->kind == NONE) {
		MUST(below(t, 2) ? CALL(cudaMemPoolCreate, &made, &props) : CALL(cuMemPoolCreate, &made, &props));
		MUST(CALL(cudaMemPoolSetAttribute, made, 4, &threshold));
		*s = (struct slot){.kind = POOL, .device = device, .a = (uintptr_t)made};
		return;
	}
	switch (below(t, 3)) {
	case 0:
		MUST(CALL(cudaMemPoolTrimTo, (void *)s->a, (size_t)below(t, 8 * MIB)));
		break;
	case 1:
		MUST(CALL(cuMemPoolTrimTo, (void *)s->a, (size_t)0));
		break;
	default: /* with blocks in use, or without */
		MUST(below(t, 2) ? CALL(cudaMemPoolDestroy, (void *)s->a) : CALL(cuMemPoolDestroy, (void *)s->a));
		*s = (struct slot){0};
		break;
	}
}

/* Given away, and taken back by who gave it: on a card that is another process. */
static void share_physical(struct thread *t, struct slot *s, int device)
{
	struct vs_allocation_prop prop = {
	    .type = 1, .requested_handle_types = 1, .location = {VS_LOCATION_DEVICE, device}};
	struct {
		unsigned devices;
		size_t size;
		uint64_t handles, flags;
	} multicast = {DEVICES, 4 * MIB, 1, 0};
	uint64_t handle, imported, object, size = (1 + below(t, 4)) * 2 * MIB;
	int descriptor;

	if (CALL(cuMemCreate, &handle, size, &prop, 0ULL))
		return;
	MUST(CALL(cuMemExportToShareableHandle, &descriptor, handle, 1, 0ULL));
	MUST(CALL(cuMemImportFromShareableHandle, &imported, (void *)(uintptr_t)descriptor, 1));
	close(descriptor);
	MUST(CALL(cuMulticastCreate, &object, &multicast));
	for (int i = 0; i < DEVICES; i++)
		MUST(CALL(cuMulticastAddDevice, object, i));
	MUST(CALL(cuMulticastBindMem, object, (size_t)0, handle, (size_t)0, (size_t)size, 0ULL));
	MUST(CALL(cuMemRelease, object));
	*s = (struct slot){.kind = SHARED, .device = device, .size = size};
	MUST(CALL(cuMemAddressReserve, &s->b, 2 * size, (size_t)0, (uint64_t)0, 0ULL));
	MUST(CALL(cuMemMap, s->b, (size_t)size, (size_t)0, handle, 0ULL));
	MUST(CALL(cuMemMap, s->b + size, (size_t)size, (size_t)0, imported, 0ULL));
	MUST(CALL(cuMemRelease, below(t, 2) ? handle : imported));
	MUST(CALL(cuMemRetainAllocationHandle, &object, (void *)(s->b + size)));
	if (object != imported)
		die("another handle");
	for (uint64_t i = 0; i < 2; i++) {
		/* Whoever was released before is not any more. */
		(void)CALL(cuMemRelease, handle);
		(void)CALL(cuMemRelease, imported);
	}
}

static void end_shared(struct thread *t, struct slot *s)
{
	MUST(CALL(cuMemUnmap, s->b, 2 * s->size));
	MUST(CALL(cuMemAddressFree, s->b, 2 * s->size));
	*s = (struct slot){0};
}

static void share_pool(struct thread *t, struct slot *s, int device)
{
	struct vs_pool_props props = {.type = 1, .handle_types = 1, .location = {VS_LOCATION_DEVICE, device}};
	void *own, *imported, *block, *theirs;
	unsigned char exported[64];
	int descriptor;
	bool driver = below(t, 2);

	MUST(CALL(cudaMemPoolCreate, &own, &props));
	if (CALL(cudaMallocFromPoolAsync, &block, some_size(t), own, NULL)) {
		MUST(CALL(cudaMemPoolDestroy, own));
		return;
	}
	MUST(driver ? CALL(cuMemPoolExportToShareableHandle, &descriptor, own, 1, 0ULL)
	            : CALL(cudaMemPoolExportToShareableHandle, &descriptor, own, 1, 0));
	MUST(driver ? CALL(cuMemPoolImportFromShareableHandle, &imported, (void *)(uintptr_t)descriptor, 1, 0ULL)
	            : CALL(cudaMemPoolImportFromShareableHandle, &imported, (void *)(uintptr_t)descriptor, 1, 0));
	close(descriptor);
	MUST(driver ? CALL(cuMemPoolExportPointer, exported, block)
	            : CALL(cudaMemPoolExportPointer, exported, block));
	MUST(driver ? CALL(cuMemPoolImportPointer, &theirs, imported, exported)
	            : CALL(cudaMemPoolImportPointer, &theirs, imported, exported));
	MUST(CALL(cudaMemPoolDestroy, imported));
	if (below(t, 2)) {
		MUST(CALL(cudaFreeAsync, block, NULL));
		MUST(CALL(cudaMemPoolDestroy, own));
		*s = (struct slot){.kind = MAPPED_EXTERNAL, .device = device, .a = (uintptr_t)theirs};
	} else {
		MUST(CALL(cudaFreeAsync, theirs, NULL));
		MUST(CALL(cudaMemPoolDestroy, own));
		*s = (struct slot){.kind = BLOCK, .device = device, .a = (uintptr_t)block};
	}
}

static void others(struct thread *t, struct slot *s)
{
	struct vs_external_memory from = {.type = 1, .size = some_size(t)};
	struct vs_external_buffer part = {0, 1};
	struct {
		unsigned devices;
		size_t size;
		uint64_t handles, flags;
	} multicast = {2, 4 * MIB, 0, 0};
	uint64_t handle;
	void *out;

	switch (s->kind) {
	case NONE:
		if (below(t, 3) == 0) {
			MUST(CALL(cuModuleLoadData, &out, "image"));
			*s = (struct slot){.kind = MODULE, .a = (uintptr_t)out};
			return;
		}
		MUST(CALL(cuMulticastCreate, &handle, &multicast));
		MUST(CALL(cuMemRelease, handle));
		MUST(CALL(cudaImportExternalMemory, &out, &from));
		*s = (struct slot){.kind = EXTERNAL, .a = (uintptr_t)out, .size = from.size};
		break;
	case EXTERNAL:
		part.size = 1 + below(t, s->size);
		MUST(CALL(cudaExternalMemoryGetMappedBuffer, &out, (void *)s->a, &part));
		MUST(CALL(cudaDestroyExternalMemory, (void *)s->a));
		*s = (struct slot){.kind = MAPPED_EXTERNAL, .a = (uintptr_t)out};
		break;
	case MODULE:
		MUST(CALL(cuModuleUnload, (void *)s->a));
		*s = (struct slot){0};
		break;
	default:
		break;
	}
}

/* What must be refused, and leave everything as it is. */
static void wrong(struct thread *t, struct slot *s)
{
	struct vs_ipc_handle ipc = {{(unsigned char)below(t, 256)}};
	struct vs_allocation_prop prop = {.type = 1, .location = {VS_LOCATION_DEVICE, 0}};
	uint64_t garbage = below(t, 2) ? below(t, UINT32_MAX) << 20 | 12345 : UINT64_MAX - below(t, 1000);
	void *p = (void *)1;

	switch (below(t, 20)) {
	case 0:
		MUST_FAIL(CALL(cudaMalloc, NULL, MIB));
		break;
	case 1:
		MUST_FAIL(CALL(cuMemAlloc_v2, NULL, MIB));
		break;
	case 2:
		MUST_FAIL(CALL(cudaMalloc, &p, (size_t)1 << 63));
		break;
	case 3:
		MUST_FAIL(CALL(cudaMallocAsync, &p, SIZE_MAX - 5, NULL));
		break;
	case 4:
		MUST(CALL(cudaMalloc, &p, (size_t)0));
		MUST_FAIL(CALL(cuMemAlloc_v2, &p, (size_t)0));
		break;
	case 5:
		MUST_FAIL(CALL(cudaFree, (void *)garbage));
		break;
	case 6:
		MUST_FAIL(CALL(cuMemFree_v2, garbage));
		break;
	case 7:
		MUST_FAIL(CALL(cuMemRelease, garbage));
		break;
	case 8:
		MUST_FAIL(CALL(cudaFreeAsync, (void *)garbage, NULL));
		break;
	case 9:
		MUST_FAIL(CALL(cudaFreeHost, (void *)garbage));
		MUST_FAIL(CALL(cudaHostUnregister, (void *)garbage));
		break;
	case 10:
		MUST_FAIL(CALL(cudaIpcOpenMemHandle, &p, ipc, 1));
		MUST_FAIL(CALL(cuIpcOpenMemHandle_v2, NULL, ipc, 1));
		MUST_FAIL(CALL(cudaIpcCloseMemHandle, (void *)garbage));
		break;
	case 11:
		MUST_FAIL(CALL(cuMemCreate, &garbage, (size_t)1 << 63, &prop, 0ULL));
		MUST_FAIL(CALL(cuMemCreate, NULL, 2 * MIB, &prop, 0ULL));
		MUST_FAIL(CALL(cuMemCreate, &garbage, 2 * MIB, NULL, 0ULL));
		break;
	case 12:
		MUST_FAIL(CALL(cuMemMap, garbage, 2 * MIB, (size_t)0, garbage, 0ULL));
		MUST_FAIL(CALL(cuMemUnmap, garbage, 2 * MIB));
		MUST_FAIL(CALL(cuMemAddressFree, garbage, 2 * MIB));
		break;
	case 13:
		MUST_FAIL(CALL(cudaMallocArray, NULL, NULL, (size_t)4, (size_t)4, 0));
		MUST_FAIL(CALL(cuArray3DCreate_v2, &p, NULL));
		MUST_FAIL(CALL(cuArrayDestroy, (void *)garbage));
		break;
	case 14:
		MUST_FAIL(CALL(cuMemPoolCreate, NULL, NULL));
		MUST_FAIL(CALL(cuMemPoolDestroy, (void *)garbage));
		MUST_FAIL(CALL(cuMemAllocFromPoolAsync, &p, MIB, (void *)garbage, NULL));
		MUST_FAIL(CALL(cudaMemPoolTrimTo, NULL, (size_t)0));
		break;
	default: /* what is there, by another family's call, or from its middle */
		if (s->kind == ARRAY)
			MUST_FAIL(CALL(cudaFree, (void *)s->a));
		if (s->kind == LINEAR)
			MUST_FAIL(CALL(cuArrayDestroy, (void *)s->a));
		if (s->kind == PHYSICAL)
			MUST_FAIL(CALL(cuMemUnmap, s->b, 3 * s->size));
		if (s->kind == LINEAR || s->kind == BLOCK || s->kind == MANAGED)
			MUST_FAIL(CALL(cudaFree, (void *)(s->a + 1)));
		break;
	}
}

/* With everybody else waiting. */
static void alone(struct thread *t, struct slot *s, int device)
{
	void *context, *p;

	switch (below(t, 12)) {
	case 0: /* frees twice, by either's call */
	case 1:
	case 2:
	case 3:
	case 4:
		if (s->kind >= LINEAR && s->kind <= BLOCK) {
			enum kind kind = s->kind;
			uint64_t address = s->a;

			MUST(give(t, kind, address));
			MUST_FAIL(give(t, kind, address));
			free(s->memory);
			*s = (struct slot){0};
		} else if (s->kind == PHYSICAL) {
			unsigned references = s->references;

			for (; s->references; s->references--)
				MUST(CALL(cuMemRelease, s->a));
			MUST_FAIL(CALL(cuMemRelease, s->a));
			if (references && !s->mapped)
				physical(t, s, device);
		}
		break;
	case 5:
		MUST(below(t, 2) ? CALL(cudaDeviceReset) : CALL(cuDevicePrimaryCtxReset_v2, device));
		forget(device, 0);
		break;
	case 6:
		MUST(CALL(cuDevicePrimaryCtxRetain, &context, device));
		MUST(CALL(cuDevicePrimaryCtxRelease_v2, device));
		break;
	case 7:
	case 8:
	case 9: /* a context of one's own: what is left in it goes with it */
		if (CALL(cuCtxCreate_v2, &context, 0, device))
			break;
		for (int i = 0; i < 6; i++) {
			struct slot inside = {.context = 1};

			take(t, &inside, device);
			if (inside.kind == BLOCK || (inside.kind && below(t, 2))) {
				MUST(give(t, inside.kind, inside.a));
				free(inside.memory);
			} else if (inside.kind == REGISTERED) {
				MUST(give(t, inside.kind, inside.a));
				free(inside.memory);
			}
		}
		if (below(t, 2)) {
			unsigned more = (unsigned)below(t, 3);

			for (unsigned i = 0; i < more; i++)
				MUST(CALL(cuCtxAttach, &p, 0));
			for (unsigned i = 0; i <= more; i++)
				MUST(CALL(cuCtxDetach, context));
		} else {
			MUST(CALL(cuCtxDestroy_v2, context));
		}
		MUST_FAIL(CALL(cuCtxDestroy_v2, context));
		break;
	default:
		MUST_FAIL(CALL(cuCtxDestroy_v2, NULL));
		MUST(CALL(cudaMalloc, &p, MIB));
		MUST(CALL(cudaFree, p));
		break;
	}
}

static void step(struct thread *t)
{
	struct slot *s = &t->slots[below(t, SLOTS)];
	int device = (int)below(t, DEVICES);

	MUST(CALL(cudaSetDevice, device));
	switch (below(t, 16)) {
	case 0:
		wrong(t, s);
		return;
	case 1:
		(void)(below(t, 2) ? CALL(cudaStreamSynchronize, NULL) : CALL(cuStreamSynchronize, NULL));
		(void)(below(t, 2) ? CALL(cudaDeviceSynchronize) : CALL(cuCtxSynchronize));
		return;
	case 2:
		if (!below(t, 4))
			MUST(below(t, 2) ? CALL(cudaDeviceGraphMemTrim, device) : CALL(cuDeviceGraphMemTrim, device));
		return;
	default:
		break;
	}
	switch (s->kind) {
	case NONE:
		switch (below(t, 12)) {
		case 0:
		case 1:
			physical(t, s, device);
			break;
		case 2:
			graph(t, s, device);
			break;
		case 3:
			pool(t, s, device);
			break;
		case 4:
			others(t, s);
			break;
		case 5:
			if (below(t, 2))
				share_physical(t, s, device);
			else
				share_pool(t, s, device);
			break;
		default:
			take(t, s, device);
			break;
		}
		break;
	case PHYSICAL:
		physical(t, s, s->device);
		break;
	case GRAPH:
		graph(t, s, s->device);
		break;
	case POOL:
		pool(t, s, s->device);
		break;
	case EXTERNAL:
	case MODULE:
		others(t, s);
		break;
	case SHARED:
		end_shared(t, s);
		break;
	default:
		MUST(give(t, s->kind, s->a));
		free(s->memory);
		*s = (struct slot){0};
		break;
	}
}

static void clear(struct thread *t)
{
	for (struct slot *s = t->slots; s < t->slots + SLOTS; s++) {
		switch (s->kind) {
		case PHYSICAL:
			end_physical(t, s);
			break;
		case SHARED:
			end_shared(t, s);
			break;
		case GRAPH:
			MUST(CALL(cudaGraphExecDestroy, (void *)s->b));
			MUST(CALL(cudaGraphDestroy, (void *)s->a));
			break;
		case POOL:
			break; /* below */
		case EXTERNAL:
			MUST(CALL(cudaDestroyExternalMemory, (void *)s->a));
			break;
		case MODULE:
			MUST(CALL(cuModuleUnload, (void *)s->a));
			break;
		case NONE:
			break;
		default:
			MUST(give(t, s->kind, s->a));
			free(s->memory);
			break;
		}
	}
	for (struct slot *s = t->slots; s < t->slots + SLOTS; s++)
		if (s->kind == POOL)
			MUST(CALL(cudaMemPoolDestroy, (void *)s->a));
}

static void *run(void *argument)
{
	struct thread *t = argument;

	MUST(CALL(cudaStreamCreate, &t->stream));
	while (calls < wanted) {
		if (calls >= next_check) {
			pthread_rwlock_wrlock(&quiet);
			if (calls >= next_check) {
				look(t);
				next_check = calls + wanted / CHECKS;
			}
			pthread_rwlock_unlock(&quiet);
		}
		if (!below(t, 64)) {
			struct slot *s = &threads[below(t, thread_count)].slots[below(t, SLOTS)];
			int device;

			/* Another thread's things, too: frees in another thread. */
			pthread_rwlock_wrlock(&quiet);
			device = s->kind ? s->device : (int)below(t, DEVICES);
			MUST(CALL(cudaSetDevice, device));
			alone(t, s, device);
			pthread_rwlock_unlock(&quiet);
		} else {
			pthread_rwlock_rdlock(&quiet);
			step(t);
			pthread_rwlock_unlock(&quiet);
		}
	}
	return NULL;
}

static void find_ways(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *itself = dlopen(NULL, RTLD_NOW);
	int (*get)(const char *, void **, int, uint64_t, int *) =
	    (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
	int (*by_version)(const char *, void **, unsigned, unsigned long long, int *) =
	    (int (*)(const char *, void **, unsigned, unsigned long long, int *))dlsym(
	        RTLD_DEFAULT, "cudaGetDriverEntryPointByVersion");

	if (!driver || !get || !by_version)
		die("no driver");
	for (int f = 0; f < COUNT; f++) {
		ways[f][0] = (any_function *)dlsym(RTLD_DEFAULT, names[f].name);
		ways[f][1] = (any_function *)dlsym(itself, names[f].name);
		if (!ways[f][0])
			die(names[f].name);
		if (!*names[f].base)
			continue;
		ways[f][2] = (any_function *)dlsym(driver, names[f].name);
		/* Either flavour of the default stream. */
		get(names[f].base, (void **)&ways[f][3], names[f].version, f % 2 ? 2 : 0, NULL);
		by_version(names[f].base, (void **)&ways[f][4], (unsigned)names[f].version, f % 3 ? 0 : 2, NULL);
		if (!ways[f][2] || !ways[f][3] || !ways[f][4])
			die(names[f].name);
	}
}

int main(int argc, char **argv)
{
	pthread_t ids[THREADS_MAX];
	struct thread *t = &threads[0];

	if (argc < 3)
		return 2;
	wanted = strtoull(argv[2], NULL, 10);
	thread_count = argc > 3 ? (unsigned)atoi(argv[3]) : 4;
	if (thread_count < 1 || thread_count > THREADS_MAX)
		return 2;
	mark = (void (*)(const char *))dlsym(RTLD_DEFAULT, "vramshim_mark");
	find_ways();
	for (unsigned i = 0; i < thread_count; i++)
		threads[i].state = strtoull(argv[1], NULL, 10) * 1000 + i;
	look(t);
	for (unsigned i = 0; i < thread_count; i++)
		if (pthread_create(&ids[i], NULL, run, &threads[i]))
			die("no thread");
	for (unsigned i = 0; i < thread_count; i++)
		pthread_join(ids[i], NULL);
	look(t);
	for (unsigned i = 0; i < thread_count; i++)
		clear(&threads[i]);
	for (int device = 0; device < DEVICES; device++) {
		MUST(CALL(cudaSetDevice, device));
		MUST(CALL(cudaDeviceSynchronize));
		MUST(CALL(cudaDeviceGraphMemTrim, device));
	}
	look(t);
	if (mark)
		mark("empty");
	printf("%llu calls by %u threads, results %016llx, the books marked %u times\n", (unsigned long long)calls,
	       thread_count, (unsigned long long)t->results, checks);
	return 0;
}
