/* SPDX-License-Identifier: MIT
 *
 * Who asked CUDA for memory: the library nearest to the call, by the mapped
 * files of its stack's native frames.
 */
#ifndef VS_LEDGER_OWNER_H
#define VS_LEDGER_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VS_OWNER_NOBODY,  /* no native stack was recorded: PyTorch's as far as that lacks bytes, else "other" */
	VS_OWNER_PYTORCH, /* the caching allocator */
	VS_OWNER_TORCH,   /* PyTorch past its allocator: symmetric memory, IPC, ... */
	VS_OWNER_NCCL,
	VS_OWNER_CUBLAS,
	VS_OWNER_CUBLASLT,
	VS_OWNER_CUDNN,
	VS_OWNER_CUSOLVER,
	VS_OWNER_CUSPARSE,
	VS_OWNER_CUFFT,
	VS_OWNER_NVSHMEM,
	VS_OWNER_BITSANDBYTES,
	VS_OWNER_TRITON,
	VS_OWNER_OTHER,
	VS_OWNER_NAMED, /* from here on, libraries by the names of their files, in the order met */
	/* A process has some hundred libraries, of which a few take device memory; those beyond are "other". */
	VS_OWNERS_MAX = 64,
	VS_OWNER_NAME_MAX = 48,
};

struct vs_owners { /* of one trace; all zero to begin with */
	char named[VS_OWNERS_MAX - VS_OWNER_NAMED][VS_OWNER_NAME_MAX];
	size_t named_count;
};

/* By the mapped file of a frame. False, and *ret_owner untouched, for files that say nothing: CUDA's own runtime and
 * driver, the recorder, libc, and what only carries a call on (libffi). */
bool vs_owner_of_file(struct vs_owners *owners, const char *path, uint8_t *ret_owner);

/* The same of those that are known by name: VS_OWNER_OTHER for all others, VS_OWNER_NOBODY for those that say
 * nothing. */
uint8_t vs_owner_known(const char *path);

/* "nccl", "cublas", "other"; the name by which Python imports an extension module ("cupy.cuda.memory"), or the file's
 * name without "lib" and all suffixes. Good as long as `owners`. */
const char *vs_owner_name(const struct vs_owners *owners, uint8_t owner);

#endif
