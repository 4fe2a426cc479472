/* SPDX-License-Identifier: MIT
 *
 * PyTorch's CUDA caching allocator as a model of one device: the same blocks
 * at the same addresses for the same requests. No memory is touched; where
 * segments come from is the caller's vs_caching_device.
 *
 * Sizes are bytes, addresses are numbers. One thread at a time. Functions
 * return 0 or a negative errno; `ret_` outputs are untouched on failure.
 */
#ifndef VS_CACHING_H
#define VS_CACHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_CACHING_UNLIMITED UINT64_MAX
#define VS_CACHING_CLASSES   16 /* of roundup_power2_divisions: sizes from 1 MiB, 2 MiB, ... 32 GiB on */

/* What PYTORCH_CUDA_ALLOC_CONF and set_per_process_memory_fraction() set. */
struct vs_caching_settings {
	uint64_t max_split_size; /* VS_CACHING_UNLIMITED: every block may be split */
	uint64_t max_non_split_rounding;
	uint64_t large_segment_size;
	uint64_t roundup_power2_divisions[VS_CACHING_CLASSES]; /* 0 or 1: off */
	double garbage_collection_threshold;                   /* 0: off; works only with a fraction below 1 */
	double memory_fraction;                                /* of the device's total; 1: no limit */
	bool expandable_segments;
	uint32_t version; /* of torch, 100 * major + minor: 206, 211, ... */
};

/* The device under the allocator. Addresses of `allocate` are multiples of 512. */
struct vs_caching_device {
	void *context;
	uint64_t total; /* bytes, as cudaGetDeviceProperties tells; sets limits and the room of expandable segments */
	/* cudaMalloc: 0 or -ENOMEM. */
	int (*allocate)(void *context, uint64_t size, uint64_t *ret_address);
	/* cudaFree. */
	void (*release)(void *context, uint64_t address, uint64_t size);
	/* Address space for an expandable segment: 0 or -ENOMEM. */
	int (*reserve)(void *context, uint64_t size, uint64_t *ret_address);
	void (*unreserve)(void *context, uint64_t address, uint64_t size);
	/* Physical memory for a part of it, all or nothing, in pages of `page` bytes: 0 or -ENOMEM. */
	int (*map)(void *context, uint64_t address, uint64_t size, uint64_t page);
	void (*unmap)(void *context, uint64_t address, uint64_t size, uint64_t page);
};

struct vs_caching_request {
	uint64_t size; /* as the program asked */
	uint64_t stream;
	uint32_t pool;  /* from vs_caching_pool(); 0: the default pools */
	bool capturing; /* a CUDA graph is being captured: nothing may be released */
	bool missed;    /* for exact replays: the cache is known to have had nothing, whatever it holds now */
	bool retried;   /* ... and all that was cached has been released for this already */
};

struct vs_caching_stats {
	uint64_t allocated, allocated_peak;        /* blocks handed out */
	uint64_t active, active_peak;              /* ... and those freed that a stream still uses */
	uint64_t reserved, reserved_peak;          /* segments */
	uint64_t device_allocations, device_frees; /* calls: segments, or mappings */
	uint64_t retries, ooms;
};

struct vs_caching;
struct vs_caching_block;

/* Settings of a fresh torch of this version. */
void vs_caching_defaults(struct vs_caching_settings *ret_settings, uint32_t version);
/* The size a request takes in its pool, and what is asked from CUDA for it where nothing fits. */
uint64_t vs_caching_round(const struct vs_caching_settings *settings, uint64_t size);
uint64_t vs_caching_segment_size(const struct vs_caching_settings *settings, uint64_t rounded);
/* The bytes reserved above which garbage is collected; UINT64_MAX: never. `limit`: what the fraction allows, or
 * UINT64_MAX. */
uint64_t vs_caching_threshold(const struct vs_caching_settings *settings, uint64_t limit);
/* Is this (rounded) size served from the small pool? */
bool vs_caching_small(uint64_t rounded);

/* `device` is copied; its context outlives the allocator. */
int vs_caching_new(const struct vs_caching_settings *settings, const struct vs_caching_device *device,
                   struct vs_caching **ret_caching);
/* Accepts NULL. Tells the device nothing. */
void vs_caching_free_all(struct vs_caching *caching);

/* The index of a private pool (CUDA graphs, torch.cuda.MemPool), made on first use. {0, 0} is 0, the default. */
int vs_caching_pool(struct vs_caching *caching, uint64_t first, uint64_t second, uint32_t *ret_pool);
/* Its last user is gone: its cached segments may be released. */
void vs_caching_pool_freeable(struct vs_caching *caching, uint32_t pool);
/* As MemPool(use_on_oom=True) and MemPool(no_split=True). */
void vs_caching_pool_use_on_oom(struct vs_caching *caching, uint32_t pool, bool on);
void vs_caching_pool_no_split(struct vs_caching *caching, uint32_t pool);

/* -ENOMEM: where torch raises OutOfMemoryError, or where our own memory ran out. */
int vs_caching_malloc(struct vs_caching *caching, const struct vs_caching_request *request,
                      struct vs_caching_block **ret_block);
/* The block is gone with the call. */
void vs_caching_free(struct vs_caching *caching, struct vs_caching_block *block);
/* Freed while other streams still use it (record_stream): it stays until vs_caching_complete(), or until the
 * allocator synchronises. Returns a ticket for vs_caching_complete(), never 0. */
uint64_t vs_caching_defer(struct vs_caching *caching, struct vs_caching_block *block);
/* Nothing happens where the ticket has expired: the allocator has synchronised meanwhile. */
void vs_caching_complete(struct vs_caching *caching, struct vs_caching_block *block, uint64_t ticket);
/* torch.cuda.empty_cache(). */
void vs_caching_empty_cache(struct vs_caching *caching);
/* Release one cached segment (a range, of an expandable one) that is wholly free: -ENOENT if it is not. */
int vs_caching_release_at(struct vs_caching *caching, uint64_t stream, uint64_t address, uint64_t size);
/* The cached block that this request would find; NULL: none. Changes nothing. */
const struct vs_caching_block *vs_caching_would_hit(const struct vs_caching *caching,
                                                    const struct vs_caching_request *request);
/* The bytes that it would need from the device; UINT64_MAX: more than its fraction. None, even where it finds no
 * block: an expandable segment may have grown enough by blocks that max_split_size keeps from the look-up. Changes
 * nothing. */
uint64_t vs_caching_needed(const struct vs_caching *caching, const struct vs_caching_request *request);
/* Does this request, before it is refused, release all that is cached? Else only oversize blocks of its own pool. */
bool vs_caching_may_release(const struct vs_caching *caching, const struct vs_caching_request *request);
/* Would empty_cache() give anything back? Changes nothing. */
bool vs_caching_has_releasable(const struct vs_caching *caching);
struct vs_caching_room {
	uint64_t first; /* address */
	size_t count;
	uint64_t bytes;
	bool enough;
};
/* The oversize blocks of its own pool that a request releases first, should it not fit. If those are enough it tries
 * again, else it releases all that is cached, if it may. Changes nothing. */
struct vs_caching_room vs_caching_would_release(struct vs_caching *caching, const struct vs_caching_request *request);
/* The segments that garbage collection would release, should a request miss now. Changes nothing. */
struct vs_caching_room vs_caching_would_collect(struct vs_caching *caching);

uint64_t vs_caching_address(const struct vs_caching_block *block);
uint64_t vs_caching_size(const struct vs_caching_block *block);
const struct vs_caching_stats *vs_caching_stats(const struct vs_caching *caching);
/* Bytes in free blocks of partly used segments (pinned) and of whole ones (releasable), and the largest free block.
 */
void vs_caching_free_bytes(const struct vs_caching *caching, uint64_t *ret_releasable, uint64_t *ret_pinned,
                           uint64_t *ret_largest);

/* Start from a known state instead of an empty one, the oldest segment first. The pieces cover a segment in order. */
enum vs_caching_piece_state { VS_PIECE_FREE, VS_PIECE_ALLOCATED, VS_PIECE_PENDING, VS_PIECE_UNMAPPED };
struct vs_caching_piece {
	uint64_t address, size;
	enum vs_caching_piece_state state;
	struct vs_caching_block *block; /* set by the call: what to free later */
	uint64_t ticket;                /* ... and of a pending one */
};
struct vs_caching_segment {
	uint64_t stream;
	uint32_t pool;
	bool small;
	bool expandable;
	struct vs_caching_piece *pieces;
	size_t piece_count;
};
int vs_caching_load(struct vs_caching *caching, struct vs_caching_segment *segment);

#endif
