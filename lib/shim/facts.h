/* SPDX-License-Identifier: MIT
 *
 * What a trace says of its process beside the events: how it was started, in what environment, on what.
 */
#ifndef VS_SHIM_FACTS_H
#define VS_SHIM_FACTS_H

struct vs_process;

/* At the first event. */
void vs_facts_record(struct vs_process *process);
/* At the first allocation on a device. */
void vs_facts_device(struct vs_process *process, int device);
/* At the end: what was lost. */
void vs_facts_finish(struct vs_process *process);

#endif
