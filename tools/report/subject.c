/* SPDX-License-Identifier: MIT */
#include "subject.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"

static int analyse(const struct vs_process *process, const struct vs_analyse_options *options,
                   struct vs_subject *ret_subject)
{
	struct vs_subject subject = {.process = process};
	struct vs_analyse_options own = *options;
	int r = vs_symbols_new(process->trace, &subject.symbols);

	if (r < 0)
		return r;
	own.symbols = subject.symbols;
	if (own.blocks_at == VS_BLOCKS_OOM)
		r = vs_refusal_find(process->trace, subject.symbols, &subject.refusal);
	own.refused = (struct vs_refused){subject.refusal.sequence, subject.refusal.device, subject.refusal.caught};
	if (r == 0 || r == -ENOENT)
		r = vs_analyse(process->trace, &own, &subject.summary);
	if (r < 0) {
		vs_symbols_free(subject.symbols);
		return r;
	}
	*ret_subject = subject;
	return 0;
}

/* "NAME: no such mark: the marks are a, b, c" from the first process that has any. */
static void complain_about_mark(const struct vs_run *run, const char *mark)
{
	char known[1024] = "";
	size_t used = 0;
	struct vramshim_event event;

	for (size_t i = 0; i < run->count && !used; i++) {
		struct vramshim_trace *trace = run->processes[i].trace;
		vramshim_trace_rewind(trace);
		while (vramshim_trace_next(trace, &event) > 0 && used < sizeof(known)) {
			const char *name =
			    event.type == VRAMSHIM_MARK ? vramshim_trace_string(trace, event.name) : NULL;
			if (name)
				used += snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", name);
		}
	}
	if (used)
		vs_complain("--at %s: no such mark: the marks are %s", mark, known);
	else
		vs_complain("--at %s: no such mark: this run has none (peak and end always exist)", mark);
}

int vs_subjects_open(const char *path, const struct vs_analyse_options *options, struct vs_subjects *ret_subjects)
{
	struct vs_subjects subjects = {0};
	int r = vs_run_open(path, &subjects.run), last = 0;

	if (r < 0)
		return r;
	subjects.list = calloc(subjects.run.count, sizeof(*subjects.list));
	if (!subjects.list) {
		vs_subjects_close(&subjects);
		return -ENOMEM;
	}
	for (size_t i = 0; i < subjects.run.count; i++) {
		r = analyse(&subjects.run.processes[i], options, &subjects.list[subjects.count]);
		if (r == 0)
			subjects.count++;
		else
			last = r;
		if (r < 0 && r != -ENOENT)
			vs_complain("%s: cannot be analysed: %s", subjects.run.processes[i].path, strerror(-r));
	}
	if (!subjects.count) {
		if (last == -ENOENT)
			complain_about_mark(&subjects.run, options->mark ? options->mark : "?");
		vs_subjects_close(&subjects);
		return last;
	}
	*ret_subjects = subjects;
	return 0;
}

void vs_subjects_close(struct vs_subjects *subjects)
{
	for (size_t i = 0; i < subjects->count; i++) {
		vs_summary_free(subjects->list[i].summary);
		vs_symbols_free(subjects->list[i].symbols);
	}
	free(subjects->list);
	vs_run_close(&subjects->run);
	*subjects = (struct vs_subjects){0};
}

static double fullness(const struct vs_device_summary *device)
{
	/* Without the card's size, by bytes: any real share is larger. */
	return device->total ? 1 + (double)device->max_device / device->total : device->max_device / 1e15;
}

const struct vs_device_summary *vs_subjects_worst(const struct vs_subjects *subjects,
                                                  const struct vs_subject **ret_subject)
{
	const struct vs_device_summary *worst = NULL;
	double most = -1;

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			const struct vs_device_summary *device = &summary->devices[j];
			bool died = summary->exit == VS_EXIT_OOM && device->oom_count;
			double score = fullness(device) + (died ? 100 : 0);
			if (score > most) {
				most = score;
				worst = device;
				*ret_subject = &subjects->list[i];
			}
		}
	}
	return worst;
}

bool vs_subject_has_pytorch(const struct vs_subject *subject, const struct vs_device_summary *device)
{
	return subject->summary->snapshot || subject->summary->torch[0] || device->allocations ||
	       device->max_reserved || device->outside.at.pytorch;
}

const char *vs_exit_name(enum vs_exit exit)
{
	static const char *const names[] = {
	    [VS_EXIT_CLEAN] = "clean",
	    [VS_EXIT_KILLED] = "killed",
	    [VS_EXIT_OOM] = "oom",
	    [VS_EXIT_RUNNING] = "running",
	};

	return names[exit];
}

const char *vs_who(const struct vs_summary *summary, char text[VS_WHO_MAX])
{
	if (summary->snapshot)
		snprintf(text, VS_WHO_MAX, "PyTorch snapshot");
	else
		snprintf(text, VS_WHO_MAX, "pid %" PRIu32, summary->pid);
	return text;
}

void vs_json_pid(struct vs_json *json, const struct vs_summary *summary)
{
	if (summary->snapshot)
		vs_json_null(json, "pid");
	else
		vs_json_unsigned(json, "pid", summary->pid);
}

const char *vs_memory_name(enum vramshim_memory memory)
{
	static const char *const names[] = {
	    [VRAMSHIM_MEMORY_DEVICE] = "device",   [VRAMSHIM_MEMORY_MANAGED] = "managed",
	    [VRAMSHIM_MEMORY_PINNED] = "pinned",   [VRAMSHIM_MEMORY_ARRAY] = "array",
	    [VRAMSHIM_MEMORY_POOL] = "pool",       [VRAMSHIM_MEMORY_PHYSICAL] = "physical",
	    [VRAMSHIM_MEMORY_MAPPED] = "mapped",   [VRAMSHIM_MEMORY_RESERVED] = "reserved",
	    [VRAMSHIM_MEMORY_FOREIGN] = "foreign", [VRAMSHIM_MEMORY_HELD] = "held",
	    [VRAMSHIM_MEMORY_CONTEXT] = "context", [VRAMSHIM_MEMORY_CODE] = "code",
	    [VRAMSHIM_MEMORY_GRAPHS] = "graphs",
	};

	return memory < sizeof(names) / sizeof(names[0]) && names[memory] ? names[memory] : "unknown";
}
