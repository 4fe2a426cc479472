/* SPDX-License-Identifier: MIT
 *
 * NCCL: communicators know their size and rank, collectives are done as soon
 * as they are asked for. Of small metadata (shadow.h) every rank is taken to
 * send what this one does. A real communicator's own buffers (hundreds of MB)
 * depend on topology and tuning and are not on the books.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/shadow.h"
#include "sim/sim.h"
#include "sim/stream.h"

enum { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

struct comm {
	int count;
	int rank;
	int device;
};

struct unique_id {
	char bytes[128];
};

VS_API int ncclGetVersion(int *version)
{
	static const char *const names[] = {"libnccl.so.2", NULL};
	int (*get)(int *) = (int (*)(int *))vs_real(names, "ncclGetVersion");

	if (!version)
		return INVALID_ARGUMENT;
	if (get)
		return get(version);
	*version = 23007;
	return SUCCESS;
}

VS_API int ncclGetUniqueId(struct unique_id *id)
{
	static _Atomic uint32_t next;
	uint32_t number = ++next;

	if (!id)
		return INVALID_ARGUMENT;
	memset(id, 0, sizeof(*id));
	memcpy(id->bytes, "vramsim", 8);
	memcpy(id->bytes + 8, &(pid_t){getpid()}, sizeof(pid_t));
	memcpy(id->bytes + 16, &number, sizeof(number));
	return SUCCESS;
}

VS_API int ncclCommGetUniqueId(struct comm *comm, struct unique_id *id)
{
	return comm ? ncclGetUniqueId(id) : INVALID_ARGUMENT;
}

static int create(struct comm **ret_comm, int count, int rank, int device)
{
	if (!ret_comm || count < 1 || rank < 0 || rank >= count)
		return INVALID_ARGUMENT;
	if (vs_sim_activate(device) != CU_OK)
		return UNHANDLED_CUDA_ERROR;
	*ret_comm = calloc(1, sizeof(**ret_comm));
	if (!*ret_comm)
		return SYSTEM_ERROR;
	**ret_comm = (struct comm){count, rank, device};
	return SUCCESS;
}

VS_API int ncclCommInitRank(struct comm **comm, int count, struct unique_id id, int rank)
{
	(void)id;
	return create(comm, count, rank, vs_thread_device());
}
VS_ALIAS(ncclCommInitRankConfig, ncclCommInitRank); /* a configuration follows */

VS_API int ncclCommInitRankScalable(struct comm **comm, int count, int rank, int ids)
{
	(void)ids;
	return create(comm, count, rank, vs_thread_device());
}

VS_API int ncclCommInitAll(struct comm **comms, int count, const int *devices)
{
	int r = comms ? SUCCESS : INVALID_ARGUMENT;

	for (int i = 0; i < count && r == SUCCESS; i++)
		r = create(&comms[i], count, i, devices ? devices[i] : i);
	return r;
}

/* Who else takes part is not known here: the group is taken to be as large as its parent. */
VS_API int ncclCommSplit(struct comm *comm, int color, int key, struct comm **fresh)
{
	(void)key;
	if (!comm || !fresh)
		return INVALID_ARGUMENT;
	if (color < 0) { /* NCCL_SPLIT_NOCOLOR: not part of any */
		*fresh = NULL;
		return SUCCESS;
	}
	return create(fresh, comm->count, comm->rank, comm->device);
}

VS_API int ncclCommShrink(struct comm *comm, int *excluded, int excluded_count, struct comm **fresh)
{
	int rank;

	if (!comm || !fresh || !excluded)
		return INVALID_ARGUMENT;
	rank = comm->rank;
	for (int i = 0; i < excluded_count; i++)
		rank -= excluded[i] < comm->rank;
	return create(fresh, comm->count - excluded_count, rank, comm->device);
}

VS_API int ncclCommDestroy(struct comm *comm)
{
	free(comm);
	return SUCCESS;
}
VS_ALIAS(ncclCommAbort, ncclCommDestroy);

VS_API int ncclCommFinalize(struct comm *comm)
{
	return comm ? SUCCESS : INVALID_ARGUMENT;
}
VS_ALIAS(ncclCommRevoke, ncclCommFinalize);
VS_ALIAS(ncclCommSuspend, ncclCommFinalize);
VS_ALIAS(ncclCommResume, ncclCommFinalize);

VS_API int ncclCommGetAsyncError(struct comm *comm, int *error)
{
	if (!comm || !error)
		return INVALID_ARGUMENT;
	*error = SUCCESS;
	return SUCCESS;
}

VS_API int ncclCommCount(const struct comm *comm, int *count)
{
	if (!comm || !count)
		return INVALID_ARGUMENT;
	*count = comm->count;
	return SUCCESS;
}

VS_API int ncclCommUserRank(const struct comm *comm, int *rank)
{
	if (!comm || !rank)
		return INVALID_ARGUMENT;
	*rank = comm->rank;
	return SUCCESS;
}

VS_API int ncclCommCuDevice(const struct comm *comm, int *device)
{
	if (!comm || !device)
		return INVALID_ARGUMENT;
	*device = comm->device;
	return SUCCESS;
}

VS_API int ncclCommRegister(const struct comm *comm, void *buffer, size_t size, void **handle)
{
	(void)size;
	if (!comm || !handle)
		return INVALID_ARGUMENT;
	*handle = buffer;
	return SUCCESS;
}
VS_ALIAS(ncclCommWindowRegister, ncclCommRegister);

VS_API int ncclCommDeregister(const struct comm *comm, void *handle)
{
	(void)handle;
	return comm ? SUCCESS : INVALID_ARGUMENT;
}
VS_ALIAS(ncclCommWindowDeregister, ncclCommDeregister);

VS_API int ncclWinGetUserPtr(struct comm *comm, void *window, void **pointer)
{
	if (!comm || !pointer)
		return INVALID_ARGUMENT;
	*pointer = window; /* the window's handle is its buffer */
	return SUCCESS;
}

VS_API int ncclMemAlloc(void **pointer, size_t size)
{
	uint64_t address;

	if (!pointer || vs_sim_activate(vs_thread_device()) != CU_OK ||
	    vs_books_malloc(vs_thread_device(), size ? size : 1, &address) != CU_OK)
		return UNHANDLED_CUDA_ERROR;
	*pointer = (void *)(uintptr_t)address;
	return SUCCESS;
}

VS_API int ncclMemFree(void *pointer)
{
	return !pointer || vs_books_free((uint64_t)(uintptr_t)pointer) == CU_OK ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

/* Collectives: the communicator comes before the stream, both last, at places that differ. */
#define COLLECTIVE(name, before)                                                                                     \
	VS_API int name(before, struct comm *comm, void *stream)                                                     \
	{                                                                                                            \
		if (!comm)                                                                                           \
			return INVALID_ARGUMENT;                                                                     \
		vs_stream_work(stream);                                                                              \
		return SUCCESS;                                                                                      \
	}
#define UNUSED_3                                                                                                     \
	const void *a __attribute__((unused)), size_t n __attribute__((unused)), int t __attribute__((unused))
#define UNUSED_4 UNUSED_3, int p __attribute__((unused))
#define UNUSED_COPY                                                                                                  \
	const void *from __attribute__((unused)), void *to __attribute__((unused)),                                  \
	    size_t n __attribute__((unused)), int t __attribute__((unused))
#define UNUSED_COPY_1 UNUSED_COPY, int x __attribute__((unused))
#define UNUSED_COPY_2 UNUSED_COPY_1, int y __attribute__((unused))

COLLECTIVE(ncclAlltoAll, UNUSED_COPY)
COLLECTIVE(ncclReduceScatter, UNUSED_COPY_1)
COLLECTIVE(ncclGather, UNUSED_COPY_1)
COLLECTIVE(ncclScatter, UNUSED_COPY_1)
COLLECTIVE(ncclReduce, UNUSED_COPY_2)
COLLECTIVE(ncclBcast, UNUSED_4)
COLLECTIVE(ncclSend, UNUSED_4)
COLLECTIVE(ncclRecv, UNUSED_4)

/* ncclDataType_t: 0 and 1 bytes, 2 and 3 int, 4 and 5 long, 6 half, 7 float, 8 double, 9 bfloat16, 10 and 11 fp8 */
static uint64_t type_size(int type)
{
	static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type >= 0 && type < (int)sizeof(sizes) ? sizes[type] : 1;
}

VS_API int ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *comm, void *stream)
{
	uint64_t size = count * type_size(type);

	if (!comm)
		return INVALID_ARGUMENT;
	for (int i = 0; i < comm->count; i++)
		vs_shadow_move((uint64_t)(uintptr_t)to + (uint64_t)i * size, (uint64_t)(uintptr_t)from, size);
	vs_stream_work(stream);
	return SUCCESS;
}

/* A sum over several ranks is not known to one of them. */
VS_API int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *comm, void *stream)
{
	(void)op;
	if (!comm)
		return INVALID_ARGUMENT;
	if (comm->count == 1)
		vs_shadow_move((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, count * type_size(type));
	else
		vs_shadow_write((uint64_t)(uintptr_t)to, NULL, count * type_size(type));
	vs_stream_work(stream);
	return SUCCESS;
}

/*
 * A group of broadcasts, one from each rank, is how PyTorch gathers into
 * separate tensors: what the others send is taken to be what this rank sends.
 */
struct received {
	uint64_t address;
	uint64_t size;
};

struct group {
	unsigned int depth;
	struct received own;         /* what this rank sent in this group */
	struct received others[128]; /* ranks of a large machine; more stay unknown */
	unsigned int count;
};

/* On the heap: storage of a thread's own is scarce in a library that is opened late. */
static __thread struct group *group;

VS_API int ncclGroupStart(void)
{
	if (!group)
		group = calloc(1, sizeof(*group));
	if (!group)
		return SYSTEM_ERROR;
	if (!group->depth++) {
		group->own.size = 0;
		group->count = 0;
	}
	return SUCCESS;
}

VS_API int ncclGroupEnd(void)
{
	if (!group || !group->depth)
		return INVALID_USAGE;
	if (--group->depth)
		return SUCCESS;
	for (unsigned int i = 0; i < group->count; i++)
		if (group->others[i].size == group->own.size)
			vs_shadow_move(group->others[i].address, group->own.address, group->own.size);
	return SUCCESS;
}

VS_API int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm,
                         void *stream)
{
	struct received received = {(uint64_t)(uintptr_t)to, count * type_size(type)};

	if (!comm)
		return INVALID_ARGUMENT;
	vs_shadow_move(received.address, (uint64_t)(uintptr_t)from, received.size);
	if (group && group->depth && root == comm->rank)
		group->own = received;
	else if (group && group->depth && group->count < sizeof(group->others) / sizeof(group->others[0]))
		group->others[group->count++] = received;
	vs_stream_work(stream);
	return SUCCESS;
}

VS_API int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct comm *comm)
{
	(void)scalar;
	(void)type;
	(void)residence;
	if (!op || !comm)
		return INVALID_ARGUMENT;
	*op = 5; /* ncclNumOps: the first number that is no built-in operation */
	return SUCCESS;
}

VS_API int ncclRedOpDestroy(int op, struct comm *comm)
{
	(void)op;
	return comm ? SUCCESS : INVALID_ARGUMENT;
}

VS_API const char *ncclGetErrorString(int status)
{
	static const char *const texts[] = {"no error",       "unhandled cuda error", "unhandled system error",
	                                    "internal error", "invalid argument",     "invalid usage"};

	return status >= 0 && status < (int)(sizeof(texts) / sizeof(texts[0])) ? texts[status]
	                                                                       : "unknown result code";
}

VS_API const char *ncclGetLastError(struct comm *comm)
{
	(void)comm;
	return "";
}

#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, INVALID_USAGE);                                                  \
	}
#include "sim/nccl.def"
