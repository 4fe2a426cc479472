/* SPDX-License-Identifier: MIT
 *
 * From a trace to a summary: two passes over the events.
 */
#ifndef VS_LEDGER_ANALYSE_H
#define VS_LEDGER_ANALYSE_H

#include "ledger/summary.h"
#include <stdbool.h>
#include <vramshim/trace.h>

struct vs_symbols;

enum vs_blocks_at {
	VS_BLOCKS_NONE,
	VS_BLOCKS_PEAK,
	VS_BLOCKS_END,
	VS_BLOCKS_MARK, /* the first mark of that name */
	VS_BLOCKS_OOM,  /* when memory ran out on the device: see `refused` */
};

/* CUDA refused memory to somebody who reports no error of PyTorch's allocator. */
struct vs_refused {
	uint64_t sequence; /* of the event; 0: nobody was */
	int device;
	bool caught; /* the process got memory afterwards */
};

struct vs_analyse_options {
	enum vs_blocks_at blocks_at;
	const char *mark; /* for VS_BLOCKS_MARK */
	/* For VS_BLOCKS_OOM, beside the last error of PyTorch's allocator on the device: what was not caught comes
	 * before what was, then the later one. */
	struct vs_refused refused;
	bool cut;                   /* tag blocks as if the trace ended at that instant: by what was known then */
	size_t top_stacks;          /* per device; 0 means 10 */
	struct vs_symbols *symbols; /* to share its caches; NULL: a private one for the call */
	/* Called for every block of the trace with its verdict, in no useful order; what it returns below 0 ends the
	 * analysis. NULL: not called. */
	int (*every_block)(void *user, const struct vs_block *block);
	void *user;
};

/* Analyse one process. `options` may be NULL (defaults). The trace is rewound first and left at its end; it must
 * outlive the summary. -ENOENT: `options->mark` does not occur. -ENOMEM; or what vramshim_trace_next() says. */
int vs_analyse(struct vramshim_trace *trace, const struct vs_analyse_options *options,
               struct vs_summary **ret_summary);
/* Accepts NULL. */
void vs_summary_free(struct vs_summary *summary);

#endif
