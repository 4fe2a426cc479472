/* SPDX-License-Identifier: MIT
 *
 * Read a vramshim trace (one `*.vst` file: one process of a run): a stream of events in the order in
 * which they happened, plus the tables they point into (events.h).
 *
 * Functions return 0 or a negative errno; `ret_` outputs are untouched on
 * failure. A reader belongs to one thread at a time. Everything a reader hands
 * out belongs to it and lives until vramshim_trace_close().
 *
 * A trace cut at any byte, or still being written, is readable: what was
 * finished is there, what was not is absent, and nothing else changes. Of a
 * running job the reader sees what was finished when it was opened, on every
 * pass; open it again to see more. An event of a cut trace may name an id whose
 * definition is cut off: look-ups answer NULL.
 */
#ifndef VRAMSHIM_TRACE_H
#define VRAMSHIM_TRACE_H

#include <vramshim/events.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vramshim_trace;

/* Open one trace file. -ENOENT, -EACCES; -EBADMSG not a trace or an unusable header; -EPROTO a
 * version this library does not know; -ENODATA an empty file, or one whose process ended while it was making it. The
 * whole file is never loaded: memory is proportional to the tables, not to the number of events. */
int vramshim_trace_open(const char *path, struct vramshim_trace **ret_trace);
/* As above from bytes in memory, which must outlive the reader. For tests and fuzzers. */
int vramshim_trace_open_memory(const void *data, size_t size, struct vramshim_trace **ret_trace);
/* Accepts NULL. */
void vramshim_trace_close(struct vramshim_trace *trace);

/* The next event in order: 1 and *ret_event filled, or 0 at the end. Sequences strictly increase, times never
 * decrease. Times are kept to 1.024 us. */
int vramshim_trace_next(struct vramshim_trace *trace, struct vramshim_event *ret_event);
/* Start again from the first event. */
void vramshim_trace_rewind(struct vramshim_trace *trace);

const struct vramshim_trace_info *vramshim_trace_info(const struct vramshim_trace *trace);
/* NULL for a device without PyTorch events. */
const struct vramshim_device_totals *vramshim_trace_device(const struct vramshim_trace *trace, int device);

/* Table look-ups: NULL (false for the frame) for an unknown id. */
const char *vramshim_trace_string(const struct vramshim_trace *trace, uint32_t id);
const struct vramshim_stack *vramshim_trace_stack(const struct vramshim_trace *trace, uint32_t id);
uint32_t vramshim_trace_stack_count(const struct vramshim_trace *trace); /* ids are 1..count */
const struct vramshim_code *vramshim_trace_code(const struct vramshim_trace *trace, uint32_t id);
bool vramshim_trace_python_frame(const struct vramshim_trace *trace, uint32_t id,
                                 struct vramshim_python_frame *ret_frame);
/* The module that covers an address, or NULL. */
const struct vramshim_module *vramshim_trace_module(const struct vramshim_trace *trace, uint64_t address);
/* All facts in the order recorded; a later fact of the same key replaces an earlier one in
 * vramshim_trace_fact(), which returns NULL for an unknown key. */
const struct vramshim_fact *vramshim_trace_facts(const struct vramshim_trace *trace, size_t *ret_count);
const char *vramshim_trace_fact(const struct vramshim_trace *trace, const char *key);

#ifdef __cplusplus
}
#endif
#endif
