/* SPDX-License-Identifier: MIT
 *
 * Replay what an allocator did.
 *
 * First exactly: the recorded events against the model under the recorded
 * settings, the device answering as it did then, every address compared. That
 * tells whether the model may be believed on this recording, and turns the
 * recording into a program: requests and frees without addresses, and the
 * calls of empty_cache() told apart from what the allocator did by itself.
 *
 * Then the program under any settings, on any card.
 */
#ifndef VS_CACHING_REPLAY_H
#define VS_CACHING_REPLAY_H

#include "caching/caching.h"

enum vs_replay_kind {
	VS_REPLAY_ALLOC = 1,
	VS_REPLAY_FREE,     /* the program gives the block back */
	VS_REPLAY_COMPLETE, /* ... and no stream uses it any more; right after VS_REPLAY_FREE where none did */
	VS_REPLAY_OOM,      /* a request refused; the address is the free bytes of the device */
	VS_REPLAY_SEGMENT_ALLOC,
	VS_REPLAY_SEGMENT_FREE,
	VS_REPLAY_SEGMENT_MAP,
	VS_REPLAY_SEGMENT_UNMAP,
	VS_REPLAY_OUTSIDE_ALLOC, /* device memory that is not the caching allocator's */
	VS_REPLAY_OUTSIDE_FREE,
};

#define VS_REPLAY_NO_POOL UINT64_MAX

struct vs_replay_event {
	enum vs_replay_kind kind;
	uint64_t address;
	uint64_t size; /* as requested; of segments, as CUDA gave */
	uint64_t stream;
	uint64_t pool[2]; /* VS_REPLAY_NO_POOL: not recorded */
};

struct vs_replay_block {
	uint64_t address, size;
	uint64_t requested; /* VS_REPLAY_NO_POOL: unknown */
	bool allocated, pending;
};

struct vs_replay_segment {
	uint64_t address, size, stream;
	uint64_t pool[2];
	bool small, expandable;
	const struct vs_replay_block *blocks; /* in order; free ones may be left out */
	size_t block_count;
};

/* One device of one process. */
struct vs_replay_recording {
	struct vs_caching_settings settings;
	const struct vs_replay_event *events;
	size_t event_count;
	const struct vs_replay_segment
	    *segments; /* after the last event, by address; NULL: nothing before the first */
	size_t segment_count;
	uint64_t total;        /* of the device, bytes; 0: unknown */
	uint64_t *block_sizes; /* one an event, or NULL: gets the size of the block that each allocation made */
	uint64_t room;         /* what of it PyTorch could have at the least, bytes; 0: unknown */
};

struct vs_replay_exactness {
	uint64_t addresses, addresses_exact;
	uint64_t segments, segments_exact;  /* segments got, released, mapped, unmapped */
	uint64_t ooms, ooms_exact;          /* refusals: exact where the model found no room either */
	size_t first_wrong;                 /* index of the first event that differed; SIZE_MAX: none */
	uint64_t unknown_frees;             /* of blocks that the recording does not know */
	uint64_t overlaps;                  /* blocks at the start that do not fit the segments */
	uint64_t start_blocks, start_bytes; /* live before the first event */
	uint64_t start_guessed;             /* ... of how many of them the size is a guess */
	struct vs_caching_stats stats;      /* of the model, over the whole recording */
	uint64_t empty_caches;              /* calls of empty_cache() seen */
};

struct vs_replay_program;

/* Run the recording through the model. `ret_program` may be NULL. -ENOMEM; -EOVERFLOW: absurd sizes. */
int vs_replay_baseline(const struct vs_replay_recording *recording, struct vs_replay_exactness *ret_exactness,
                       struct vs_replay_program **ret_program);
/* Accepts NULL. */
void vs_replay_program_free(struct vs_replay_program *program);

/* Set the recording's version to one whose rules reproduce it, or come nearest: the one it has if that will do, else
 * the newest. As vs_replay_baseline(). */
int vs_replay_find_version(struct vs_replay_recording *recording);

struct vs_replay_card {
	uint64_t total;   /* bytes: sets fractions and the room of expandable segments */
	uint64_t outside; /* bytes of it that others take: the context, libraries, other processes */
};

struct vs_replay_outcome {
	struct vs_caching_stats stats;
	size_t last_refused;   /* event of the recording; SIZE_MAX: none */
	bool refused;          /* at least once: stats.ooms tells how often. About the first time: */
	size_t refused_event;  /* of the recording */
	uint64_t refused_size; /* what was asked for */
	uint64_t refused_allocated, refused_reserved;  /* ... and the state then */
	uint64_t refused_pinned, refused_largest_free; /* ... and the free bytes in segments in use */
	bool stopped;    /* the recording had served it: what the program would have done then is not known */
	uint64_t served; /* requests that the recording had refused, and this allocator served */
};

/* Addresses come from the simulated device's policy (base/space.h). Stops at the first refusal of a request that the
 * recording served. */
int vs_replay_scenario(const struct vs_replay_program *program, const struct vs_caching_settings *settings,
                       const struct vs_replay_card *card, struct vs_replay_outcome *ret_outcome);

/* Multiply the sizes of the requests whose event is marked (one byte an event of the recording). */
void vs_replay_scale(struct vs_replay_program *program, const unsigned char *marked, double factor);

/* The lower bound: the most bytes that were live at once, each block rounded to 512. */
uint64_t vs_replay_perfect(const struct vs_replay_program *program);

#endif
