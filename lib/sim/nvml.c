/* SPDX-License-Identifier: MIT
 *
 * NVML: what identifies the cards and what the books know of their memory.
 * Sensors and counters (temperature, utilisation, clocks) are not simulated:
 * their entries do not exist, and callers report "function not found".
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/neighbours.h"
#include "sim/sim.h"

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7
};

/* A handle is the installed index plus one: never NULL. */
static int installed(void *device, int *ret_index)
{
	const struct vs_sim *sim = vs_sim_get();
	uintptr_t number = (uintptr_t)device;

	if (!sim)
		return UNINITIALIZED;
	if (!number || number > (uintptr_t)sim->installed)
		return INVALID_ARGUMENT;
	*ret_index = (int)number - 1;
	return SUCCESS;
}

/* The CUDA ordinal of an installed card, -1 when CUDA_VISIBLE_DEVICES hides it. */
static int ordinal(int index)
{
	const struct vs_sim *sim = vs_sim_get();

	for (int i = 0; i < sim->visible; i++)
		if (sim->physical[i] == index)
			return i;
	return -1;
}

VS_API int nvmlInit_v2(void)
{
	return vs_sim_get() ? SUCCESS : 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
}
VS_ALIAS(nvmlInit, nvmlInit_v2);
VS_ALIAS(nvmlInitWithFlags, nvmlInit_v2);

VS_API int nvmlShutdown(void)
{
	return SUCCESS;
}

VS_API const char *nvmlErrorString(int error)
{
	switch (error) {
	case SUCCESS:
		return "Success";
	case UNINITIALIZED:
		return "Uninitialized";
	case INVALID_ARGUMENT:
		return "Invalid Argument";
	case NOT_SUPPORTED:
		return "Not Supported";
	case NOT_FOUND:
		return "Not Found";
	case INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case 9:
		return "Driver Not Loaded";
	default:
		return "Unknown Error";
	}
}

static int text(char *to, unsigned int size, const char *from)
{
	if (!to)
		return INVALID_ARGUMENT;
	return (unsigned int)snprintf(to, size, "%s", from) < size ? SUCCESS : INSUFFICIENT_SIZE;
}

VS_API int nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
	return text(version, size,
	            "595.00"); /* the branch that CUDA 13.2 came with; no real driver has release .00 */
}

VS_API int nvmlSystemGetNVMLVersion(char *version, unsigned int size)
{
	return text(version, size, "13.595.00");
}

VS_API int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return INVALID_ARGUMENT;
	*version = VS_DRIVER_VERSION;
	return SUCCESS;
}
VS_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

VS_API int nvmlDeviceGetCount_v2(unsigned int *count)
{
	const struct vs_sim *sim = vs_sim_get();

	if (!sim)
		return UNINITIALIZED;
	if (!count)
		return INVALID_ARGUMENT;
	*count = (unsigned int)sim->installed;
	return SUCCESS;
}
VS_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

VS_API int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	const struct vs_sim *sim = vs_sim_get();

	if (!sim)
		return UNINITIALIZED;
	if (!device || index >= (unsigned int)sim->installed)
		return INVALID_ARGUMENT;
	*device = (void *)((uintptr_t)index + 1);
	return SUCCESS;
}
VS_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

VS_API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
	const struct vs_sim *sim = vs_sim_get();
	unsigned int domain, bus, slot;

	if (!sim)
		return UNINITIALIZED;
	if (!id || !device || sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return INVALID_ARGUMENT;
	for (int i = 0; i < sim->installed; i++) {
		if (!domain && (unsigned int)vs_gpu_bus(i) == bus) {
			*device = (void *)((uintptr_t)i + 1);
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}
VS_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

VS_API int nvmlDeviceGetUUID(void *device, char *to, unsigned int size)
{
	char uuid[VS_UUID_TEXT];
	int index, r = installed(device, &index);

	if (r != SUCCESS)
		return r;
	vs_gpu_uuid_text(index, uuid);
	return text(to, size, uuid);
}

VS_API int nvmlDeviceGetHandleByUUID(const char *wanted, void **device)
{
	const struct vs_sim *sim = vs_sim_get();
	char uuid[VS_UUID_TEXT];

	if (!sim)
		return UNINITIALIZED;
	if (!wanted || !device)
		return INVALID_ARGUMENT;
	for (int i = 0; i < sim->installed; i++) {
		vs_gpu_uuid_text(i, uuid);
		if (!strcmp(uuid, wanted)) {
			*device = (void *)((uintptr_t)i + 1);
			return SUCCESS;
		}
	}
	return NOT_FOUND;
}

VS_API int nvmlDeviceGetIndex(void *device, unsigned int *to)
{
	int index, r = to ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS)
		*to = (unsigned int)index;
	return r;
}
VS_ALIAS(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex);

VS_API int nvmlDeviceGetName(void *device, char *to, unsigned int size)
{
	int index, r = installed(device, &index);

	return r == SUCCESS ? text(to, size, vs_sim_get()->gpu->name) : r;
}

VS_API int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
	int index, r = major && minor ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS) {
		*major = vs_sim_get()->gpu->major;
		*minor = vs_sim_get()->gpu->minor;
	}
	return r;
}

/* nvmlPciInfo_t */
struct pci {
	char legacy_id[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char id[32];
};

VS_API int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
	int index, r = pci ? installed(device, &index) : INVALID_ARGUMENT;

	if (r != SUCCESS)
		return r;
	memset(pci, 0, sizeof(*pci));
	pci->bus = (unsigned int)vs_gpu_bus(index);
	pci->pci_device_id = (unsigned int)vs_sim_get()->gpu->pci_id << 16 | 0x10de;
	snprintf(pci->legacy_id, sizeof(pci->legacy_id), "0000:%02X:00.0", pci->bus);
	snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", pci->bus);
	return SUCCESS;
}
VS_ALIAS(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);
VS_ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v3);

static uint64_t used_here(int index)
{
	return ordinal(index) < 0 ? 0 : vs_books_used(ordinal(index));
}

/* nvmlMemory_t */
struct memory {
	unsigned long long total, free, used;
};

VS_API int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	int index, r = memory ? installed(device, &index) : INVALID_ARGUMENT;

	if (r != SUCCESS)
		return r;
	memory->total = vs_sim_get()->total;
	memory->used = used_here(index) + vs_neighbours_held(index);
	memory->free = memory->total - memory->used;
	return SUCCESS;
}

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

VS_API int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
	struct memory plain;
	int r = memory ? nvmlDeviceGetMemoryInfo(device, &plain) : INVALID_ARGUMENT;

	if (r == SUCCESS) {
		memory->total = plain.total;
		memory->reserved = 0;
		memory->free = plain.free;
		memory->used = plain.used;
	}
	return r;
}

/* nvmlProcessInfo_v1_t, and v2 (v3 is the same) with the MIG instances behind it */
struct process {
	unsigned int pid;
	unsigned long long used;
};

struct process_v2 {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

enum { LIST_MAX = 256 };

static int running(void *device, unsigned int *count, struct vs_neighbour list[LIST_MAX])
{
	int index, r = count ? installed(device, &index) : INVALID_ARGUMENT;
	unsigned int room;

	if (r != SUCCESS)
		return r;
	room = *count;
	list[0] = (struct vs_neighbour){(unsigned int)getpid(), used_here(index)};
	*count = list[0].bytes != 0;
	*count += vs_neighbours_list(index, list + *count, LIST_MAX - *count);
	return room < *count ? INSUFFICIENT_SIZE : SUCCESS;
}

VS_API int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned int *count, struct process *list)
{
	struct vs_neighbour found[LIST_MAX];
	int r = running(device, count, found);

	for (unsigned int i = 0; r == SUCCESS && list && i < *count; i++)
		list[i] = (struct process){found[i].pid, found[i].bytes};
	return r;
}

VS_API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, struct process_v2 *list)
{
	struct vs_neighbour found[LIST_MAX];
	int r = running(device, count, found);

	for (unsigned int i = 0; r == SUCCESS && list && i < *count; i++)
		list[i] = (struct process_v2){found[i].pid, found[i].bytes, ~0u, ~0u};
	return r;
}
VS_ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

VS_API int nvmlDeviceGetGraphicsRunningProcesses(void *device, unsigned int *count)
{
	int index, r = count ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS)
		*count = 0;
	return r;
}
VS_ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses);
VS_ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses);

/* nvmlGpuFabricInfo_v2_t: a card that is on no NVLink fabric. */
struct fabric {
	unsigned int version;
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state; /* 0: not supported */
	unsigned int health;
};

VS_API int nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric *fabric)
{
	int index, r = fabric ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS) {
		memset(fabric->cluster, 0, sizeof(fabric->cluster));
		fabric->status = SUCCESS;
		fabric->clique = 0;
		fabric->state = 0;
	}
	return r;
}

VS_API int nvmlDeviceGetP2PStatus(void *device, void *peer, int capability, int *status)
{
	int index, r = status ? installed(device, &index) : INVALID_ARGUMENT;

	(void)capability;
	if (r == SUCCESS)
		r = installed(peer, &index);
	if (r == SUCCESS)
		*status = 0; /* NVML_P2P_STATUS_OK */
	return r;
}

VS_API int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)
{
	(void)device;
	(void)link;
	(void)active;
	return NOT_SUPPORTED;
}
VS_ALIAS(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetNvLinkState);
VS_ALIAS(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetNvLinkState);
VS_ALIAS(nvmlDeviceGetMigMode, nvmlDeviceGetNvLinkState);

/* Generation of the card's PCI Express link, by the generation of the chip: Volta and Turing 3, Ampere and Ada 4,
 * from Hopper on 5 (NVIDIA's data sheets of the cards in gpus.def). All have 16 lanes. */
VS_API int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation)
{
	int index, r = generation ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS) {
		int major = vs_sim_get()->gpu->major;

		*generation = major < 8 ? 3 : major == 8 ? 4 : 5;
	}
	return r;
}
VS_ALIAS(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);
VS_ALIAS(nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);

VS_API int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *lanes)
{
	int index, r = lanes ? installed(device, &index) : INVALID_ARGUMENT;

	if (r == SUCCESS)
		*lanes = 16;
	return r;
}
VS_ALIAS(nvmlDeviceGetCurrPcieLinkWidth, nvmlDeviceGetMaxPcieLinkWidth);

/* Of one lane, in Mbit/s: 8000 in generation 3, twice that in each after it. */
VS_API int nvmlDeviceGetPcieSpeed(void *device, unsigned int *speed)
{
	unsigned int generation;
	int r = nvmlDeviceGetMaxPcieLinkGeneration(device, speed ? &generation : NULL);

	if (r == SUCCESS)
		*speed = 1000U << generation;
	return r;
}
