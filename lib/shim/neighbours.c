/* SPDX-License-Identifier: MIT */
#include "shim/neighbours.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/real.h"

#define LIST_MAX 64 /* processes on a card; of more, nothing is said */

/* nvmlProcessInfo_t since R470: the first form, without the MIG instances, is 16 bytes. */
struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

/* A process with graphics and compute contexts is in two lists, with the same bytes in both. */
static const char *const lists[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
                                    "nvmlDeviceGetGraphicsRunningProcesses_v3",
                                    "nvmlDeviceGetMPSComputeRunningProcesses_v3"};

static void *library(void)
{
	static _Atomic(void *) handle;
	static _Atomic bool tried;
	const char *wanted = getenv("VRAMSHIM_NVML");
	void *found = atomic_load(&handle);

	if (found || atomic_exchange(&tried, true))
		return found;
	if (wanted && !strcmp(wanted, "0"))
		return NULL;
	/* As PyTorch itself opens it before it says that memory ran out. It stays: code of it may be running. */
	found = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
	atomic_store(&handle, found);
	return found;
}

int vs_neighbours_uuid(int device, char ret_uuid[VS_UUID_SIZE])
{
	int (*get)(int *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGet");
	int (*get_uuid)(unsigned char *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGetUuid_v2");
	unsigned char uuid[16];
	char *at = ret_uuid;
	int handle;

	if (!get_uuid)
		get_uuid = vs_real_symbol(VS_API_DRIVER, "cuDeviceGetUuid");
	if (!get || !get_uuid || get(&handle, device) || get_uuid(uuid, handle))
		return -ENODEV;
	at += sprintf(at, "GPU-");
	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	return 0;
}

static unsigned int list_all(void *nvml, void *card, struct process all[LIST_MAX])
{
	unsigned int count = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		int (*list)(void *, unsigned int *, struct process *) =
		    (int (*)(void *, unsigned int *, struct process *))dlsym(nvml, lists[i]);
		struct process some[LIST_MAX];
		unsigned int found = LIST_MAX;

		if (!list || list(card, &found, some)) {
			if (!i) /* without the first there is no answer */
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
	struct process all[LIST_MAX];
	char uuid[VS_UUID_SIZE];
	void *nvml = library(), *card;
	int (*init)(void), (*shutdown)(void), (*by_uuid)(const char *, void **);
	uint64_t own = 0, others = 0;
	unsigned int count = 0, me = (unsigned int)getpid();

	if (!nvml || vs_neighbours_uuid(device, uuid) < 0)
		return;
	init = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
	shutdown = (int (*)(void))dlsym(nvml, "nvmlShutdown");
	by_uuid = (int (*)(const char *, void **))dlsym(nvml, "nvmlDeviceGetHandleByUUID");
	if (!init || !shutdown || !by_uuid || init())
		return;
	if (!by_uuid(uuid, &card))
		count = list_all(nvml, card, all);
	shutdown(); /* counted: the job's own use of NVML goes on, and its files close where there is none */
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
