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

/* One out-of-memory error and what there is to say about it. */
struct vs_oom_case {
	struct vs_oom oom;
	enum vs_oom_cause cause;
	struct vs_oom_remedies remedies;
};

/* The last error in the text of the file `path`, "-" standard input. Says what is wrong and returns a negative errno;
 * -ENODATA: the text has no such error. */
int vs_oom_case_message(const char *path, struct vs_oom_case *ret_case);

/* Why: one paragraph. */
void vs_oom_print_cause(const struct vs_screen *screen, const struct vs_oom_case *c);
/* The numbers it rests on, one a line. */
void vs_oom_print_numbers(const struct vs_screen *screen, const struct vs_oom_case *c);
/* At most `most` of what helps. */
void vs_oom_print_remedies(const struct vs_screen *screen, const struct vs_oom_case *c, size_t most);

/* The keys of the object that is open: all but "schema". */
void vs_oom_json(struct vs_json *json, const struct vs_oom_case *c);

#endif
