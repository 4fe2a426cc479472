/* SPDX-License-Identifier: MIT
 *
 * One process of a run as a PyTorch memory snapshot.
 */
#ifndef VS_REPORT_EXPORT_H
#define VS_REPORT_EXPORT_H

#include "run.h"
#include "snapshot/snapshot.h"

/* A snapshot of all its devices, as at the end of the trace, its history with our tags as categories. What a trace
 * does not tell is left at what is usual: stream 0, the default pools, as much requested as handed out. -ENOENT: the
 * process has no PyTorch events. -ENOMEM. */
int vs_export(const struct vs_process *process, struct vs_snapshot **ret_snapshot);
/* Accepts NULL. Not vs_snapshot_free(): the texts are not the snapshot's. */
void vs_export_free(struct vs_snapshot *snapshot);

#endif
