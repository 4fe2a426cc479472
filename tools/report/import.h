/* SPDX-License-Identifier: MIT
 *
 * A PyTorch memory snapshot as a trace, so that everything that reads traces reads snapshots.
 */
#ifndef VS_REPORT_IMPORT_H
#define VS_REPORT_IMPORT_H

#include <vramshim/trace.h>

/* Convert the snapshot `path` into a trace. What a snapshot does not tell is left out: the process, the card, threads
 * (an allocation without any Python frame counts as one of an autograd thread's). Says what is wrong on stderr and
 * returns a negative errno. */
int vs_import(const char *path, struct vramshim_trace **ret_trace);

#endif
