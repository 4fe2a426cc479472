/* SPDX-License-Identifier: MIT
 *
 * A recording as the series of allocations that extrapolation follows from run to run.
 */
#ifndef VS_REPORT_SERIES_H
#define VS_REPORT_SERIES_H

#include "model/extrapolate.h"
#include "subject.h"

struct vs_recorded_series {
	struct vs_series series; /* its events are those below */
	struct vs_series_event *events;
};

/* PyTorch's allocations and frees on `device`, in order; the categories are tags (enum vs_tag), known where the
 * device was analysed with its blocks at the peak. Batch and sequence stay as they are. -ENOMEM: also for runs beyond
 * 32 million events, which are not small. Release it whatever the result. */
int vs_series_read(struct vramshim_trace *trace, const struct vs_device_summary *device,
                   struct vs_recorded_series *series);
void vs_series_release(struct vs_recorded_series *series);

#endif
