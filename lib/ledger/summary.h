/* SPDX-License-Identifier: MIT
 *
 * Everything a report says about one process: plain numbers and ids. Sizes are
 * bytes. Strings belong to the trace or are static; stacks are ids into the
 * trace (names: lib/symbol). Made by vs_analyse() in analyse.h.
 */
#ifndef VS_LEDGER_SUMMARY_H
#define VS_LEDGER_SUMMARY_H

#include "tag/block.h"
#include "tag/tag.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vramshim/events.h>

enum { VS_SAMPLES_MAX = 256 };

enum vs_exit {
	VS_EXIT_CLEAN,
	VS_EXIT_KILLED, /* no EXIT event, and the process is gone */
	VS_EXIT_OOM,    /* the last thing PyTorch did was to run out of memory, whatever the exit looked like */
	VS_EXIT_RUNNING,
};

/* An instant on one device: its counters and what they consist of. */
struct vs_point {
	uint64_t sequence; /* of the event after which this holds; 0: there is no such instant */
	uint64_t time_ns;
	const char *name;   /* marks: the mark's name, else NULL */
	uint64_t allocated; /* as PyTorch reported it */
	uint64_t reserved;
	uint64_t device; /* context + everything known to be allocated from CUDA */
	uint32_t step;   /* from 0 */
	enum vs_phase phase;
	uint64_t tags[VS_TAG_COUNT];       /* sums to `allocated`, unless events were lost */
	uint64_t details[VS_DETAIL_COUNT]; /* shares of the tags; [VS_DETAIL_NONE] is 0 */
};

struct vs_fragmentation {      /* of PyTorch's segments at one instant */
	uint64_t unallocated;  /* reserved - allocated */
	uint64_t releasable;   /* whole segments without a live block: empty_cache() would give them back */
	uint64_t pinned;       /* free pieces of segments in use */
	uint64_t largest_free; /* the largest contiguous free piece */
	double index;          /* 1 - largest_free / unallocated; 0 when nothing is free */
	uint64_t segments; /* how many there are; 0: CUDA's own events are missing, so only `unallocated` is known */
	bool exact;        /* the segments found add up to `reserved` */
};

struct vs_library_bytes {
	const char *library; /* "nccl", "cublas", "cudnn", ...; a file's name; "other" */
	uint64_t bytes;      /* as asked for */
};

/* Whose the bytes of the card were when the driver was asked how many are free. The lines add up to `used`:
 * context + pytorch + libraries + rounding + others + unexplained. */
struct vs_sample {
	uint64_t sequence; /* of the event after which this holds; 0: the driver was never asked */
	uint64_t time_ns;
	uint32_t step;
	enum vs_phase phase;
	uint64_t used;    /* of the card, by whomever: total - free */
	uint64_t context; /* 0 where it is not known */
	uint64_t pytorch; /* what its allocator holds from CUDA */
	uint64_t libraries;
	uint64_t rounding; /* what allocations take beyond what was asked: the card gives whole pages */
	uint64_t idle;     /* ... of it what CUDA's memory pools keep and nobody uses */
	/* Managed memory of this process, wherever it lies. What of it is on the card is in none of the lines above:
	 * CUDA moves it, and does not tell. */
	uint64_t managed;
	bool others_known;
	uint64_t others;     /* other processes, by the driver's own account */
	uint64_t own;        /* this process by that account; 0 unknown */
	int64_t unexplained; /* negative where the lines say more than the card has lost */
};

struct vs_outside {                 /* when the card was fullest, or, never sampled, at the highest device bytes */
	struct vs_sample at;        /* .sequence 0: without `used`, `others` and `unexplained` */
	const char *context_source; /* "measured", "assumed"; "" when there is no figure */
	/* PyTorch's bytes then: handed out, and what it keeps for later (vs_fragmentation). Not `split_known`: the
	 * segments do not add up, or its memory is in a pool of CUDA's (`pool` bytes). */
	struct vs_fragmentation cached;
	uint64_t allocated, pool;
	bool split_known;
	const struct vs_library_bytes *libraries; /* descending by bytes */
	size_t library_count;
	uint64_t unsampled;              /* device bytes of this process that were added after it, at their highest */
	const struct vs_sample *samples; /* in order, with the last; of more than VS_SAMPLES_MAX, evenly thinned */
	size_t sample_count;
};

struct vs_oom_event {
	struct vs_point at;
	uint64_t requested;
	uint64_t free;   /* on the card: the driver's figure if it was just asked, else total - device */
	bool free_known; /* the driver was asked, or the card's size is known */
	/* The largest free piece inside what PyTorch had reserved; where the segments are not known, or the error is
	 * not one of the last, it is not either. */
	uint64_t largest_free;
	bool largest_known;
	uint32_t stack;
	bool caught; /* the job went on and allocated again */
};

/* An allocation of CUDA's own, as the library asked for it. */
struct vs_cuda_block {
	uint64_t address, size; /* of physical memory and arrays the address is a handle */
	enum vramshim_memory memory;
	char library[48]; /* as in vs_library_bytes */
	uint32_t stack;
};

struct vs_stack_bytes {
	uint32_t stack;
	enum vs_tag tag;
	enum vs_detail detail;
	uint64_t bytes;
	uint64_t blocks;
};

struct vs_device_summary {
	int index;
	const char *name; /* "" unknown */
	bool simulated;
	uint64_t total;              /* of the card; 0 unknown */
	uint64_t allocations, frees; /* PyTorch events that happened, recorded or not */
	uint64_t lost;               /* ... that were not recorded */
	uint64_t mismatches;         /* events after which the sum of live blocks was not what PyTorch reported */

	struct vs_point peak; /* the first instant of the highest allocated bytes */
	struct vs_point end;
	uint64_t max_allocated, max_reserved, max_device; /* each counter's own maximum */
	struct vs_fragmentation fragmentation;
	struct vs_outside outside;

	const struct vs_point *steps; /* each step's own peak, in order; .step is its number */
	size_t step_count;
	const struct vs_point *marks; /* in order */
	size_t mark_count;
	const struct vs_oom_event *ooms;
	size_t oom_count;
	const struct vs_stack_bytes *stacks; /* at the peak, descending by bytes */
	size_t stack_count;
	const struct vs_block *blocks; /* live at the asked instant, ascending by address; empty unless asked for */
	size_t block_count;
	const struct vs_cuda_block *cuda_blocks; /* likewise, by address: all libraries', PyTorch's allocator's too */
	size_t cuda_block_count;
};

/* How much the stacks of PyTorch's events can tell, each counted once. */
struct vs_evidence {
	uint32_t stacks;
	uint32_t with_python; /* have Python frames */
	uint32_t with_native; /* have native frames */
	uint32_t unnamed;     /* ... and no name for the innermost, which is PyTorch's */
	uint32_t cut;         /* deeper than the recorder keeps, and no frame kept that a rule knows */
};

struct vs_summary {
	uint32_t pid;                      /* 0 unknown */
	bool snapshot;                     /* made of a PyTorch snapshot: no process, no times, no end */
	int rank;                          /* -1 unknown */
	int world_size;                    /* -1 unknown */
	const char *host, *python, *torch; /* "" unknown */
	enum vs_exit exit;
	uint64_t started_ns;         /* CLOCK_REALTIME; 0 unknown */
	uint64_t duration_ns;        /* from the start to the last event */
	struct vs_evidence evidence; /* what the stacks could tell: how far the tags can be trusted */
	uint64_t lost;               /* events of all kinds that were not recorded */
	uint64_t marks_dropped;      /* marks beyond what is kept (times devices): 0 in every ordinary job */
	uint32_t steps;              /* optimizer steps seen to end */
	const struct vs_device_summary *devices; /* ascending by index: those with any memory event */
	size_t device_count;
};

#endif
