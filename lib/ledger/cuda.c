/* SPDX-License-Identifier: MIT */
#include "ledger/cuda.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const owner_names[VS_OWNER_COUNT] = {
    [VS_OWNER_PYTORCH] = "pytorch",   [VS_OWNER_TORCH_OTHER] = "torch",         [VS_OWNER_NCCL] = "nccl",
    [VS_OWNER_CUBLAS] = "cublas",     [VS_OWNER_CUBLASLT] = "cublaslt",         [VS_OWNER_CUDNN] = "cudnn",
    [VS_OWNER_CUSOLVER] = "cusolver", [VS_OWNER_CUSPARSE] = "cusparse",         [VS_OWNER_CUFFT] = "cufft",
    [VS_OWNER_NVSHMEM] = "nvshmem",   [VS_OWNER_BITSANDBYTES] = "bitsandbytes", [VS_OWNER_TRITON] = "triton",
    [VS_OWNER_OTHER] = "other",
};

/* File names by their beginning; longer ones first where one begins another. */
static const struct {
	const char *prefix;
	enum vs_owner owner;
} module_owners[] = {
    {"libc10_cuda", VS_OWNER_PYTORCH}, {"libc10", VS_OWNER_TORCH_OTHER},   {"libtorch", VS_OWNER_TORCH_OTHER},
    {"libnccl", VS_OWNER_NCCL},        {"libcublasLt", VS_OWNER_CUBLASLT}, {"libcublas", VS_OWNER_CUBLAS},
    {"libcudnn", VS_OWNER_CUDNN},      {"libcusolver", VS_OWNER_CUSOLVER}, {"libcusparse", VS_OWNER_CUSPARSE},
    {"libcufft", VS_OWNER_CUFFT},      {"libnvshmem", VS_OWNER_NVSHMEM},   {"libbitsandbytes", VS_OWNER_BITSANDBYTES},
    {"libtriton", VS_OWNER_TRITON},    {"cuda_utils", VS_OWNER_TRITON},
};

static const char *const silent_modules[] = {"libvramshim", "libvramsim", "libcudart", "libcuda.so",
                                             "libc.so",     "libpthread", "ld-linux"};

const char *vs_owner_name(enum vs_owner owner)
{
	return (unsigned)owner < VS_OWNER_COUNT ? owner_names[owner] : owner_names[VS_OWNER_OTHER];
}

int vs_owner_of_module(const char *path, enum vs_owner *ret_owner)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	if (!*file)
		return 0;
	for (size_t i = 0; i < sizeof(silent_modules) / sizeof(*silent_modules); i++)
		if (!strncmp(file, silent_modules[i], strlen(silent_modules[i])))
			return 0;
	*ret_owner = VS_OWNER_OTHER;
	for (size_t i = 0; i < sizeof(module_owners) / sizeof(*module_owners); i++) {
		if (!strncmp(file, module_owners[i].prefix, strlen(module_owners[i].prefix))) {
			*ret_owner = module_owners[i].owner;
			break;
		}
	}
	return 1;
}

void vs_cuda_release(struct vs_cuda *cuda)
{
	vs_u64map_release(&cuda->map);
	free(cuda->pieces);
	free(cuda->unused);
	*cuda = (struct vs_cuda){0};
}

/* Handles and addresses are different worlds with the same numbers. Device addresses have 57 bits at most. Linear
 * memory is one world, whoever made it: cudaFree() takes managed memory, and a pool's as well as cudaFreeAsync(). */
static uint64_t key_of(enum vramshim_memory memory, uint64_t address)
{
	if (memory == VRAMSHIM_MEMORY_MANAGED || memory == VRAMSHIM_MEMORY_POOL)
		memory = VRAMSHIM_MEMORY_DEVICE;
	return address ^ ((uint64_t)memory << 58);
}

/* The bytes that an allocation takes on the card. Managed memory is on either side, so it is not counted; mapping and
 * reserving addresses takes nothing; foreign bytes are counted where they were made. */
static uint64_t device_bytes(const struct vs_cuda_piece *piece)
{
	switch (piece->memory) {
	case VRAMSHIM_MEMORY_DEVICE:
	case VRAMSHIM_MEMORY_ARRAY:
	case VRAMSHIM_MEMORY_POOL:
	case VRAMSHIM_MEMORY_PHYSICAL:
		return piece->size;
	default:
		return 0;
	}
}

/* Returns the size of what was removed; 0 if nothing was there. */
static uint64_t take(struct vs_cuda *cuda, enum vramshim_memory memory, uint64_t address)
{
	struct vs_cuda_piece *piece;
	uint64_t size;
	uint32_t index;

	if (!vs_u64map_take(&cuda->map, key_of(memory, address), &index))
		return 0;
	piece = &cuda->pieces[index];
	size = piece->size;
	cuda->bytes -= device_bytes(piece);
	cuda->by_owner[piece->owner] -= device_bytes(piece);
	piece->memory = 0;
	cuda->unused[cuda->unused_count++] = index;
	return size;
}

static int add(struct vs_cuda *cuda, const struct vs_cuda_piece *piece)
{
	uint32_t index;
	int error;

	take(cuda, piece->memory, piece->address); /* its free was lost */
	if (cuda->unused_count) {
		index = cuda->unused[cuda->unused_count - 1];
	} else {
		/* As many may become unused, so that giving one back never fails. */
		if (cuda->count == UINT32_MAX ||
		    vs_grow(&cuda->pieces, &cuda->capacity, cuda->count + 1, sizeof(*cuda->pieces)) ||
		    vs_grow(&cuda->unused, &cuda->unused_capacity, cuda->count + 1, sizeof(*cuda->unused)))
			return -ENOMEM;
		index = (uint32_t)cuda->count;
	}
	error = vs_u64map_put(&cuda->map, key_of(piece->memory, piece->address), index);
	if (error)
		return error == -EINVAL ? 0 : error; /* a null address is no allocation */
	if (cuda->unused_count)
		cuda->unused_count--;
	else
		cuda->count++;
	cuda->pieces[index] = *piece;
	cuda->bytes += device_bytes(piece);
	cuda->by_owner[piece->owner] += device_bytes(piece);
	return 0;
}

int vs_cuda_event(struct vs_cuda *cuda, const struct vramshim_event *event, enum vs_owner owner)
{
	uint64_t done;

	if (event->type == VRAMSHIM_CUDA_ALLOC)
		return add(cuda, &(struct vs_cuda_piece){event->address, event->size, event->memory, (uint8_t)owner});
	done = take(cuda, event->memory, event->address);
	/* One unmap may cover several mappings that follow each other. */
	while (event->memory == VRAMSHIM_MEMORY_MAPPED && done && done < event->size) {
		uint64_t more = take(cuda, event->memory, event->address + done);

		if (!more)
			break;
		done += more;
	}
	return 0;
}

bool vs_cuda_holds(const struct vs_cuda *cuda, const struct vramshim_event *event)
{
	uint32_t index;

	return vs_u64map_get(&cuda->map, key_of(event->memory, event->address), &index);
}

static int by_address(const void *a, const void *b)
{
	const struct vs_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

int vs_cuda_ranges(const struct vs_cuda *cuda, struct vs_range **ret_ranges, size_t *ret_count)
{
	struct vs_range *ranges;
	size_t count = 0;

	ranges = calloc(cuda->count ? cuda->count : 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < cuda->count; i++) {
		const struct vs_cuda_piece *piece = &cuda->pieces[i];

		if (piece->owner != VS_OWNER_PYTORCH ||
		    (piece->memory != VRAMSHIM_MEMORY_DEVICE && piece->memory != VRAMSHIM_MEMORY_MAPPED))
			continue;
		ranges[count++] = (struct vs_range){piece->address, piece->address + piece->size,
		                                    piece->memory == VRAMSHIM_MEMORY_MAPPED};
	}
	qsort(ranges, count, sizeof(*ranges), by_address);
	*ret_ranges = ranges;
	*ret_count = count;
	return 0;
}
