/* SPDX-License-Identifier: MIT */
#include "shim/neighbours.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/libraries.h"
#include "shim/process.h"
#include "shim/real.h"

#define LIST_MAX 64 /* processes on a card; of more, nothing is said */

/* nvmlProcessInfo_t since R470: the first form, without the MIG instances, is 16 bytes. */
struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

/* nvmlMemory_t */
struct memory {
	unsigned long long total, free, used;
};

typedef int list_function(void *card, unsigned int *count, struct process *list);

/* A process with graphics and compute contexts is in two lists, with the same bytes in both. Without the first there
 * is no answer. */
static const char *const lists[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
                                    "nvmlDeviceGetGraphicsRunningProcesses_v3",
                                    "nvmlDeviceGetMPSComputeRunningProcesses_v3"};
enum { LISTS = sizeof(lists) / sizeof(*lists) };

struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*by_uuid)(const char *uuid, void **ret_card);
	int (*memory)(void *card, struct memory *memory); /* may be NULL */
	list_function *list[LISTS];
};

static void look_up(void *handle, struct nvml *nvml)
{
	nvml->init = (int (*)(void))dlsym(handle, "nvmlInit_v2");
	nvml->shutdown = (int (*)(void))dlsym(handle, "nvmlShutdown");
	nvml->by_uuid = (int (*)(const char *, void **))dlsym(handle, "nvmlDeviceGetHandleByUUID");
	nvml->memory = (int (*)(void *, struct memory *))dlsym(handle, "nvmlDeviceGetMemoryInfo");
	for (int i = 0; i < LISTS; i++)
		nvml->list[i] = (list_function *)dlsym(handle, lists[i]);
}

/* Looked up once: what takes the loader's lock is not for the middle of a job. NULL where NVML is not to be had. */
static const struct nvml *library(void)
{
	static struct nvml nvml;
	static _Atomic int state; /* 0 not tried, 1 being looked up or in vain, 2 there */
	int none = 0;
	void *handle;

	if (atomic_load_explicit(&state, memory_order_acquire) == 2)
		return &nvml;
	if (vs_settings.no_nvml || !atomic_compare_exchange_strong(&state, &none, 1))
		return NULL;
	/* As PyTorch itself opens it before it says that memory ran out. It stays: code of it may be running. */
	if (!vs_libraries_hold()) {
		atomic_store(&state, 0); /* another time */
		return NULL;
	}
	handle = vs_libraries_lost() ? NULL : dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
	if (handle)
		look_up(handle, &nvml);
	vs_libraries_release();
	if (!nvml.init || !nvml.shutdown || !nvml.by_uuid || !nvml.list[0])
		return NULL;
	atomic_store_explicit(&state, 2, memory_order_release);
	return &nvml;
}

static int ask_uuid(int device, char text[VS_UUID_SIZE])
{
	int (*get)(int *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGet", NULL);
	int (*get_uuid)(unsigned char *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGetUuid_v2", NULL);
	unsigned char uuid[16];
	int handle;

	if (!get_uuid)
		get_uuid = vs_real_symbol(VS_API_DRIVER, "cuDeviceGetUuid", NULL);
	if (!get || !get_uuid || get(&handle, device) || get_uuid(uuid, handle))
		return -ENODEV;
	text += sprintf(text, "GPU-");
	for (int i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return 0;
}

int vs_neighbours_uuid(int device, char ret_uuid[VS_UUID_SIZE])
{
	static struct {
		_Atomic int state; /* as above */
		char text[VS_UUID_SIZE];
	} known[VS_MAX_DEVICES];
	int none = 0;

	if (device < 0 || device >= VS_MAX_DEVICES)
		return -ENODEV;
	if (atomic_compare_exchange_strong(&known[device].state, &none, 1) &&
	    ask_uuid(device, known[device].text) == 0)
		atomic_store_explicit(&known[device].state, 2, memory_order_release);
	if (atomic_load_explicit(&known[device].state, memory_order_acquire) != 2)
		return -ENODEV;
	memcpy(ret_uuid, known[device].text, VS_UUID_SIZE);
	return 0;
}

/* The processes on a card; 0 where not all of them, and all of their bytes, are told. */
static unsigned int list_all(const struct nvml *nvml, void *card, struct process all[LIST_MAX])
{
	unsigned int count = 0;

	for (int i = 0; i < LISTS; i++) {
		struct process some[LIST_MAX];
		unsigned int found = LIST_MAX;

		if (!nvml->list[i] || nvml->list[i](card, &found, some)) {
			if (!i)
				return 0;
			continue;
		}
		for (unsigned int j = 0; j < found && j < LIST_MAX; j++) {
			bool known = false;

			if (some[j].used == ~0ULL) /* NVML_VALUE_NOT_AVAILABLE */
				return 0;
			for (unsigned int k = 0; k < count; k++)
				known |= all[k].pid == some[j].pid;
			if (known)
				continue;
			if (count == LIST_MAX)
				return 0;
			all[count++] = some[j];
		}
	}
	return count;
}

void vs_neighbours_held(int device, uint64_t *ret_own, uint64_t *ret_others)
{
	const struct nvml *nvml = library();
	struct process all[LIST_MAX];
	char uuid[VS_UUID_SIZE];
	uint64_t own = 0, others = 0;
	unsigned int count = 0, me = (unsigned int)getpid();
	void *card;

	if (!nvml || vs_neighbours_uuid(device, uuid) < 0 || nvml->init())
		return;
	if (!nvml->by_uuid(uuid, &card))
		count = list_all(nvml, card, all);
	nvml->shutdown(); /* counted: the job's own use of NVML goes on, and its files close where there is none */
	for (unsigned int i = 0; i < count; i++) {
		/* In a PID namespace the numbers are the host's. Who is alone is this process, which has a context.
		 */
		if (all[i].pid == me || count == 1)
			own = all[i].used;
		else
			others += all[i].used;
	}
	if (!own)
		return;
	*ret_own = own;
	*ret_others = others;
}

int vs_neighbours_free(int device, uint64_t *ret_bytes)
{
	const struct nvml *nvml = library();
	struct memory memory;
	char uuid[VS_UUID_SIZE];
	void *card;
	int r = -ENODEV;

	if (!nvml || !nvml->memory || vs_neighbours_uuid(device, uuid) < 0 || nvml->init())
		return r;
	if (!nvml->by_uuid(uuid, &card) && !nvml->memory(card, &memory)) {
		*ret_bytes = memory.free;
		r = 0;
	}
	nvml->shutdown(); /* as above */
	return r;
}
