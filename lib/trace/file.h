/* SPDX-License-Identifier: MIT
 *
 * The writer's file: its space, and its chunks in memory.
 */
#ifndef VS_TRACE_FILE_H
#define VS_TRACE_FILE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <trace/format.h>

struct vs_file {
	struct vs_trace_header *header; /* chunk 0, mapped for good */

	pthread_mutex_t
	    lock; /* for what follows; held over the system calls that add space, never over a call back */
	int fd;
	dev_t device; /* what `fd` must still be: a job may close every descriptor and reuse the numbers */
	ino_t inode;
	uint32_t allocated; /* chunks that have space on disk */
	uint32_t limit;     /* chunks at most */
	bool closed;        /* no more chunks */
	char path[PATH_MAX];
};

/* Create the file with chunk 0 in use: its header filled but for the magic, its definitions chunk ready. Errors as
 * vs_writer_open(). */
int vs_file_create(struct vs_file *file, const char *path, uint64_t max_size);
/* Make the header valid. */
void vs_file_publish(struct vs_file *file);

/* Take the next chunk and map it; vs_chunk_begin() makes it known. NULL if there is no room, now and ever after.
 * Keeps errno. */
uint8_t *vs_file_claim(struct vs_file *file, uint32_t *ret_index);
/* No more chunks; give back the space beyond the last one, unless a chunk is being claimed at this moment. Chunks
 * that are mapped stay usable. */
void vs_file_close(struct vs_file *file);

/* Fill in the header of a claimed chunk and link it behind `previous` (NULL: it begins a stream), which is then
 * unmapped unless it is chunk 0. `chunk->magic` need not be set. */
void vs_chunk_begin(struct vs_chunk_header *at, const struct vs_chunk_header *chunk, uint32_t index,
                    struct vs_chunk_header *previous);

#endif
