/* SPDX-License-Identifier: MIT
 *
 * The pieces of `vramreport report`.
 */
#ifndef VS_REPORT_REPORT_H
#define VS_REPORT_REPORT_H

#include "common/json.h"
#include "common/screen.h"
#include "estimate.h"
#include "subject.h"

struct vs_report_options {
	struct vs_estimate_request estimate;
	size_t top_stacks;
	bool all; /* every process and every step */
};

/* For people: the whole report of one device. */
void vs_report_device(const struct vs_screen *screen, const struct vs_subjects *subjects,
                      const struct vs_subject *subject, const struct vs_device_summary *device,
                      const struct vs_report_options *options);
/* "in the backward of step 2", "while setting up, before the first step". Returns `text`. */
const char *vs_report_instant(const struct vs_point *point, char *text, size_t size);
/* A line for each process and device. */
void vs_report_overview(const struct vs_screen *screen, const struct vs_subjects *subjects);
/* The frames of a stack that tell a person where it is; nothing for an unknown or empty one. */
void vs_report_stack(const struct vs_screen *screen, const struct vs_subject *subject, uint32_t id);
/* The sections that are tables of their own. */
void vs_report_steps(const struct vs_screen *screen, const struct vs_device_summary *device, bool all);
void vs_report_stacks(const struct vs_screen *screen, const struct vs_subject *subject,
                      const struct vs_device_summary *device);
void vs_report_estimate(const struct vs_screen *screen, const struct vs_subject *subject,
                        const struct vs_device_summary *device, const struct vs_estimate_request *request);

/* For programs: the object of interfaces.md, schema vramshim/report/1. */
void vs_report_json(struct vs_json *json, const struct vs_subjects *subjects,
                    const struct vs_report_options *options);

#endif
