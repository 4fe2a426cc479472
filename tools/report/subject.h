/* SPDX-License-Identifier: MIT
 *
 * Analysed processes of a run, and which of their devices to talk about.
 */
#ifndef VS_REPORT_SUBJECT_H
#define VS_REPORT_SUBJECT_H

#include "common/json.h"
#include "ledger/analyse.h"
#include "oom_refusal.h"
#include "run.h"
#include "symbol/symbol.h"

struct vs_subject {
	const struct vs_process *process;
	struct vs_symbols *symbols;
	struct vs_summary *summary;
	/* Where it was analysed for VS_BLOCKS_OOM: the last one; .sequence 0: none. */
	struct vs_refusal refusal;
};

struct vs_subjects {
	struct vs_run run;
	struct vs_subject *list; /* one a process that could be analysed, in the run's order */
	size_t count;
};

/* Open the run and analyse it. With a mark, processes that lack it are left out. Says what is wrong and returns a
 * negative errno when nothing is left. */
int vs_subjects_open(const char *path, const struct vs_analyse_options *options, struct vs_subjects *ret_subjects);
void vs_subjects_close(struct vs_subjects *subjects);

/* The device to show first: where memory ran out, else the fullest. NULL if no process used any. */
const struct vs_device_summary *vs_subjects_worst(const struct vs_subjects *subjects,
                                                  const struct vs_subject **ret_subject);

/* Whether PyTorch has any part in what is on the card: to others, its counters and words say nothing. */
bool vs_subject_has_pytorch(const struct vs_subject *subject, const struct vs_device_summary *device);

#define VS_WHO_MAX 32
/* "pid 123", or "PyTorch snapshot". Returns `text`. */
const char *vs_who(const struct vs_summary *summary, char text[VS_WHO_MAX]);
/* "pid": null where it is not known. */
void vs_json_pid(struct vs_json *json, const struct vs_summary *summary);

/* "clean", "killed", "oom", "running". */
const char *vs_exit_name(enum vs_exit exit);

/* "device", "physical", "pool", ... */
const char *vs_memory_name(enum vramshim_memory memory);

#endif
