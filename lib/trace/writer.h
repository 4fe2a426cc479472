/* SPDX-License-Identifier: MIT
 *
 * Write a trace from inside the job. The format is lib/trace/FORMAT.md.
 *
 * One writer a process, one vs_log a thread. Appending to a log takes no lock
 * except when a chunk is full; interning takes the writer's mutex and is rare.
 * Nothing here calls malloc, dlsym, CUDA or Python: memory comes from mmap.
 * Nothing here can fail the job: an append that finds no room (size cap, full
 * disk, file-size limit) counts a lost event, and the live totals in the header
 * go on. From the first lost event on nothing is recorded, by any thread, so
 * that a trace is always a true beginning of what happened.
 *
 * After fork() the child's calls on the parent's writer and logs do nothing,
 * whoever makes them (a page the kernel wipes in the child tells), so no lock,
 * file or mapping is shared in use; no pthread_atfork() handler is needed and the
 * mappings can stay. A vfork() child shares the parent's memory and must not
 * call. The child opens a writer of its own when it has something to record.
 */
#ifndef VS_TRACE_WRITER_H
#define VS_TRACE_WRITER_H

#include <stdint.h>
#include <vramshim/events.h>

struct vs_writer;
struct vs_log;

/* Create `path` (which must not exist: -EEXIST) and map its header. `max_size` caps the file, in bytes;
 * 0 means 1 GiB; less than 128 KiB is -EINVAL. -ENOSPC, -EACCES, -ENOENT, ... as open(2), posix_fallocate(3) and
 * mmap(2) do. */
int vs_writer_open(const char *path, uint64_t max_size, struct vs_writer **ret_writer);
/* Write EXIT and give back unused space. Takes no lock, so that it may be called where a signal handler ends the
 * process. Later appends and definitions are lost silently. The writer's memory is not
 * released: other threads may still hold logs. Accepts NULL. */
void vs_writer_finish(struct vs_writer *writer);

/* The calling thread's log; `thread` is its kernel id. It takes space in the file at its first event. NULL when
 * memory is out and after vs_writer_finish(). Thread-safe. */
struct vs_log *vs_log_new(struct vs_writer *writer, uint32_t thread);
/* The thread ends: its log serves the next thread, which goes on in the same chunk. Accepts NULL. */
void vs_log_retire(struct vs_log *log);
/* After vs_clock_forbid(), by the log's own thread. */
void vs_log_stop_clock(struct vs_log *log);

/* Append one event. `event->sequence` and `event->time_ns` are given by the log. Fields the
 * type does not use are ignored. Only the log's own thread may call this. */
void vs_log_append(struct vs_log *log, struct vramshim_event *event);

/* Interning. Texts, and stacks with their frames, are cut at sizes far above what occurs (FORMAT.md). Each writes a
 * definition to the file before it returns the new id, so a published id always resolves. 0 when there is no room.
 * Thread-safe; the caller avoids duplicates (a duplicate is only waste). */
uint32_t vs_writer_string(struct vs_writer *writer, const char *text, size_t size);
uint32_t vs_writer_code(struct vs_writer *writer, uint32_t file, uint32_t function, uint32_t first_line,
                        const uint8_t *line_table, size_t line_table_size);
uint32_t vs_writer_python_frame(struct vs_writer *writer, uint32_t code, int32_t instruction);
uint32_t vs_writer_stack(struct vs_writer *writer, const struct vramshim_stack *stack);
void vs_writer_module(struct vs_writer *writer, const struct vramshim_module *module);
void vs_writer_fact(struct vs_writer *writer, const char *key, const char *value);

#endif
