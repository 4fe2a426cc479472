/* SPDX-License-Identifier: MIT
 *
 * The second pass: with the instants known, blocks get their tags and each
 * instant its sums.
 */
#ifndef VS_LEDGER_SECOND_PASS_H
#define VS_LEDGER_SECOND_PASS_H

#include "ledger/analyse.h"
#include "ledger/counters.h"
#include "ledger/probe.h"
#include "ledger/resolve.h"
#include "ledger/samples.h"
#include "ledger/sites.h"

enum { VS_PROBE_PEAK, VS_PROBE_ASKED, VS_PROBE_FULLEST, VS_PROBE_OOM };

struct vs_device_pass {
	struct vs_samples *samples;
	struct vs_cuda cuda;
	struct vs_probe *probes; /* VS_PROBE_...; out-of-memory events from `first_oom` on */
	size_t probe_count, first_oom;
};

struct vs_second_pass {
	const struct vs_analyse_options *options;
	struct vs_counters *counters;
	struct vs_device_pass *devices; /* beside counters->devices */
	size_t device_count;
	struct vs_resolver resolver;
};

/* Replay the trace and fill in the sums of all points that the counters hold; the rest is in the probes. `pass` is to
 * be released also on failure. */
int vs_second_pass(struct vs_second_pass *pass, struct vramshim_trace *trace, struct vs_sites *sites,
                   struct vs_counters *counters, const struct vs_analyse_options *options);
void vs_second_pass_release(struct vs_second_pass *pass);

#endif
