/* SPDX-License-Identifier: MIT
 *
 * An answer for those who cannot wait: a job whose memory ran out waits for this program.
 */
#ifndef VS_REPORT_OOM_SHORT_H
#define VS_REPORT_OOM_SHORT_H

#include <stdint.h>

/* After so many milliseconds, print what the trace's first page tells of memory, and exit with status 1. Nothing
 * where `path` is no single trace. */
void vs_oom_short_prepare(const char *path, uint64_t milliseconds);
/* The real answer is ready. */
void vs_oom_short_cancel(void);

#endif
