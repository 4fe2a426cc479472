/* SPDX-License-Identifier: MIT
 *
 * schema vramshim/report/1: a key may be added, never renamed or given another meaning.
 */
#include <stdio.h>

#include "outside.h"
#include "report.h"

static void tags(struct vs_json *json, const struct vs_point *point)
{
	vs_json_object_line(json, "tags");
	for (unsigned i = 0; i < VS_TAG_COUNT; i++)
		vs_json_unsigned(json, vs_tag_name(i), point->tags[i]);
	vs_json_end(json);
}

static void peak(struct vs_json *json, const struct vs_point *point)
{
	vs_json_object(json, "peak");
	vs_json_unsigned(json, "allocated_bytes", point->allocated);
	vs_json_unsigned(json, "reserved_bytes", point->reserved);
	vs_json_unsigned(json, "device_bytes", point->device);
	vs_json_unsigned(json, "step", point->step);
	vs_json_string(json, "phase", vs_phase_name(point->phase));
	vs_json_unsigned(json, "event", point->sequence);
	tags(json, point);
	vs_json_object_line(json, "details");
	for (unsigned i = VS_DETAIL_NONE + 1; i < VS_DETAIL_COUNT; i++) {
		if (point->details[i])
			vs_json_unsigned(json, vs_detail_path(i), point->details[i]);
	}
	vs_json_end(json);
	vs_json_end(json);
}

static void estimate(struct vs_json *json, const struct vs_subject *subject, const struct vs_device_summary *device,
                     const struct vs_estimate_request *request)
{
	struct vs_estimate estimate;

	if (vs_estimate_make(subject, device, request, &estimate) < 0) {
		vs_json_null(json, "estimate");
		return;
	}
	vs_json_object(json, "estimate");
	vs_json_unsigned(json, "parameters", estimate.parameters);
	vs_json_unsigned(json, "parameter_bytes", estimate.parameter_bytes);
	vs_json_string(json, "parameter_basis", estimate.basis);
	vs_json_bool(json, "assumed", estimate.assumed);
	vs_json_array(json, "rows");
	for (unsigned i = 0; i < VS_ESTIMATE_LINES; i++) {
		bool known = i != VS_ESTIMATE_OTHER && (i != VS_ESTIMATE_ACTIVATIONS || estimate.activations);
		vs_json_object_line(json, NULL);
		vs_json_string(json, "category", vs_estimate_name(i));
		vs_json_unsigned_if(json, "paper_bytes", known, estimate.paper[i]);
		vs_json_unsigned(json, "measured_bytes", estimate.measured[i]);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_end(json);
}

static void steps(struct vs_json *json, const struct vs_device_summary *device)
{
	vs_json_array(json, "steps");
	for (size_t i = 0; i < device->step_count; i++) {
		const struct vs_point *step = &device->steps[i];
		vs_json_object_line(json, NULL);
		vs_json_unsigned(json, "index", step->step);
		vs_json_unsigned(json, "allocated_bytes", step->allocated);
		vs_json_unsigned(json, "reserved_bytes", step->reserved);
		vs_json_string(json, "phase", vs_phase_name(step->phase));
		tags(json, step);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_array(json, "oom");
	for (size_t i = 0; i < device->oom_count; i++) {
		const struct vs_oom_event *oom = &device->ooms[i];
		vs_json_object_line(json, NULL);
		vs_json_unsigned(json, "requested_bytes", oom->requested);
		vs_json_unsigned(json, "allocated_bytes", oom->at.allocated);
		vs_json_unsigned(json, "reserved_bytes", oom->at.reserved);
		vs_json_unsigned_if(json, "free_bytes", oom->free_known, oom->free);
		vs_json_unsigned_if(json, "largest_free_bytes", oom->largest_known, oom->largest_free);
		vs_json_unsigned(json, "step", oom->at.step);
		vs_json_string(json, "phase", vs_phase_name(oom->at.phase));
		vs_json_bool(json, "caught", oom->caught);
		vs_json_unsigned(json, "stack", oom->stack);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void device_json(struct vs_json *json, const struct vs_subjects *subjects, const struct vs_subject *subject,
                        const struct vs_device_summary *device, const struct vs_report_options *options)
{
	const struct vs_fragmentation *fragmentation = &device->fragmentation;
	struct vs_outside_account account;

	vs_json_object(json, NULL);
	vs_json_signed(json, "index", device->index);
	vs_json_string(json, "name", device->name);
	vs_json_bool(json, "simulated", device->simulated);
	vs_json_unsigned(json, "total_bytes", device->total);
	vs_json_object_line(json, "events");
	vs_json_unsigned(json, "allocations", device->allocations);
	vs_json_unsigned(json, "frees", device->frees);
	vs_json_unsigned(json, "lost", device->lost);
	vs_json_unsigned(json, "mismatches", device->mismatches);
	vs_json_end(json);
	peak(json, &device->peak);
	vs_json_object_line(json, "max");
	vs_json_unsigned(json, "allocated_bytes", device->max_allocated);
	vs_json_unsigned(json, "reserved_bytes", device->max_reserved);
	vs_json_unsigned(json, "device_bytes", device->max_device);
	vs_json_end(json);
	vs_json_object_line(json, "fragmentation");
	vs_json_unsigned(json, "unallocated_bytes", fragmentation->unallocated);
	if (fragmentation->exact) {
		vs_json_unsigned(json, "releasable_bytes", fragmentation->releasable);
		vs_json_unsigned(json, "pinned_bytes", fragmentation->pinned);
		vs_json_unsigned(json, "largest_free_bytes", fragmentation->largest_free);
		vs_json_number(json, "index", fragmentation->index);
	} else { /* not known */
		vs_json_null(json, "releasable_bytes");
		vs_json_null(json, "pinned_bytes");
		vs_json_null(json, "largest_free_bytes");
		vs_json_null(json, "index");
	}
	vs_json_bool(json, "exact", fragmentation->exact);
	vs_json_end(json);
	if (vs_outside_account(subjects, subject, device, &account) == 0) {
		vs_outside_json(json, &account);
		vs_outside_account_release(&account);
	} else {
		vs_json_null(json, "outside_pytorch");
	}
	steps(json, device);
	estimate(json, subject, device, &options->estimate);
	vs_json_end(json);
}

static void command_line(struct vs_json *json, const struct vs_subjects *subjects)
{
	char key[32];

	vs_json_array_line(json, "command");
	for (unsigned i = 0; subjects->count; i++) {
		snprintf(key, sizeof(key), "command:%u", i);
		const char *argument = vramshim_trace_fact(subjects->list[0].process->trace, key);
		if (!argument)
			break;
		vs_json_string(json, NULL, argument);
	}
	vs_json_end(json);
}

void vs_report_json(struct vs_json *json, const struct vs_subjects *subjects, const struct vs_report_options *options)
{
	uint64_t started = UINT64_MAX, ended = 0;
	char text[VS_TIME_MAX];

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		if (summary->started_ns < started)
			started = summary->started_ns;
		if (summary->started_ns + summary->duration_ns > ended)
			ended = summary->started_ns + summary->duration_ns;
	}
	vs_json_object(json, NULL);
	vs_json_string(json, "schema", "vramshim/report/1");
	vs_json_object(json, "run");
	command_line(json, subjects);
	if (started) {
		vs_json_string(json, "started", vs_time_format(started, text));
		vs_json_number(json, "duration_s", (ended - started) / 1e9);
	} else { /* of a PyTorch snapshot */
		vs_json_null(json, "started");
		vs_json_null(json, "duration_s");
	}
	vs_json_end(json);
	vs_json_array(json, "processes");
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_subject *subject = &subjects->list[i];
		const struct vs_summary *summary = subject->summary;
		vs_json_object(json, NULL);
		vs_json_pid(json, summary);
		if (summary->rank >= 0)
			vs_json_signed(json, "rank", summary->rank);
		else
			vs_json_null(json, "rank");
		vs_json_string(json, "host", summary->host);
		vs_json_string(json, "python", summary->python);
		vs_json_string(json, "torch", summary->torch);
		if (summary->snapshot && summary->exit == VS_EXIT_CLEAN) /* it does not tell */
			vs_json_null(json, "exit");
		else
			vs_json_string(json, "exit", vs_exit_name(summary->exit));
		vs_json_unsigned(json, "lost", summary->lost);
		vs_json_array(json, "devices");
		for (size_t j = 0; j < summary->device_count; j++)
			device_json(json, subjects, subject, &summary->devices[j], options);
		vs_json_end(json);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_end(json);
}
