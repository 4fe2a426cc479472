/* SPDX-License-Identifier: MIT
 *
 * What a job's command line says of its sizes.
 */
#ifndef VS_REPORT_SIZES_H
#define VS_REPORT_SIZES_H

#include <stdint.h>

#include "vramshim/trace.h"

/* Batch and sequence from options such as "--batch-size 4" or "--seq_len=512" of the recorded command line, the last
 * one of each. What it does not say stays as it is. */
void vs_sizes_from_command(const struct vramshim_trace *trace, uint64_t *batch, uint64_t *seq);

#endif
