/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/facts.h"
#include "shim/modules.h"
#include "shim/native_stack.h"
#include "shim/neighbours.h"
#include "shim/process.h"
#include "shim/python_stack.h"
#include "shim/symbols.h"
#include "trace/writer.h"

/* Variables that change how memory is used, or who uses it. */
static const char *const variables[] = {
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_PROTO",
    "VRAMSIM_GPU",
    "VRAMSIM_COUNT",
    "VRAMSIM_MEMORY",
    "VRAMSIM_OTHERS",
    "VRAMSIM_UNSEEN",
    NULL,
};

/* Who am I: the first variable that is set. Launchers differ; torchrun's names come first. */
static const struct {
	const char *key;
	const char *names[4];
} positions[] = {
    {"rank", {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}},
    {"local_rank", {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}},
    {"world_size", {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}},
};

static ssize_t slurp(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t used = 0, got;

	if (fd < 0)
		return -errno;
	while ((size_t)used < size - 1 && (got = read(fd, buffer + used, size - 1 - (size_t)used)) > 0)
		used += got;
	close(fd);
	buffer[used] = '\0';
	return used;
}

static void record_number(struct vs_process *process, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	vs_writer_fact(process->writer, key, text);
}

static void record_command(struct vs_process *process)
{
	/* Of a longer command line, the beginning. */
	static const size_t most = 256 * 1024;
	char *text = malloc(most), key[32];
	ssize_t size;
	int index = 0;

	if (!text)
		return;
	size = slurp("/proc/self/cmdline", text, most);
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1) {
		snprintf(key, sizeof(key), "command:%d", index++);
		vs_writer_fact(process->writer, key, text + at);
	}
	free(text);
}

/* torch/lib/libc10.so lies beside torch/version.py, which says: __version__ = '2.15.0+cu132'. */
static void find_torch(char *ret_version, size_t size)
{
	static char path[PATH_MAX], text[4096]; /* once a process: not for a thread's stack, which may be small */
	char *slash, *version, *end;

	if (vs_modules_find("libc10.so", path, sizeof(path)) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
	if (strlen(path) + sizeof("/version.py") > sizeof(path))
		return;
	strcat(path, "/version.py");
	if (slurp(path, text, sizeof(text)) < 0)
		return;
	version = strstr(text, "__version__ = '");
	if (!version)
		return;
	version += strlen("__version__ = '");
	end = strchr(version, '\'');
	if (!end)
		return;
	*end = '\0';
	snprintf(ret_version, size, "%s", version);
}

static void record_torch(struct vs_process *process)
{
	static char version[64];
	static bool searched;

	/* Once a process image: a child's is its parent's. */
	if (!searched) {
		searched = true;
		find_torch(version, sizeof(version));
	}
	if (*version)
		vs_writer_fact(process->writer, "torch", version);
}

static void record_environment(struct vs_process *process)
{
	char key[64];

	for (const char *const *name = variables; *name; name++) {
		const char *value = getenv(*name);

		if (!value)
			continue;
		snprintf(key, sizeof(key), "env:%s", *name);
		vs_writer_fact(process->writer, key, value);
	}
	for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
		const char *value = NULL;

		for (size_t j = 0; j < 4 && !value; j++)
			value = getenv(positions[i].names[j]);
		if (value)
			vs_writer_fact(process->writer, positions[i].key, value);
	}
}

void vs_facts_record(struct vs_process *process)
{
	char host[65] = "";

	record_command(process);
	gethostname(host, sizeof(host) - 1);
	vs_writer_fact(process->writer, "host", host);
	record_number(process, "pid", (uint64_t)getpid());
	record_number(process, "parent", (uint64_t)getppid());
	if (*vs_python_version())
		vs_writer_fact(process->writer, "python", vs_python_version());
	record_torch(process);
	record_environment(process);
	vs_writer_fact(process->writer, "level", vs_level_names[process->level]);
	if (process->level != VS_LEVEL_LIGHT && vs_native_missing())
		vs_writer_fact(process->writer, "native_stacks", vs_native_missing());
}

void vs_facts_device(struct vs_process *process, int device)
{
	int (*get)(int *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGet", NULL);
	int (*get_name)(char *, int, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceGetName", NULL);
	int (*get_total)(size_t *, int) = vs_real_symbol(VS_API_DRIVER, "cuDeviceTotalMem_v2", NULL);
	const int *simulated = vs_symbol_find("vramsim_active");
	uint64_t (*context_bytes)(int) = (uint64_t(*)(int))vs_symbol_find("vramsim_context_bytes");
	char key[48], name[256] = "", uuid[VS_UUID_SIZE];
	int handle = device;
	size_t total = 0;

	if (get && get(&handle, device))
		return;
	if (get_name && get_name(name, sizeof(name) - 1, handle) == 0) {
		snprintf(key, sizeof(key), "device:%d:name", device);
		vs_writer_fact(process->writer, key, name);
	}
	if (vs_neighbours_uuid(device, uuid) == 0) {
		snprintf(key, sizeof(key), "device:%d:uuid", device);
		vs_writer_fact(process->writer, key, uuid);
	}
	if (get_total && get_total(&total, handle) == 0) {
		snprintf(key, sizeof(key), "device:%d:total_bytes", device);
		record_number(process, key, total);
	}
	if (!simulated || !*simulated)
		return;
	snprintf(key, sizeof(key), "device:%d:simulated", device);
	vs_writer_fact(process->writer, key, "1");
	/* On a real card the first sample tells: what NVML says of this process beyond what it asked for. */
	if (context_bytes) {
		snprintf(key, sizeof(key), "device:%d:context_bytes", device);
		record_number(process, key, context_bytes(device));
		snprintf(key, sizeof(key), "device:%d:context_source", device);
		vs_writer_fact(process->writer, key, "assumed");
	}
}

void vs_facts_finish(struct vs_process *process)
{
	uint64_t dropped = atomic_load(&process->stacks_dropped);

	if (dropped)
		record_number(process, "stacks_dropped", dropped);
}
