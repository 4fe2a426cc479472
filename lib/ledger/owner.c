/* SPDX-License-Identifier: MIT */
#include "ledger/owner.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"

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

/* An extension module is "package.module", elsewhere its file is all that is known: "_backend.abi3.so" is "_backend".
 * "libfoo-1.so.2" is "foo-1", "a.out" is itself. */
static void short_name(const char *path, char ret_name[VS_OWNER_NAME_MAX])
{
	const char *name = vs_path_file(path), *end = strstr(name, ".cpython-"), *dotted = vs_path_in_packages(path);

	if (!end)
		end = strstr(name, ".abi3.");
	if (end && end != name && dotted && end - dotted < VS_OWNER_NAME_MAX) {
		snprintf(ret_name, VS_OWNER_NAME_MAX, "%.*s", (int)(end - dotted), dotted);
		for (char *slash = strchr(ret_name, '/'); slash; slash = strchr(slash, '/'))
			*slash = '.';
		return;
	}
	if (begins(name, "lib") && name[3])
		name += 3;
	if (!end)
		end = strstr(name, ".so");
	if (!end || end <= name)
		end = name + strlen(name);
	snprintf(ret_name, VS_OWNER_NAME_MAX, "%.*s", (int)(end - name < 4096 ? end - name : 4096), name);
}

static uint8_t named(struct vs_owners *owners, const char *path)
{
	char name[VS_OWNER_NAME_MAX];

	short_name(path, name);
	/* A file that happens to be called like a library that has its place already belongs there. */
	for (uint8_t i = VS_OWNER_PYTORCH; i < VS_OWNER_NAMED + owners->named_count; i++)
		if (!strcmp(vs_owner_name(owners, i), name))
			return i;
	if (owners->named_count == sizeof(owners->named) / sizeof(*owners->named))
		return VS_OWNER_OTHER;
	memcpy(owners->named[owners->named_count], name, sizeof(name));
	return (uint8_t)(VS_OWNER_NAMED + owners->named_count++);
}

static bool is_silent(const char *file)
{
	if (!*file || *file == '[') /* no file: "[vdso]" */
		return true;
	for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
		if (begins(file, silent[i]))
			return true;
	return false;
}

uint8_t vs_owner_known(const char *path)
{
	const char *file = vs_path_file(path);

	if (is_silent(file))
		return VS_OWNER_NOBODY;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (begins(file, files[i].prefix))
			return files[i].owner;
	return VS_OWNER_OTHER;
}

bool vs_owner_of_file(struct vs_owners *owners, const char *path, uint8_t *ret_owner)
{
	uint8_t owner = vs_owner_known(path);

	if (owner == VS_OWNER_NOBODY)
		return false;
	*ret_owner = owner == VS_OWNER_OTHER ? named(owners, path) : owner;
	return true;
}

const char *vs_owner_name(const struct vs_owners *owners, uint8_t owner)
{
	if (owner < VS_OWNER_NAMED)
		return names[owner];
	owner = (uint8_t)(owner - VS_OWNER_NAMED);
	return owner < owners->named_count ? owners->named[owner] : names[VS_OWNER_OTHER];
}
