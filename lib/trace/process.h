/* SPDX-License-Identifier: MIT */
#ifndef VS_TRACE_PROCESS_H
#define VS_TRACE_PROCESS_H

#include <stdint.h>

/* When process `pid` started, in clock ticks since boot (field 22 of /proc/PID/stat), which with the id names a
 * process for good. 0 if there is none, it is dead and only waits for its parent, or /proc is not to be had. No
 * malloc. */
uint64_t vs_process_start(uint32_t pid);

#endif
