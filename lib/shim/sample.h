/* SPDX-License-Identifier: MIT
 *
 * Samples of the device's free memory. Taken inside our hooks only, on a thread that has a context there, and neither
 * while a stream is captured nor while another thread is amid a CUDA call that the trace does not show yet.
 */
#ifndef VS_SHIM_SAMPLE_H
#define VS_SHIM_SAMPLE_H

#include <stdbool.h>
#include <vramshim/events.h>

struct vs_process;

/* Around each recorded CUDA call, its events included. */
void vs_sample_call_begins(void);
void vs_sample_call_ends(void);

/* A stream's capture began, or came to its end. */
void vs_sample_capture(bool begins);

/* Sample now, whatever it costs: a device's first event, an out-of-memory. `must`: where the thread has no context on
 * the device, and the driver does not tell, NVML is asked. */
void vs_sample_now(struct vs_process *process, int device, bool must);
/* An event on a device was recorded. If CUDA's part of the memory may have changed since the last sample, and
 * sampling takes its share of the time at most, sample. */
void vs_sample_event(struct vs_process *process, const struct vramshim_event *event);

#endif
