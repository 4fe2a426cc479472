/* SPDX-License-Identifier: MIT
 *
 * What the simulated device answers at the public API: test_api LIBVRAMSIM.
 * Every test is a child of its own, because a process configures its device
 * once. Names are looked up, nothing is linked.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/cuda_api.h"
#include "sim/properties.h"

#define MIB (UINT64_C(1) << 20)

static void *library;

static void *look_up(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no %s\n", name);
		_exit(2);
	}
	return found;
}

/* Every entry point used here returns int and takes integers and pointers. */
#define CALL(name, ...) (((int (*)())look_up(#name))(__VA_ARGS__))

#define CHECK(condition)                                                                                             \
	do {                                                                                                         \
		if (!(condition)) {                                                                                  \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
			_exit(1);                                                                                    \
		}                                                                                                    \
	} while (0)

/* Run `test` in a child; returns its wait status. */
static int child(void (*test)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		setenv("VRAMSIM_GPU", "t4", 1);
		setenv("VRAMSIM_COUNT", "2", 1);
		setenv("VRAMSIM_MEMORY", "1073741824", 1);
		unsetenv("CUDA_VISIBLE_DEVICES");
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define PASSES(name)                                                                                                 \
	static void name(void);                                                                                      \
	static void test_##name(void **state)                                                                        \
	{                                                                                                            \
		(void)state;                                                                                         \
		assert_int_equal(child(name), 0);                                                                    \
	}                                                                                                            \
	static void name(void)

PASSES(devices)
{
	struct vs_properties_13 new;
	struct vs_properties_12 old;
	int count = 0, value = 0;
	char id[16];

	CHECK(CALL(cudaGetDeviceCount, &count) == CU_OK && count == 2);
	CHECK(CALL(cudaGetDeviceProperties, &new, 1) == CU_OK);
	CHECK(CALL(cudaGetDeviceProperties_v2, &old, 1) == CU_OK);
	CHECK(!strcmp(new.name, "Tesla T4") && !strcmp(old.name, "Tesla T4"));
	CHECK(new.total_global_mem == 1024 * MIB &&old.total_global_mem == 1024 * MIB);
	CHECK(new.multi_processor_count == 40 && old.multi_processor_count == 40);
	CHECK(new.shared_mem_per_block_optin == 65536 && new.max_threads_dim[2] == 64);
	CHECK(new.warp_size == 32 && new.max_grid_size[0] == 2147483647 && old.clock_rate == 1590000);
	CHECK(CALL(cudaDeviceGetAttribute, &value, 97, 0) == CU_OK && value == 65536);
	CHECK(CALL(cuDeviceGetAttribute, &value, 75, 0) == CU_OK && value == 7);
	CHECK(CALL(cudaDeviceGetAttribute, &value, 100000, 0) == CU_INVALID_VALUE);
	CHECK(CALL(cudaDeviceGetAttribute, &value, 97, 2) == CU_INVALID_DEVICE);
	CHECK(CALL(cudaSetDevice, 2) == CU_INVALID_DEVICE);
	CHECK(CALL(cudaSetDevice, 1) == CU_OK && CALL(cudaGetDevice, &value) == CU_OK && value == 1);
	CHECK(CALL(cudaDeviceGetPCIBusId, id, 16, 1) == CU_OK && !strcmp(id, "0000:02:00.0"));
	CHECK(CALL(cudaDeviceGetPCIBusId, id, 5, 1) == CU_INVALID_VALUE);
	CHECK(CALL(cudaDeviceGetByPCIBusId, &value, "0000:02:00.0") == CU_OK && value == 1);
}

PASSES(errors_stay_until_they_are_read)
{
	CHECK(CALL(cudaSetDevice, 7) == CU_INVALID_DEVICE);
	CHECK(CALL(cudaSetDevice, 0) == CU_OK);
	CHECK(CALL(cudaPeekAtLastError) == CU_INVALID_DEVICE);
	CHECK(CALL(cudaGetLastError) == CU_INVALID_DEVICE);
	CHECK(CALL(cudaGetLastError) == CU_OK);
	CHECK(!strcmp(((const char *(*)(int))look_up("cudaGetErrorName"))(2), "cudaErrorMemoryAllocation"));
	CHECK(!strcmp(((const char *(*)(int))look_up("cudaGetErrorString"))(2), "out of memory"));
}

PASSES(memory)
{
	size_t before, after, total;
	void *p = NULL, *q = (void *)7;

	CHECK(CALL(cudaMemGetInfo, &before, &total) == CU_OK);
	CHECK(total == 1024 * MIB);
	CHECK(before == total - (size_t)((uint64_t(*)(int))look_up("vramsim_context_bytes"))(0));
	CHECK(CALL(cudaMalloc, &p, (size_t)(3 * MIB)) == CU_OK && p);
	CHECK(CALL(cudaMemGetInfo, &after, &total) == CU_OK && before - after == 4 * MIB);
	CHECK(CALL(cudaMalloc, &q, (size_t)(1025 * MIB)) == CU_OUT_OF_MEMORY && q == (void *)7);
	CHECK(CALL(cudaMalloc, NULL, (size_t)1) == CU_INVALID_VALUE);
	CHECK(CALL(cudaMalloc, &q, (size_t)0) == CU_OK && !q);
	CHECK(CALL(cudaFree, (char *)p + 512) == CU_INVALID_VALUE);
	CHECK(CALL(cudaFree, &q) == CU_INVALID_VALUE);
	CHECK(CALL(cudaFree, p) == CU_OK);
	CHECK(CALL(cudaFree, p) == CU_INVALID_VALUE);
	CHECK(CALL(cudaFree, NULL) == CU_OK);
	CHECK(CALL(cudaMemGetInfo, &after, &total) == CU_OK && before == after);
	CHECK(CALL(cuMemGetInfo_v2, NULL, &total) == CU_OK);
	CHECK(CALL(cuMemAlloc_v2, &p, (size_t)0) == CU_INVALID_VALUE);
}

PASSES(pointers)
{
	struct vs_pointer_attributes attributes;
	void *device, *pinned, *managed;
	int own = 0;

	CHECK(CALL(cudaSetDevice, 1) == CU_OK);
	CHECK(CALL(cudaMalloc, &device, (size_t)(8 * MIB)) == CU_OK);
	CHECK(CALL(cudaHostAlloc, &pinned, (size_t)100, 0) == CU_OK);
	CHECK(CALL(cudaMallocManaged, &managed, (size_t)100, 1) == CU_OK);
	CHECK(CALL(cudaPointerGetAttributes, &attributes, (char *)device + 1) == CU_OK);
	CHECK(attributes.type == VS_TYPE_DEVICE && attributes.device == 1 && !attributes.host_pointer);
	CHECK(CALL(cudaPointerGetAttributes, &attributes, pinned) == CU_OK);
	CHECK(attributes.type == VS_TYPE_HOST && attributes.host_pointer == pinned);
	CHECK(CALL(cudaPointerGetAttributes, &attributes, managed) == CU_OK);
	CHECK(attributes.type == VS_TYPE_MANAGED);
	CHECK(CALL(cudaPointerGetAttributes, &attributes, &own) == CU_OK);
	CHECK(attributes.type == VS_TYPE_NONE);
	CHECK(CALL(cudaFreeHost, managed) == CU_INVALID_VALUE);
	CHECK(CALL(cudaFree, managed) == CU_OK && CALL(cudaFreeHost, pinned) == CU_OK);
}

PASSES(copies)
{
	char from[64], to[64], *device, *managed;

	memset(from, 5, sizeof(from));
	memset(to, 7, sizeof(to));
	CHECK(CALL(cudaMalloc, &device, (size_t)1024) == CU_OK);
	CHECK(CALL(cudaMallocManaged, &managed, (size_t)64, 1) == CU_OK);
	CHECK(CALL(cudaMemcpy, to, device, (size_t)32, VS_COPY_D2H) == CU_OK);
	CHECK(to[0] == 0 && to[31] == 0 && to[32] == 7);
	/* What the host wrote is there until a kernel might have changed it. */
	CHECK(CALL(cudaMemcpy, device, from, (size_t)64, VS_COPY_H2D) == CU_OK);
	CHECK(CALL(cudaMemcpy, device + 256, device + 8, (size_t)32, VS_COPY_D2D) == CU_OK);
	CHECK(CALL(cudaMemcpy, to, device + 256, (size_t)32, VS_COPY_D2H) == CU_OK && to[0] == 5 && to[31] == 5);
	CHECK(CALL(cudaMemset, device, 0, (size_t)1) == CU_OK);
	CHECK(CALL(cudaMemcpy, to, device, (size_t)64, VS_COPY_D2H) == CU_OK && to[0] == 0 && to[63] == 0);
	CHECK(CALL(cuLaunchKernel, look_up, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CU_OK);
	CHECK(CALL(cudaMemcpy, to, device + 256, (size_t)32, VS_COPY_DEFAULT) == CU_OK && to[0] == 0 && to[31] == 0);
	CHECK(CALL(cudaMemcpy, to, from, (size_t)64, VS_COPY_DEFAULT) == CU_OK && to[63] == 5);
	CHECK(CALL(cudaMemcpy, managed, from, (size_t)64, VS_COPY_H2D) == CU_OK && managed[63] == 5);
	CHECK(CALL(cudaMemcpyAsync, to, managed, (size_t)64, VS_COPY_D2H, NULL) == CU_OK && to[63] == 5);
	CHECK(CALL(cudaMemset, managed, 9, (size_t)64) == CU_OK && managed[0] == 9);
	CHECK(CALL(cudaMemset, device, 9, (size_t)64) == CU_OK);
	CHECK(CALL(cudaMemset, from, 9, (size_t)64) == CU_OK && from[0] == 5);
	CHECK(CALL(cudaMemcpy, to, from, (size_t)64, 9) == CU_INVALID_VALUE);
	CHECK(CALL(cudaMemcpy2D, to, (size_t)16, device, (size_t)16, (size_t)8, (size_t)4, VS_COPY_D2H) == CU_OK);
	CHECK(to[0] == 0 && to[8] == 5 && to[48] == 0 && to[56] == 5);
}

PASSES(launches)
{
	int (*launch)(const void *, struct vs_dim3, struct vs_dim3, void **, size_t, void *) = (int (*)(
	    const void *, struct vs_dim3, struct vs_dim3, void **, size_t, void *))look_up("cudaLaunchKernel");
	struct vs_dim3 one = {1, 1, 1}, none = {0, 1, 1}, wide = {1024, 2, 1};
	int blocks = 0;

	CHECK(launch(look_up, one, one, NULL, 0, NULL) == CU_OK);
	CHECK(launch(look_up, none, one, NULL, 0, NULL) == CU_INVALID_CONFIGURATION);
	CHECK(launch(look_up, one, wide, NULL, 0, NULL) == CU_INVALID_CONFIGURATION);
	CHECK(launch(look_up, one, one, NULL, 65537, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, look_up, 256, (size_t)0) == CU_OK);
	CHECK(blocks == 4); /* 1024 threads a multiprocessor */
	CHECK(CALL(cudaFuncSetAttribute, look_up, 8, 65536) == CU_OK);
	CHECK(CALL(cudaFuncSetAttribute, look_up, 8, 65537) == CU_INVALID_VALUE);
}

static int calls;

static void count_call(void *data)
{
	calls += *(int *)data;
}

PASSES(captures)
{
	unsigned long long id = 0;
	void *stream, *other, *event, *graph, *exec;
	int status = 9, three = 3;
	size_t nodes = 0;

	CHECK(CALL(cudaStreamCreate, &stream) == CU_OK && CALL(cudaStreamCreate, &other) == CU_OK && stream != other);
	CHECK(CALL(cudaEventCreateWithFlags, &event, 2) == CU_OK);
	CHECK(CALL(cudaStreamBeginCapture, NULL, 0) == CU_CAPTURE_UNSUPPORTED);
	CHECK(CALL(cudaStreamBeginCapture, stream, 0) == CU_OK);
	CHECK(CALL(cudaStreamBeginCapture, stream, 0) == CU_ILLEGAL_STATE);
	CHECK(CALL(cudaStreamIsCapturing, stream, &status) == CU_OK && status == 1);
	CHECK(CALL(cudaStreamIsCapturing, other, &status) == CU_OK && status == 0);
	CHECK(CALL(cudaStreamGetCaptureInfo_v2, stream, &status, &id, NULL, NULL, NULL) == CU_OK && id);
	CHECK(CALL(cudaEventRecord, event, stream) == CU_OK && CALL(cudaStreamWaitEvent, other, event, 0) == CU_OK);
	CHECK(CALL(cudaStreamIsCapturing, other, &status) == CU_OK && status == 1);
	CHECK(CALL(cudaLaunchHostFunc, other, count_call, &three) == CU_OK && calls == 0);
	CHECK(CALL(cudaStreamEndCapture, other, &graph) == CU_CAPTURE_UNMATCHED);
	CHECK(CALL(cudaStreamEndCapture, stream, &graph) == CU_OK);
	CHECK(CALL(cudaStreamIsCapturing, other, &status) == CU_OK && status == 0);
	CHECK(CALL(cudaGraphGetNodes, graph, NULL, &nodes) == CU_OK && nodes == 1);
	CHECK(CALL(cudaGraphInstantiate, &exec, graph, 0ull) == CU_OK && CALL(cudaGraphDestroy, graph) == CU_OK);
	CHECK(CALL(cudaGraphLaunch, exec, stream) == CU_OK && CALL(cudaGraphLaunch, exec, stream) == CU_OK);
	CHECK(calls == 6);
	CHECK(CALL(cudaGraphExecDestroy, exec) == CU_OK);
	CHECK(CALL(cudaLaunchHostFunc, other, count_call, &three) == CU_OK && calls == 9);
}

PASSES(virtual_memory)
{
	struct vs_allocation_prop prop = {.type = 1, .location = {VS_LOCATION_DEVICE, 0}};
	struct vs_access_desc access = {{VS_LOCATION_DEVICE, 0}, 3};
	size_t step = 0, before, after, total;
	uint64_t address, handle;

	CHECK(CALL(cudaMemGetInfo, &before, &total) == CU_OK);
	CHECK(CALL(cuMemGetAllocationGranularity, &step, &prop, 0) == CU_OK && step == 2 * MIB);
	CHECK(CALL(cuMemAddressReserve, &address, (size_t)(20 * MIB), (size_t)0, (uint64_t)0, 0ull) == CU_OK);
	CHECK(CALL(cuMemCreate, &handle, (size_t)(2000 * MIB), &prop, 0ull) == CU_OUT_OF_MEMORY);
	CHECK(CALL(cuMemCreate, &handle, (size_t)(20 * MIB), &prop, 0ull) == CU_OK);
	CHECK(CALL(cuMemMap, address, (size_t)(20 * MIB), (size_t)0, handle, 0ull) == CU_OK);
	CHECK(CALL(cuMemSetAccess, address, (size_t)(20 * MIB), &access, (size_t)1) == CU_OK);
	CHECK(CALL(cuMemRelease, handle) == CU_OK);
	CHECK(CALL(cudaMemGetInfo, &after, &total) == CU_OK && before - after == 20 * MIB);
	CHECK(CALL(cuMemUnmap, address, (size_t)(20 * MIB)) == CU_OK);
	CHECK(CALL(cudaMemGetInfo, &after, &total) == CU_OK && before == after);
	CHECK(CALL(cuMemAddressFree, address, (size_t)(20 * MIB)) == CU_OK);
}

PASSES(entry_points)
{
	void *found = NULL;
	int status = 9;

	CHECK(CALL(cudaGetDriverEntryPointByVersion, "cuMemCreate", &found, 12000, 0ull, &status) == CU_OK);
	CHECK(status == 0 && found == look_up("cuMemCreate"));
	CHECK(CALL(cuGetProcAddress_v2, "cuMemAlloc", &found, 13000, (uint64_t)0, &status) == CU_OK);
	CHECK(found == look_up("cuMemAlloc_v2"));
	CHECK(CALL(cuGetProcAddress_v2, "cuMemAlloc", &found, 2000, (uint64_t)0, &status) == CU_OK);
	CHECK(found == look_up("cuMemAlloc"));
	CHECK(CALL(cuGetProcAddress_v2, "cuMemCreate", &found, 9000, (uint64_t)0, &status) == CU_NOT_FOUND &&
	      status == 2);
	CHECK(!found);
	CHECK(CALL(cuGetProcAddress_v2, "", &found, 13000, (uint64_t)0, &status) == CU_NOT_FOUND && status == 1);
	CHECK(CALL(cuGetProcAddress_v2, NULL, &found, 13000, (uint64_t)0, NULL) == CU_INVALID_VALUE);
}

PASSES(contexts_appear_when_used)
{
	void *context = (void *)7;
	unsigned int flags;
	int active = 9;

	CHECK(CALL(cuInit, 0) == CU_OK);
	CHECK(CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active) == CU_OK && active == 0);
	CHECK(CALL(cuCtxGetCurrent, &context) == CU_OK && !context);
	CHECK(CALL(cudaFree, NULL) == CU_OK);
	CHECK(CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active) == CU_OK && active == 1);
	CHECK(CALL(cuDevicePrimaryCtxGetState, 1, &flags, &active) == CU_OK && active == 0);
	CHECK(CALL(cuCtxGetCurrent, &context) == CU_OK && context);
}

PASSES(a_reset_ends_the_context_and_what_it_held)
{
	size_t before, after, total;
	void *p;

	CHECK(CALL(cudaMemGetInfo, &before, &total) == CU_OK);
	CHECK(CALL(cudaMalloc, &p, (size_t)(8 * MIB)) == CU_OK && CALL(cudaDeviceReset) == CU_OK);
	CHECK(CALL(cudaFree, p) == CU_INVALID_VALUE);
	CHECK(CALL(cudaMemGetInfo, &after, &total) == CU_OK && after == before);
}

PASSES(a_context_of_the_jobs_own_needs_no_primary_one)
{
	size_t before, after, total, context_bytes = ((uint64_t(*)(int))look_up("vramsim_context_bytes"))(1);
	void *context, *pinned, *stream;
	uint64_t p, handle;
	unsigned int flags;
	int active = 9;
	struct vs_allocation_prop prop = {.type = 1, .location = {VS_LOCATION_DEVICE, 1}};

	CHECK(CALL(cuCtxCreate_v2, &context, 0, 1) == CU_OK);
	CHECK(CALL(cuMemGetInfo_v2, &before, &total) == CU_OK && before == total - context_bytes);
	CHECK(CALL(cuMemAlloc_v2, &p, (size_t)(2 * MIB)) == CU_OK);
	CHECK(CALL(cuMemAllocAsync, &p, (size_t)(2 * MIB), NULL) == CU_OK);
	CHECK(CALL(cuMemCreate, &handle, (size_t)(2 * MIB), &prop, (uint64_t)0) == CU_OK);
	CHECK(CALL(cuMemHostAlloc, &pinned, (size_t)4096, 0) == CU_OK && CALL(cuStreamCreate, &stream, 0) == CU_OK);
	CHECK(CALL(cuDevicePrimaryCtxGetState, 1, &flags, &active) == CU_OK && active == 0);
	CHECK(CALL(cuMemGetInfo_v2, &after, &total) == CU_OK && before - after == 6 * MIB);
	/* Without it, as ever. */
	CHECK(CALL(cuCtxDestroy_v2, context) == CU_OK && CALL(cudaSetDevice, 1) == CU_OK);
	CHECK(CALL(cuDevicePrimaryCtxGetState, 1, &flags, &active) == CU_OK && active == 1);
}

PASSES(popping_a_context_gives_the_device_back)
{
	void *context = NULL;
	int device = 9;

	CHECK(CALL(cuDevicePrimaryCtxRetain, &context, 1) == CU_OK);
	CHECK(CALL(cuCtxPushCurrent_v2, context) == CU_OK);
	CHECK(CALL(cudaGetDevice, &device) == CU_OK && device == 1);
	CHECK(CALL(cuCtxPopCurrent_v2, &context) == CU_OK);
	CHECK(CALL(cudaGetDevice, &device) == CU_OK && device == 0);
}

PASSES(a_pool_remembers_its_peak)
{
	uint64_t now = 7, high = 7, zero = 0;
	void *pool, *p;

	CHECK(CALL(cudaDeviceGetDefaultMemPool, &pool, 0) == CU_OK);
	CHECK(CALL(cudaMallocAsync, &p, (size_t)(8 * MIB), NULL) == CU_OK && CALL(cudaFreeAsync, p, NULL) == CU_OK);
	CHECK(CALL(cudaMallocAsync, &p, (size_t)(2 * MIB), NULL) == CU_OK);
	CHECK(CALL(cudaMemPoolGetAttribute, pool, 7, &now) == CU_OK && now == 2 * MIB);
	CHECK(CALL(cudaMemPoolGetAttribute, pool, 8, &high) == CU_OK && high == 8 * MIB);
	CHECK(CALL(cudaMemPoolSetAttribute, pool, 8, &zero) == CU_OK);
	CHECK(CALL(cudaMemPoolGetAttribute, pool, 8, &high) == CU_OK && high == 2 * MIB);
	CHECK(CALL(cudaMemPoolGetAttribute, pool, 9, &high) == CU_INVALID_VALUE);
}

PASSES(nowhere_to_put_the_answer)
{
	CHECK(CALL(cudaGetDevice, NULL) == CU_INVALID_VALUE && CALL(cudaGetDeviceCount, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaGetDeviceFlags, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaChooseDevice, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaDeviceCanAccessPeer, NULL, 0, 1) == CU_INVALID_VALUE);
	CHECK(CALL(cudaDeviceGetP2PAttribute, NULL, 1, 0, 1) == CU_INVALID_VALUE);
	CHECK(CALL(cudaDeviceGetCacheConfig, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaStreamGetPriority, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaStreamGetFlags, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaStreamGetId, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaStreamGetDevice, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cuStreamGetCtx, NULL, NULL) == CU_INVALID_VALUE);
	CHECK(CALL(cudaStreamCreate, NULL) == CU_INVALID_VALUE && CALL(cudaEventCreate, NULL) == CU_INVALID_VALUE);
}

PASSES(odd_sizes)
{
	void *p = (void *)7, *address = NULL;
	size_t pitch = 7;

	CHECK(CALL(cudaMallocPitch, &p, &pitch, SIZE_MAX - 5, (size_t)1) == CU_INVALID_VALUE);
	CHECK(CALL(cudaMallocPitch, &p, &pitch, (size_t)1 << 40, (size_t)1 << 40) == CU_INVALID_VALUE);
	CHECK(CALL(cudaMalloc, &p, (size_t)1 << 63) == CU_OUT_OF_MEMORY);
	CHECK(CALL(cudaMalloc, &p, SIZE_MAX) == CU_OUT_OF_MEMORY);
	CHECK(CALL(cudaHostAlloc, &p, (size_t)1 << 63, 0) == CU_OUT_OF_MEMORY);
	CHECK(p == (void *)7 && pitch == 7);
	CHECK(CALL(cuMemAddressReserve, &address, (size_t)1 << 62, (size_t)0, (uint64_t)0, 0ull) == CU_OUT_OF_MEMORY);
	CHECK(CALL(cudaMalloc, &p, (size_t)512) == CU_OK);
	CHECK(CALL(cuMemHostGetDevicePointer_v2, &address, p, 0) == CU_INVALID_VALUE && !address);
}

PASSES(nvml)
{
	struct {
		unsigned int pid;
		unsigned long long used;
	} process[4];
	unsigned long long memory[3]; /* total, free, used */
	unsigned int count = 0;
	void *card;

	CHECK(CALL(nvmlInit_v2) == 0 && CALL(nvmlDeviceGetCount_v2, &count) == 0 && count == 2);
	CHECK(CALL(nvmlDeviceGetHandleByPciBusId_v2, "00000000:02:00.0", &card) == 0);
	CHECK(CALL(nvmlDeviceGetComputeRunningProcesses, card, &count, process) == 0 && count == 0);
	CHECK(CALL(cudaSetDevice, 1) == CU_OK);
	count = 4;
	CHECK(CALL(nvmlDeviceGetComputeRunningProcesses, card, &count, process) == 0 && count == 1);
	CHECK(process[0].pid == (unsigned int)getpid());
	CHECK(CALL(nvmlDeviceGetMemoryInfo, card, memory) == 0);
	CHECK(memory[0] == 1024 * MIB && memory[2] == process[0].used && memory[1] + memory[2] == memory[0]);
	CHECK(CALL(nvmlDeviceGetHandleByIndex_v2, 2, &card) == 2);
}

PASSES(hidden_cards)
{
	unsigned int installed = 0;
	int count = 9;
	char id[16];

	setenv("CUDA_VISIBLE_DEVICES", "1,7", 1);
	CHECK(CALL(cudaGetDeviceCount, &count) == CU_OK && count == 1);
	CHECK(CALL(cudaDeviceGetPCIBusId, id, 16, 0) == CU_OK && !strcmp(id, "0000:02:00.0"));
	CHECK(CALL(nvmlDeviceGetCount_v2, &installed) == 0 && installed == 2);
}

static void visible(const char *list, int expected)
{
	int count = 9, status;
	pid_t pid = fork();

	if (!pid) {
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		CALL(cudaGetDeviceCount, &count);
		_exit(count);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) != expected)
		fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s: %d\n", list, WEXITSTATUS(status));
	CHECK(WEXITSTATUS(status) == expected);
}

PASSES(lists_of_visible_cards)
{
	visible("1,0", 2);
	visible(" 1 , 0 ", 2);
	visible("0,0", 0);
	visible("1,0,1", 0);
	visible("0,2,1", 1);
	visible("-1", 0);
	visible("0,-1,1", 1);
	visible("0gpu,1", 2);
	visible("1000", 0);
	visible("x", 0);
	visible("GPU-7672616d", 0); /* both */
	visible("GPU-7672616d-7369-6d00-0000-000000000001", 1);
	visible("GPU-7672616d-7369-6d00-0000-000000000007", 0);
}

PASSES(no_visible_card)
{
	int count = 9;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	CHECK(CALL(cudaGetDeviceCount, &count) == CU_NO_DEVICE && count == 0);
	CHECK(CALL(cuInit, 0) == CU_NO_DEVICE);
}

PASSES(no_such_gpu)
{
	int count = 9;

	setenv("VRAMSIM_GPU", "voodoo2", 1);
	CHECK(!freopen("/dev/null", "w", stderr) || CALL(cudaGetDeviceCount, &count) == CU_NO_DEVICE);
}

PASSES(children_of_a_user_are_refused)
{
	int status;
	pid_t pid;

	CHECK(CALL(cudaFree, NULL) == CU_OK);
	pid = fork();
	if (!pid)
		_exit(CALL(cudaFree, NULL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == CU_NOT_INITIALIZED);
	CHECK(CALL(cudaFree, NULL) == CU_OK);
}

/* Looked up beforehand: the loader has locks of its own. */
static int (*take)(void **, size_t), (*give)(void *), (*give_host)(void *);

static void *take_and_give(void *stop)
{
	void *p;

	while (!*(volatile int *)stop)
		if (take(&p, 512) == CU_OK)
			give(p);
	return NULL;
}

/* A child that has only the forking thread: a lock that another one held must not stay locked in it. */
PASSES(forks_beside_busy_threads)
{
	int stop = 0, status;
	pthread_t thread;

	take = (int (*)(void **, size_t))look_up("cudaMalloc");
	give = (int (*)(void *))look_up("cudaFree");
	give_host = (int (*)(void *))look_up("cudaFreeHost");
	CHECK(!pthread_create(&thread, NULL, take_and_give, &stop));
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(20);
			_exit(give_host(&stop));
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		      WEXITSTATUS(status) == CU_INVALID_VALUE);
	}
	stop = 1;
	CHECK(!pthread_join(thread, NULL));
}

PASSES(handles_of_ones_own_are_refused)
{
	struct vs_ipc_handle handle;
	void *p, *opened;
	int (*open_handle)(void **, struct vs_ipc_handle, unsigned int) =
	    (int (*)(void **, struct vs_ipc_handle, unsigned int))look_up("cudaIpcOpenMemHandle");
	int status;
	pid_t pid;

	CHECK(CALL(cudaIpcGetMemHandle, &handle, &p) == CU_INVALID_VALUE);
	pid = fork(); /* before any use: the child may use CUDA */
	if (!pid) {
		memset(&handle, 0, sizeof(handle));
		CHECK(open_handle(&opened, handle, 1) == CU_INVALID_HANDLE);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(CALL(cudaMalloc, &p, (size_t)(4 * MIB)) == CU_OK);
	CHECK(CALL(cudaIpcGetMemHandle, &handle, p) == CU_OK);
	CHECK(open_handle(&opened, handle, 1) == CU_INVALID_CONTEXT);
}

PASSES(a_pool_that_keeps_all_divides_it)
{
	uint64_t all = UINT64_MAX, reserved = 0;
	char *whole, *parts[3];
	void *pool;

	CHECK(CALL(cuDeviceGetDefaultMemPool, &pool, 0) == CU_OK);
	CHECK(CALL(cuMemPoolSetAttribute, pool, 4, &all) == CU_OK);
	CHECK(CALL(cuMemAllocAsync, &whole, (size_t)(64 * MIB), NULL) == CU_OK);
	CHECK(CALL(cuMemFreeAsync, whole, NULL) == CU_OK && CALL(cuStreamSynchronize, NULL) == CU_OK);
	for (int i = 0; i < 3; i++)
		CHECK(CALL(cuMemAllocAsync, &parts[i], (size_t)(20 * MIB), NULL) == CU_OK);
	CHECK(parts[0] == whole && parts[1] == whole + 20 * MIB && parts[2] == whole + 40 * MIB);
	CHECK(CALL(cuMemPoolGetAttribute, pool, 5, &reserved) == CU_OK && reserved == 64 * MIB);
	/* Nothing of a range goes while a part is in use; all of it once none is, whatever the order. */
	CHECK(CALL(cuMemFreeAsync, parts[1], NULL) == CU_OK && CALL(cuMemFreeAsync, parts[0], NULL) == CU_OK);
	CHECK(CALL(cuMemPoolTrimTo, pool, (size_t)0) == CU_OK);
	CHECK(CALL(cuMemPoolGetAttribute, pool, 5, &reserved) == CU_OK && reserved == 64 * MIB);
	CHECK(CALL(cuMemAllocAsync, &parts[0], (size_t)(40 * MIB), NULL) == CU_OK && parts[0] == whole);
	CHECK(CALL(cuMemFreeAsync, parts[2], NULL) == CU_OK && CALL(cuMemFreeAsync, parts[0], NULL) == CU_OK);
	CHECK(CALL(cuMemPoolTrimTo, pool, (size_t)0) == CU_OK);
	CHECK(CALL(cuMemPoolGetAttribute, pool, 5, &reserved) == CU_OK && reserved == 0);
}

PASSES(nodes_without_memory)
{
	void *graph, *inner, *exec, *nodes[4], *got[4] = {0};
	struct {
		int result;
		void *node, *from;
	} update = {.result = 1};
	size_t count = 0, room = 2;
	int type;

	CHECK(CALL(cuGraphCreate, &graph, 0) == CU_OK && CALL(cuGraphCreate, &inner, 0) == CU_OK);
	CHECK(CALL(cuGraphAddEmptyNode, &nodes[0], graph, NULL, (size_t)0) == CU_OK);
	CHECK(CALL(cuGraphAddKernelNode_v2, &nodes[1], graph, nodes, (size_t)1, NULL) == CU_OK);
	CHECK(CALL(cuGraphAddMemsetNode, &nodes[2], graph, nodes, (size_t)2, NULL, NULL) == CU_OK);
	CHECK(CALL(cudaGraphAddChildGraphNode, &nodes[3], graph, nodes, (size_t)3, inner) == CU_OK);
	CHECK(CALL(cuGraphAddEmptyNode, &nodes[0], graph, NULL, (size_t)1) == CU_INVALID_VALUE);
	CHECK(CALL(cuGraphGetNodes, graph, NULL, &count) == CU_OK && count == 4);
	CHECK(CALL(cuGraphGetNodes, graph, got, &room) == CU_OK && room == 2);
	CHECK(got[0] == nodes[0] && got[1] == nodes[1] && !got[2]);
	CHECK(CALL(cuGraphNodeGetType, nodes[0], &type) == CU_OK && type == 5);
	CHECK(CALL(cuGraphNodeGetType, nodes[1], &type) == CU_OK && type == 0);
	CHECK(CALL(cuGraphNodeGetType, nodes[2], &type) == CU_OK && type == 2);
	CHECK(CALL(cuGraphNodeGetType, nodes[3], &type) == CU_OK && type == 4);
	CHECK(CALL(cuGraphInstantiateWithFlags, &exec, graph, (uint64_t)0) == CU_OK);
	CHECK(CALL(cuGraphExecKernelNodeSetParams_v2, exec, nodes[1], NULL) == CU_OK);
	CHECK(CALL(cuGraphExecUpdate_v2, exec, graph, &update) == CU_OK && !update.result);
	CHECK(CALL(cuGraphLaunch, exec, NULL) == CU_OK);
	CHECK(CALL(cuGraphExecDestroy, exec) == CU_OK && CALL(cuGraphDestroy, graph) == CU_OK);
	CHECK(CALL(cuGraphDestroy, inner) == CU_OK);
}

/* What a launch leaves in use is freed by the next one, where the graph is told to. */
PASSES(memory_that_launches_free)
{
	struct vs_alloc_node node = {.pool = {.type = 1, .location = {VS_LOCATION_DEVICE, 0}}, .size = 3 * MIB};
	unsigned long long parameters[4] = {1};
	void *graph, *exec[4], *at;
	uint64_t used;

	CHECK(CALL(cuGraphCreate, &graph, 0) == CU_OK);
	CHECK(CALL(cuGraphAddMemAllocNode, &at, graph, NULL, (size_t)0, &node) == CU_OK);
	CHECK(CALL(cuGraphInstantiateWithFlags, &exec[0], graph, 0ULL) == CU_OK);
	CHECK(CALL(cuGraphLaunch, exec[0], NULL) == CU_OK);
	CHECK(CALL(cuGraphLaunch, exec[0], NULL) == CU_INVALID_VALUE);
	for (int way = 0; way < 3; way++) {
		CHECK((way == 0   ? CALL(cuGraphInstantiateWithFlags, &exec[1], graph, 1ULL)
		       : way == 1 ? CALL(cudaGraphInstantiate, &exec[2], graph, 1ULL)
		                  : CALL(cudaGraphInstantiateWithParams, &exec[3], graph, parameters)) == CU_OK);
		for (int i = 0; i < 3; i++) {
			CHECK(CALL(cuGraphLaunch, exec[1 + way], NULL) == CU_OK);
			CHECK(CALL(cuDeviceGetGraphMemAttribute, 0, 0, &used) == CU_OK && used == 4 * MIB);
		}
		CHECK(CALL(cuGraphExecDestroy, exec[1 + way]) == CU_OK);
	}
	CHECK(CALL(cudaGraphInstantiateWithFlags, &exec[1], graph, 16ULL));
	CHECK(CALL(cuMemFree_v2, node.address) == CU_OK);
	CHECK(CALL(cuDeviceGetGraphMemAttribute, 0, 0, &used) == CU_OK && !used);
	CHECK(CALL(cuGraphExecDestroy, exec[0]) == CU_OK && CALL(cuGraphDestroy, graph) == CU_OK);
	CHECK(CALL(cuDeviceGraphMemTrim, 0) == CU_OK);
}

PASSES(captures_into_a_graph)
{
	void *graph, *stream, *ended = NULL, *node;
	const void *dependencies = &graph;
	size_t count = 7, nodes = 0;
	uint64_t id = 0;
	int status = 0;

	CHECK(CALL(cuStreamCreate, &stream, 1) == CU_OK && CALL(cuGraphCreate, &graph, 0) == CU_OK);
	CHECK(CALL(cuGraphAddEmptyNode, &node, graph, NULL, (size_t)0) == CU_OK);
	CHECK(CALL(cuStreamBeginCaptureToGraph, stream, graph, &node, NULL, (size_t)1, 0) == CU_OK);
	CHECK(CALL(cuStreamGetCaptureInfo_v3, stream, &status, &id, NULL, &dependencies, NULL, &count) == CU_OK);
	CHECK(status == 1 && id && !dependencies && !count);
	CHECK(CALL(cuLaunchKernel, stream, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == CU_OK);
	CHECK(CALL(cuStreamEndCapture, stream, &ended) == CU_OK && ended == graph);
	CHECK(CALL(cuGraphGetNodes, graph, NULL, &nodes) == CU_OK && nodes == 2);
	CHECK(CALL(cuGraphDestroy, graph) == CU_OK);
}

PASSES(layouts_of_products)
{
	uint64_t own[8], rows = 0;
	int32_t batches = 0, type = 0;
	size_t written = 0;
	void *layout;

	CHECK(CALL(cublasLtMatrixLayoutCreate, &layout, 14, (uint64_t)5, (uint64_t)6, (int64_t)7) == 0);
	CHECK(CALL(cublasLtMatrixLayoutGetAttribute, layout, 2, &rows, sizeof(rows), &written) == 0);
	CHECK(rows == 5 && written == sizeof(rows));
	CHECK(CALL(cublasLtMatrixLayoutGetAttribute, layout, 5, &batches, sizeof(batches), NULL) == 0 &&
	      batches == 1);
	batches = 9;
	CHECK(CALL(cublasLtMatrixLayoutSetAttribute, layout, 5, &batches, sizeof(batches)) == 0);
	batches = 0;
	CHECK(CALL(cublasLtMatrixLayoutGetAttribute, layout, 5, &batches, sizeof(batches), NULL) == 0 &&
	      batches == 9);
	CHECK(CALL(cublasLtMatrixLayoutGetAttribute, layout, 0, &type, sizeof(type), NULL) == 0 && type == 14);
	CHECK(CALL(cublasLtMatrixLayoutDestroy, layout) == 0);
	CHECK(CALL(cublasLtMatrixLayoutInit_internal, own, sizeof(own) - 1, 2, (uint64_t)3, (uint64_t)4, (int64_t)4));
	CHECK(CALL(cublasLtMatrixLayoutInit_internal, own, sizeof(own), 2, (uint64_t)3, (uint64_t)4, (int64_t)4) ==
	      0);
	CHECK(CALL(cublasLtMatrixLayoutGetAttribute, own, 2, &rows, sizeof(rows), NULL) == 0 && rows == 3);
}

/* As from a program that opens CUDA's libraries itself. */
static void *open_and_find(const char *file, const char *name)
{
	void *handle = ((void *(*)(const char *, int))look_up("dlopen"))(file, RTLD_LAZY);

	return handle ? dlsym(handle, name) : NULL;
}

PASSES(libraries_by_name_and_path)
{
	static const char *const names[] = {"libcudart.so",  "libcudart.so.12", "libcublas.so.12",
	                                    "libcudnn.so.9", "libcufft.so.11",  "libcuda.so.1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(open_and_find(names[i], "cudaMalloc") == look_up("cudaMalloc"));
	CHECK(!open_and_find("/nowhere/libnccl.so.2", "ncclCommInitRank"));
	CHECK(open_and_find(NULL, "malloc") == (void *)malloc);
	CHECK(open_and_find("libm.so.6", "cos") && !open_and_find("libm.so.6", "cudaMalloc"));
	CHECK(!open_and_find("libcudnn_graph.so.of.nobody", "x") && !open_and_find("libcudart_of_nobody.so", "x"));
}

PASSES(versions)
{
	int version = 0;

	/* None of the job's own: those of CUDA 13.2. */
	CHECK(CALL(cufftGetVersion, &version) == 0 && version == 12200);
	CHECK(CALL(cusparseGetProperty, 1, &version) == 0 && version == 7);
	CHECK(CALL(cublasGetProperty, 3, &version) == 7 && CALL(cusolverGetVersion, NULL) == 3);
	CHECK(((size_t(*)(void))look_up("cudnnGetVersion"))() == 92600);
}

PASSES(device_files)
{
	struct stat seen;
	struct statx more;

	CHECK(!CALL(stat, "/dev/nvidia0", &seen) && S_ISCHR(seen.st_mode) && seen.st_rdev == makedev(195, 0));
	CHECK(!CALL(lstat, "/dev/nvidia1", &seen) && seen.st_rdev == makedev(195, 1));
	CHECK(!CALL(fstatat, AT_FDCWD, "/dev/nvidiactl", &seen, 0) && seen.st_rdev == makedev(195, 255));
	CHECK(!CALL(statx, AT_FDCWD, "/dev/nvidia0", 0, STATX_BASIC_STATS, &more) && more.stx_rdev_major == 195);
	CHECK(!CALL(access, "/dev/nvidia1", R_OK | W_OK) && CALL(access, "/dev/nvidia1", X_OK) && errno == EACCES);
	/* There are two cards. What is no card's is as it is. */
	CHECK(CALL(access, "/dev/nvidia2", F_OK) == access("/dev/nvidia2", F_OK));
	CHECK(CALL(access, "/dev/nvidia", F_OK) == access("/dev/nvidia", F_OK));
	CHECK(!CALL(stat, "/dev/null", &seen) && seen.st_rdev == makedev(1, 3) && !CALL(access, "/", X_OK));
	CHECK(CALL(stat, "/dev/nvidia0/", &seen) && errno == ENOENT && CALL(stat, "/nowhere", &seen) &&
	      errno == ENOENT);
}

PASSES(what_is_not_simulated_says_so_once)
{
	char text[256] = "";
	int ends[2], kept = dup(STDERR_FILENO);
	ssize_t n;

	CHECK(!pipe(ends));
	dup2(ends[1], STDERR_FILENO);
	CHECK(CALL(cudaCreateTextureObject, NULL, NULL, NULL, NULL) == CU_NOT_SUPPORTED);
	CHECK(CALL(cudaCreateTextureObject, NULL, NULL, NULL, NULL) == CU_NOT_SUPPORTED);
	dup2(kept, STDERR_FILENO);
	close(ends[1]);
	n = read(ends[0], text, sizeof(text) - 1);
	CHECK(n > 0 && !strcmp(text, "vramsim: not simulated: cudaCreateTextureObject\n"));
}

static void touch(void)
{
	char *p = NULL;

	signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
	CHECK(CALL(cudaMalloc, &p, (size_t)(4 * MIB)) == CU_OK);
	*(volatile char *)p = 1;
}

static void test_the_host_cannot_touch_device_memory(void **state)
{
	int status = child(touch);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test(test_##name)
	const struct CMUnitTest tests[] = {
	    TEST(devices),
	    TEST(errors_stay_until_they_are_read),
	    TEST(memory),
	    TEST(pointers),
	    TEST(copies),
	    TEST(launches),
	    TEST(captures),
	    TEST(virtual_memory),
	    TEST(entry_points),
	    TEST(contexts_appear_when_used),
	    TEST(a_reset_ends_the_context_and_what_it_held),
	    TEST(a_context_of_the_jobs_own_needs_no_primary_one),
	    TEST(popping_a_context_gives_the_device_back),
	    TEST(a_pool_remembers_its_peak),
	    TEST(nowhere_to_put_the_answer),
	    TEST(odd_sizes),
	    TEST(nvml),
	    TEST(hidden_cards),
	    TEST(lists_of_visible_cards),
	    TEST(no_visible_card),
	    TEST(no_such_gpu),
	    TEST(children_of_a_user_are_refused),
	    TEST(forks_beside_busy_threads),
	    TEST(handles_of_ones_own_are_refused),
	    TEST(a_pool_that_keeps_all_divides_it),
	    TEST(nodes_without_memory),
	    TEST(memory_that_launches_free),
	    TEST(captures_into_a_graph),
	    TEST(layouts_of_products),
	    TEST(libraries_by_name_and_path),
	    TEST(versions),
	    TEST(device_files),
	    TEST(what_is_not_simulated_says_so_once),
	    TEST(the_host_cannot_touch_device_memory),
	};

	if (argc != 2 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))) {
		fprintf(stderr, "test_api: %s\n", argc == 2 ? dlerror() : "usage: test_api LIBVRAMSIM");
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
