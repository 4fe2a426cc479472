/* SPDX-License-Identifier: MIT
 *
 * What the tests of traces share.
 */
#ifndef VS_TESTS_TRACE_HELPER_H
#define VS_TESTS_TRACE_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <trace/writer.h>
#include <vramshim/trace.h>

/* A new empty folder; remove it and what is in it with scratch_remove(). */
char *scratch_make(void);
void scratch_remove(char *folder);
/* FOLDER/NAME in a buffer of its own; freed with free(). */
char *scratch_path(const char *folder, const char *name);

/* The whole of a file, malloc'ed. */
uint8_t *read_whole(const char *path, size_t *ret_size);
void write_whole(const char *path, const void *data, size_t size);

/* A reproducible random number below `limit`. */
uint64_t random_below(uint64_t *state, uint64_t limit);
/* An event of any type with every field that its type uses set at random; the others are 0. */
struct vramshim_event random_event(uint64_t *state);
/* Equal in all fields but sequence, time and thread. */
void assert_same_content(const struct vramshim_event *got, const struct vramshim_event *wanted);

/* Read every event of an open trace, checking that sequences increase and times do not decrease; returns their
 * number. */
uint64_t count_events(struct vramshim_trace *trace);

#endif
