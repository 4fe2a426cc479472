/* SPDX-License-Identifier: MIT
 *
 * Memory that CUDA refused, as a trace tells it; PyTorch's own errors are in the summary.
 */
#ifndef VS_REPORT_OOM_REFUSAL_H
#define VS_REPORT_OOM_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>
#include <vramshim/trace.h>

struct vs_symbols;

/* What the driver said at an error. Bytes. */
struct vs_driver_said {
	uint64_t free;        /* on the card; VS_OOM_UNKNOWN: it was not asked */
	uint64_t own, others; /* what this process and others hold, by NVML; VS_OOM_UNKNOWN */
};

/* The last time that device memory was refused to somebody else than PyTorch's caching allocator. Bytes. */
struct vs_refusal {
	int device;
	uint64_t sequence; /* of the event */
	uint64_t size, time_ns;
	uint32_t stack;
	const char *entry; /* the function called; may be NULL */
	char library[64];  /* the file that called it, without its folder; "" unknown */
	struct vs_driver_said driver;
	bool torch;                   /* the caching allocator has been used in this process */
	uint64_t allocated, reserved; /* ... its counters then */
	uint64_t held;                /* what this process had of the card, but for its contexts */
	bool graph;                   /* memory of a graph's nodes: how much is not known, `size` is 0 */
	bool context;                 /* it was a context that could not be made */
	bool first;                   /* ... or would have had to be made first: this process had none on the card */
	bool by_torch;                /* PyTorch asked, without its cache: by another backend, or with caching off */
	bool caught;                  /* the process got memory afterwards */
};

/* Of a process's trace and its symbols. -ENOENT: there was none; -ENOMEM. Rewinds the trace. */
int vs_refusal_find(struct vramshim_trace *trace, struct vs_symbols *symbols, struct vs_refusal *ret_refusal);

/* The same at PyTorch's out-of-memory event `sequence`. Rewinds the trace. */
struct vs_driver_said vs_refusal_sample(struct vramshim_trace *trace, uint64_t sequence);

#endif
