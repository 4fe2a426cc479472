/* SPDX-License-Identifier: MIT */
#include "oom_short.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/size.h"
#include "run.h"

/* Written by the handler: a signal may come while anything is half done. */
static char text[1024];

static void out_of_time(int signal)
{
	const char *at = text;
	size_t left = strlen(text);

	(void)signal;
	while (left) {
		ssize_t written = write(STDOUT_FILENO, at, left);
		if (written < 0 && errno != EINTR)
			break;
		if (written > 0) {
			at += written;
			left -= (size_t)written;
		}
	}
	_exit(1);
}

static void add_device(const struct vramshim_trace *trace, int device)
{
	const struct vramshim_device_totals *totals = vramshim_trace_device(trace, device);
	char allocated[VS_SIZE_MAX], reserved[VS_SIZE_MAX];
	size_t used = strlen(text);

	if (!totals || !totals->reserved)
		return;
	snprintf(text + used, sizeof(text) - used, "GPU %d: PyTorch holds %s in live tensors, %s reserved.\n", device,
	         vs_size_format(totals->allocated, allocated), vs_size_format(totals->reserved, reserved));
}

void vs_oom_short_prepare(const char *path, uint64_t milliseconds)
{
	struct itimerval timer = {
	    .it_value = {(time_t)(milliseconds / 1000), (suseconds_t)(milliseconds % 1000 * 1000)}};
	struct vramshim_trace *trace;

	if (vramshim_trace_open(path, &trace) < 0)
		return;
	snprintf(text, sizeof(text), "Out of memory\n");
	for (int i = 0; i < 64; i++)
		add_device(trace, i);
	vramshim_trace_close(trace);
	snprintf(text + strlen(text), sizeof(text) - strlen(text),
	         "The recording is too long to be read while the job waits: for the reason, vramreport oom %.512s\n",
	         path);
	signal(SIGALRM, out_of_time);
	setitimer(ITIMER_REAL, &timer, NULL);
}

void vs_oom_short_cancel(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}
