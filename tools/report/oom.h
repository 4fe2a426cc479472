/* SPDX-License-Identifier: MIT
 *
 * The pieces of `vramreport oom`.
 */
#ifndef VS_REPORT_OOM_H
#define VS_REPORT_OOM_H

#include "common/json.h"
#include "common/screen.h"
#include "oom/oom.h"
#include "oom/remedies.h"
#include "oom_refusal.h"
#include "oom_replay.h"
#include "subject.h"

/* One out-of-memory error and what there is to say about it. */
struct vs_oom_case {
	bool recorded; /* of a run; else of a text */
	struct vs_oom oom;
	enum vs_oom_cause cause;
	struct vs_oom_remedies remedies;
};

/* What one call stack held at that moment. */
struct vs_oom_holder {
	const char *what; /* a tag with its detail; of CUDA's own memory, the library */
	uint32_t stack;
	uint64_t bytes, blocks;
};

/* An error found in a run. */
struct vs_oom_post {
	struct vs_oom_case c;
	struct vs_subjects subjects;
	const struct vs_subject *subject; /* NULL: no error in the run */
	const struct vs_device_summary *device;
	const struct vs_oom_event *event; /* NULL: CUDA refused somebody else than PyTorch's allocator: `refusal` */
	struct vs_refusal refusal;
	struct vs_device_summary bare; /* of a device that nothing else is known of */
	uint32_t stack;                /* that asked; 0 unknown */
	size_t errors;                 /* in the whole run */
	struct vs_oom_holder *holders; /* by stack and what it is, descending */
	size_t holder_count;
	struct vs_oom_sweep sweep; /* what other settings would have done */
};

/* Open a run, find the error to talk about: the one that ended a process, else the last. Says what is wrong.
 * `until_ns`: replays begin before this time of CLOCK_MONOTONIC or are left out; 0: no limit. `post` does not move
 * afterwards: it points into itself. */
int vs_oom_post_open(const char *path, uint64_t until_ns, struct vs_oom_post *post);
void vs_oom_post_close(struct vs_oom_post *post);
/* For people, where there is no error. Of a snapshot, what its segments say instead. */
void vs_oom_post_print_none(const struct vs_screen *screen, const struct vs_oom_post *post);
/* Where there is. `brief`: 25 lines at most. */
void vs_oom_post_print(const struct vs_screen *screen, const struct vs_oom_post *post, bool brief);

/* The last error in the text of the file `path`, "-" standard input. Says what is wrong and returns a negative errno;
 * -ENODATA: the text has no such error. */
int vs_oom_case_message(const char *path, struct vs_oom_case *ret_case);

/* Why: one paragraph. */
void vs_oom_print_cause(const struct vs_screen *screen, const struct vs_oom_case *c);
/* The numbers it rests on, one a line. */
void vs_oom_print_numbers(const struct vs_screen *screen, const struct vs_oom_case *c);
/* At most `most` of what helps. */
void vs_oom_print_remedies(const struct vs_screen *screen, const struct vs_oom_case *c, size_t most);

/* The keys of the object that is open: all but "schema". Not found: no cause. */
void vs_oom_json(struct vs_json *json, const struct vs_oom_case *c, bool found);

#endif
