/* SPDX-License-Identifier: MIT */
#include "ledger/owner.h"

#include <stdio.h>
#include <string.h>

static const char *const names[VS_OWNER_NAMED] = {
    [VS_OWNER_NOBODY] = "other",  [VS_OWNER_PYTORCH] = "pytorch",   [VS_OWNER_TORCH] = "torch",
    [VS_OWNER_NCCL] = "nccl",     [VS_OWNER_CUBLAS] = "cublas",     [VS_OWNER_CUBLASLT] = "cublaslt",
    [VS_OWNER_CUDNN] = "cudnn",   [VS_OWNER_CUSOLVER] = "cusolver", [VS_OWNER_CUSPARSE] = "cusparse",
    [VS_OWNER_CUFFT] = "cufft",   [VS_OWNER_NVSHMEM] = "nvshmem",   [VS_OWNER_BITSANDBYTES] = "bitsandbytes",
    [VS_OWNER_TRITON] = "triton", [VS_OWNER_OTHER] = "other",
};

/* File names by their beginning; longer ones first where one begins another. */
static const struct {
	const char *prefix;
	uint8_t owner;
} files[] = {
    {"libc10_cuda", VS_OWNER_PYTORCH},
    {"libc10", VS_OWNER_TORCH},
    {"libtorch", VS_OWNER_TORCH},
    {"libnccl", VS_OWNER_NCCL},
    {"libcublasLt", VS_OWNER_CUBLASLT},
    {"libcublas", VS_OWNER_CUBLAS},
    {"libcudnn", VS_OWNER_CUDNN},
    {"libcusolver", VS_OWNER_CUSOLVER},
    {"libcusparse", VS_OWNER_CUSPARSE},
    {"libcufft", VS_OWNER_CUFFT},
    {"libnvshmem", VS_OWNER_NVSHMEM},
    {"nvshmem_", VS_OWNER_NVSHMEM},
    {"libbitsandbytes", VS_OWNER_BITSANDBYTES},
    {"libtriton", VS_OWNER_TRITON},
    {"cuda_utils", VS_OWNER_TRITON},
};

/* Between a library and CUDA, or below everything. */
static const char *const silent[] = {"libvramshim", "libvramsim", "libcudart", "libcuda.so", "libc.so",
                                     "libc-2.",     "libpthread", "libdl.so",  "ld-linux",   "libffi.",
                                     "_ctypes.",    "linux-vdso", "libstdc++", "libgcc_s"};

static bool begins(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* "libfoo-1.so.2" is "foo-1", "_backend.cpython-311-x86_64-linux-gnu.so" is "_backend", "a.out" is itself. */
static void short_name(const char *file, char ret_name[VS_OWNER_NAME_MAX])
{
	const char *end;

	if (begins(file, "lib") && file[3])
		file += 3;
	end = strstr(file, ".cpython-");
	if (!end)
		end = strstr(file, ".abi3.");
	if (!end)
		end = strstr(file, ".so");
	if (!end || end == file)
		end = file + strlen(file);
	snprintf(ret_name, VS_OWNER_NAME_MAX, "%.*s", (int)(end - file < 4096 ? end - file : 4096), file);
}

static uint8_t named(struct vs_owners *owners, const char *file)
{
	char name[VS_OWNER_NAME_MAX];

	short_name(file, name);
	/* A file that happens to be called like a library that has its place already belongs there. */
	for (uint8_t i = VS_OWNER_PYTORCH; i < VS_OWNER_NAMED + owners->named_count; i++)
		if (!strcmp(vs_owner_name(owners, i), name))
			return i;
	if (owners->named_count == sizeof(owners->named) / sizeof(*owners->named))
		return VS_OWNER_OTHER;
	memcpy(owners->named[owners->named_count], name, sizeof(name));
	return (uint8_t)(VS_OWNER_NAMED + owners->named_count++);
}

bool vs_owner_of_file(struct vs_owners *owners, const char *path, uint8_t *ret_owner)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	if (!*file || *file == '[') /* no file: "[vdso]" */
		return false;
	for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
		if (begins(file, silent[i]))
			return false;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		if (begins(file, files[i].prefix)) {
			*ret_owner = files[i].owner;
			return true;
		}
	}
	*ret_owner = named(owners, file);
	return true;
}

const char *vs_owner_name(const struct vs_owners *owners, uint8_t owner)
{
	if (owner < VS_OWNER_NAMED)
		return names[owner];
	owner = (uint8_t)(owner - VS_OWNER_NAMED);
	return owner < owners->named_count ? owners->named[owner] : names[VS_OWNER_OTHER];
}
