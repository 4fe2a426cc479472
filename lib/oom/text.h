/* SPDX-License-Identifier: MIT
 *
 * A log without what terminals and loggers do to it.
 *
 * Lines are broken anywhere, even within words, and so blanks tell nothing: the text is kept without any, in lower
 * case, without colours, frames and the prefixes that loggers put before each line. Phrases are looked for in the
 * same spelling ("outofmemory").
 */
#ifndef VS_OOM_TEXT_H
#define VS_OOM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_oom_text {
	char *bytes;
	unsigned char *line_starts; /* 1: the first byte of a line that follows another */
	size_t size;
};

/* -ENOMEM. */
int vs_oom_text_read(const char *text, size_t size, struct vs_oom_text *ret_text);
void vs_oom_text_free(struct vs_oom_text *text);

#define VS_OOM_NOWHERE SIZE_MAX

struct vs_oom_span {
	size_t begin, end; /* begin VS_OOM_NOWHERE: not found */
};

/* The first occurrence that begins in [from, until). A line break may come with a prefix that is not known. */
struct vs_oom_span vs_oom_text_find(const struct vs_oom_text *text, size_t from, size_t until, const char *phrase);

/* The last one that begins before `until`. */
struct vs_oom_span vs_oom_text_find_last(const struct vs_oom_text *text, size_t until, const char *phrase);

/* "2.00gib", "512bytes", "16106127360", at `at` or ending before `end`: bytes, and where it ends or begins in
 * *ret_other (may be NULL). VS_OOM_UNKNOWN: no number, or beyond 2^60 bytes. */
uint64_t vs_oom_text_size_at(const struct vs_oom_text *text, size_t at, size_t *ret_other);
uint64_t vs_oom_text_size_before(const struct vs_oom_text *text, size_t end);

#endif
