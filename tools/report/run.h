/* SPDX-License-Identifier: MIT
 *
 * A run as the subcommands see it: the traces of its processes.
 */
#ifndef VS_REPORT_RUN_H
#define VS_REPORT_RUN_H

#include <stddef.h>
#include <vramshim/trace.h>

struct vs_process {
	char *path;
	struct vramshim_trace *trace;
	int rank; /* -1 unknown */
};

struct vs_run {
	struct vs_process *processes; /* by rank (unknown ones last), then by pid */
	size_t count;                 /* at least 1 */
};

/* Open all traces of the folder `path`, or the one trace `path`. Says what is wrong on stderr and returns a negative
 * errno when there is nothing to show; where only some traces of a folder are unreadable, it says so, leaves those
 * out and goes on. */
int vs_run_open(const char *path, struct vs_run *ret_run);
void vs_run_close(struct vs_run *run);

#define VS_TIME_MAX 32
/* "2026-01-31T12:00:00Z". Returns `text`. */
char *vs_time_format(uint64_t realtime_ns, char text[VS_TIME_MAX]);

#endif
