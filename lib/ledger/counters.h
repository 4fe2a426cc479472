/* SPDX-License-Identifier: MIT
 *
 * The first pass: running counters per device, and the instants that matter.
 * Which instants matter (the peak, each step's peak) is only known when all
 * events were seen; what they consist of is the second pass's work.
 */
#ifndef VS_LEDGER_COUNTERS_H
#define VS_LEDGER_COUNTERS_H

#include "ledger/account.h"
#include "ledger/cuda.h"
#include "ledger/summary.h"
#include "tag/phases.h"
#include <vramshim/events.h>

enum {
	/* c10's C10_COMPILE_TIME_MAX_GPUS is 120; a larger ordinal is damage. */
	VS_DEVICES_MAX = 128,
	/* All devices together: with some 300 bytes each, no job's marks may eat the machine. */
	VS_MARKS_MAX = 1 << 18,
};

struct vs_counter { /* of one device */
	int index;
	uint64_t context;   /* bytes of the CUDA context, counted from the first event on; 0 unknown */
	bool contexts_seen; /* ... with their bytes, in the trace */
	bool context_measured;
	uint64_t total; /* of the card; 0 unknown */

	uint64_t allocations, frees, mismatches;
	uint64_t running; /* sum of live blocks, by our own arithmetic */
	struct vs_point now;
	struct vs_point peak;
	uint64_t max_reserved, max_device;
	struct vs_cuda cuda;

	uint64_t free_sampled; /* the driver's last word on free memory ... */
	bool free_is_fresh;    /* ... and nothing was asked of CUDA since */
	struct vs_accounts accounts;

	struct vs_point *steps, *marks;
	struct vs_oom_event *ooms;
	size_t step_count, step_capacity, mark_count, mark_capacity, oom_count, oom_capacity;
	size_t caught_count; /* ooms that the job survived: always the first ones */
};

struct vs_counters {                /* all zero to begin with */
	struct vs_counter *devices; /* ascending by index */
	size_t count, capacity;
	uint64_t last_ns;
	uint64_t mark_total, marks_dropped;
};

void vs_counters_release(struct vs_counters *counters);

/* The counter of a device below VS_DEVICES_MAX, made on first use (*ret_new says so: its facts can then be filled
 * in). NULL when memory is out. Good until the next one is made. */
struct vs_counter *vs_counters_device(struct vs_counters *counters, int device, bool *ret_new);

/* Account for one event, after vs_phases_event(). `counter` is the event's device's, or NULL for an event without one
 * (marks are for every device). `mark` is a mark's name, `owner` the owner of a CUDA event. -ENOMEM. */
int vs_counters_event(struct vs_counters *counters, struct vs_counter *counter, const struct vramshim_event *event,
                      const struct vs_epoch *epoch, uint8_t owner, const char *mark);

#endif
