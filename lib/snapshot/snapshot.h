/* SPDX-License-Identifier: MIT
 *
 * A PyTorch memory snapshot (torch.cuda.memory._dump_snapshot and kin), of
 * every layout from torch 1.13 to 2.15, as plain arrays.
 *
 * Everything belongs to the snapshot and lives until vs_snapshot_free(). What
 * a layout does not have is 0, "" or VS_SNAPSHOT_UNSET. Nothing here is
 * checked for sense beyond its type: sizes and addresses are what the file
 * says. Memory is proportional to the (decompressed) file.
 */
#ifndef VS_SNAPSHOT_H
#define VS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_SNAPSHOT_UNSET UINT64_MAX

enum vs_snapshot_state {
	VS_SNAPSHOT_INACTIVE,
	VS_SNAPSHOT_ALLOCATED,    /* active_allocated */
	VS_SNAPSHOT_PENDING_FREE, /* freed by the program, still in use by a stream */
};

enum vs_snapshot_action {
	VS_SNAPSHOT_OTHER, /* an action this reader does not know, or has no use for */
	VS_SNAPSHOT_ALLOC,
	VS_SNAPSHOT_FREE_REQUESTED,
	VS_SNAPSHOT_FREE_COMPLETED,
	VS_SNAPSHOT_SEGMENT_ALLOC,
	VS_SNAPSHOT_SEGMENT_FREE,
	VS_SNAPSHOT_SEGMENT_MAP,
	VS_SNAPSHOT_SEGMENT_UNMAP,
	VS_SNAPSHOT_SNAPSHOT,
	VS_SNAPSHOT_OOM,
	VS_SNAPSHOT_ANNOTATE,
};

struct vs_snapshot_frame {
	const char *file;
	const char *function;
	uint64_t line;
};

struct vs_snapshot_stack {
	const uint32_t *frames; /* indices, innermost first */
	uint32_t count;
};

struct vs_snapshot_pool { /* {0, 0}: the default pools */
	uint64_t first, second;
};

struct vs_snapshot_block {
	uint64_t address;
	uint64_t size;
	uint64_t requested_size; /* VS_SNAPSHOT_UNSET where the layout does not tell */
	enum vs_snapshot_state state;
	uint32_t stack; /* index; 0: none */
};

struct vs_snapshot_segment {
	uint64_t address;
	uint64_t total_size;
	uint64_t stream;
	struct vs_snapshot_pool pool;
	int32_t device;
	bool large;
	bool expandable;
	uint32_t stack;
	size_t first_block; /* its blocks are consecutive and by address */
	size_t block_count;
};

struct vs_snapshot_event {
	enum vs_snapshot_action action;
	int32_t device;
	uint64_t address; /* OOM: free bytes on the device */
	uint64_t size;    /* alloc, free: as requested; segments: as CUDA gave; OOM: the rounded request */
	uint64_t stream;
	uint64_t time_us;             /* Unix time; 0 where the layout has none */
	struct vs_snapshot_pool pool; /* {VS_SNAPSHOT_UNSET, ...} up to torch 2.11 */
	uint32_t stack;
	const char *category; /* not PyTorch's: set by other tools, and by ours */
	const char *compile_context;
	const char *user_metadata;
};

struct vs_snapshot_settings {
	bool present;            /* the layout tells them (torch 2.3 and later) */
	const char *text;        /* PYTORCH_CUDA_ALLOC_CONF */
	uint64_t max_split_size; /* bytes; VS_SNAPSHOT_UNSET: unlimited */
	double garbage_collection_threshold;
	bool expandable_segments;
	uint64_t roundup_power2_divisions[16]; /* for sizes from 1 MiB, 2 MiB, ... 32 GiB on */
};

struct vs_snapshot {
	struct vs_snapshot_segment *segments; /* by device, then address */
	size_t segment_count;
	struct vs_snapshot_block *blocks;
	size_t block_count;
	struct vs_snapshot_event *events; /* the devices' traces one after the other, each in order */
	size_t event_count;
	struct vs_snapshot_stack *stacks; /* [0] is the empty one */
	size_t stack_count;
	struct vs_snapshot_frame *frames;
	size_t frame_count;
	struct vs_snapshot_settings settings;
	int32_t device_count; /* of the traces, or one more than the highest device of a segment */
	bool has_pools;       /* events carry their pool */
};

struct vs_snapshot_error {
	char text[200]; /* one line without the file's name, for the user */
};

/* Read a file, gzip'ed or not. -ENOENT, -EACCES, ...: as open(2); -EBADMSG: no snapshot; -EPERM: a pickle that wants
 * to run code; -EOVERFLOW: beyond a limit; -ENOMEM. `ret_error` is filled on every failure. */
int vs_snapshot_load(const char *path, struct vs_snapshot **ret_snapshot, struct vs_snapshot_error *ret_error);
/* As above from bytes in memory (gzip'ed or not), which the snapshot does not keep. */
int vs_snapshot_parse(const void *data, size_t size, struct vs_snapshot **ret_snapshot,
                      struct vs_snapshot_error *ret_error);
/* Accepts NULL. */
void vs_snapshot_free(struct vs_snapshot *snapshot);
/* The arrays alone, of a snapshot that was put together elsewhere; what texts and stacks point into stays. */
void vs_snapshot_free_arrays(struct vs_snapshot *snapshot);

/* Does this file look like a snapshot (a binary pickle, or a gzip of one)? Only its first bytes are read. */
bool vs_snapshot_probe(const char *path);

#endif
