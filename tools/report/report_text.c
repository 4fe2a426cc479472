/* SPDX-License-Identifier: MIT
 *
 * The report that people read: the answer first, then what it is made of.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/size.h"
#include "common/table.h"
#include "outside.h"
#include "report.h"

#define BAR_COLUMNS 30
#define BAR_BESIDE  44 /* columns of the rest of its line, at most */

static unsigned percent(uint64_t part, uint64_t whole)
{
	double share = whole ? 100.0 * part / whole : 0;

	return share < 1e6 ? share + 0.5 : 1e6; /* a damaged trace has any numbers */
}

/* "<1%" for what is little but not nothing. */
static const char *share(uint64_t part, uint64_t whole, char *text, size_t size)
{
	if (part && !percent(part, whole))
		snprintf(text, size, "<1%%");
	else
		snprintf(text, size, "%u%%", percent(part, whole));
	return text;
}

const char *vs_report_instant(const struct vs_point *point, char *text, size_t size)
{
	if (point->phase == VS_PHASE_SETUP)
		snprintf(text, size, "while setting up, before the first step");
	else if (point->phase == VS_PHASE_OTHER)
		snprintf(text, size, "between the phases of step %" PRIu32, point->step);
	else
		snprintf(text, size, "in the %s of step %" PRIu32,
		         point->phase == VS_PHASE_OPTIMIZER   ? "optimizer step"
		         : point->phase == VS_PHASE_ZERO_GRAD ? "zero_grad"
		                                              : vs_phase_name(point->phase),
		         point->step);
	return text;
}

static void by_size(const uint64_t *tags, unsigned order[VS_TAG_COUNT])
{
	for (unsigned i = 0; i < VS_TAG_COUNT; i++) {
		unsigned j = i;
		for (; j > 0 && tags[order[j - 1]] < tags[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

static void header(const struct vs_screen *screen, const struct vs_subject *subject,
                   const struct vs_device_summary *device)
{
	const struct vs_summary *summary = subject->summary;
	char command[1024] = "", line[1024], key[32], started[VS_TIME_MAX], who[VS_WHO_MAX];
	size_t used = 0;

	for (unsigned i = 0; used < sizeof(command); i++) {
		snprintf(key, sizeof(key), "command:%u", i);
		const char *argument = vramshim_trace_fact(subject->process->trace, key);
		if (!argument)
			break;
		/* The interpreter by its name alone: it is often deep in some environment. */
		const char *slash = i == 0 ? strrchr(argument, '/') : NULL;
		used += snprintf(command + used, sizeof(command) - used, "%s%s", used ? " " : "",
		                 slash ? slash + 1 : argument);
	}
	if (used) {
		vs_text_fit(screen, command, screen->width, VS_CUT_END, line, sizeof(line));
		fprintf(screen->out, "%s%s%s\n", vs_screen_style(screen, VS_BOLD), line,
		        vs_screen_style(screen, VS_PLAIN));
	}
	used = snprintf(line, sizeof(line), "%s", vs_who(summary, who));
	if (summary->rank >= 0)
		used += snprintf(line + used, sizeof(line) - used, ", rank %d", summary->rank);
	if (summary->world_size > 1)
		used += snprintf(line + used, sizeof(line) - used, " of %d", summary->world_size);
	if (summary->host[0])
		used += snprintf(line + used, sizeof(line) - used, " on %.64s", summary->host);
	if (summary->started_ns)
		used += snprintf(line + used, sizeof(line) - used, ", %s, %.1f s",
		                 vs_time_format(summary->started_ns, started), summary->duration_ns / 1e9);
	if (summary->torch[0])
		used += snprintf(line + used, sizeof(line) - used, ", PyTorch %.64s", summary->torch);
	if (summary->python[0])
		used += snprintf(line + used, sizeof(line) - used, ", Python %.32s", summary->python);
	vs_screen_text(screen, 0, "%s", line);
	vs_screen_text(screen, 0, "GPU %d: %.128s%s", device->index, device->name[0] ? device->name : "unknown",
	               device->simulated ? " (simulated)" : "");
}

/* How a program without PyTorch ended. */
static void ending_elsewhere(const struct vs_screen *screen, const struct vs_summary *summary,
                             const struct vs_device_summary *device)
{
	char held[VS_SIZE_MAX];

	vs_size_format(device->end.device, held);
	if (summary->exit == VS_EXIT_RUNNING)
		vs_screen_text(screen, 0, "It is still running, now with %s on the card.", held);
	else if (summary->exit == VS_EXIT_CLEAN)
		vs_screen_text(screen, 0, "The process ended in order.");
	else
		vs_screen_text(screen, 0,
		               "%sNo end was recorded%s: the process was killed, or its trace is cut. At the last "
		               "event, %.1f s after the start, it had %s on the card.",
		               vs_screen_style(screen, VS_RED), vs_screen_style(screen, VS_PLAIN),
		               summary->duration_ns / 1e9, held);
}

/* How it ended, where that is news. */
static void ending(const struct vs_screen *screen, const struct vs_subject *subject,
                   const struct vs_device_summary *device)
{
	const struct vs_summary *summary = subject->summary;
	char when[64], asked[VS_SIZE_MAX], allocated[VS_SIZE_MAX], reserved[VS_SIZE_MAX], available[VS_SIZE_MAX];
	char largest[VS_SIZE_MAX], left[64] = "", piece[64] = "";
	const char *red = vs_screen_style(screen, VS_RED), *plain = vs_screen_style(screen, VS_PLAIN);

	if (device->oom_count) {
		const struct vs_oom_event *oom = &device->ooms[device->oom_count - 1];
		const char *after = summary->exit == VS_EXIT_OOM ? "" : " and went on";
		if (oom->largest_known)
			snprintf(piece, sizeof(piece), " and a largest free piece of %s",
			         vs_size_format(oom->largest_free, largest));
		if (oom->free_known)
			snprintf(left, sizeof(left), ", and %s were free on the card",
			         vs_size_format(oom->free, available));
		vs_screen_text(screen, 0,
		               "%sOut of memory%s%s %s: %s were asked for; PyTorch held %s, %s of it allocated%s%s.",
		               red, plain, oom->caught ? after : "", vs_report_instant(&oom->at, when, sizeof(when)),
		               vs_size_format(oom->requested, asked), vs_size_format(oom->at.reserved, reserved),
		               vs_size_format(oom->at.allocated, allocated), piece, left);
		vs_report_stack(screen, subject, oom->stack);
		if (device->oom_count > 1)
			vs_screen_text(screen, 0, "That was the last of %zu times.", device->oom_count);
	}
	if (!vs_subject_has_pytorch(subject, device)) {
		ending_elsewhere(screen, summary, device);
		return;
	}
	if (summary->exit == VS_EXIT_KILLED)
		vs_screen_text(
		    screen, 0,
		    "%sNo end was recorded%s: the process was killed, or its trace is cut. The last "
		    "event, %.1f s after "
		    "the start, was %s, with %s allocated and %s reserved.",
		    red, plain, summary->duration_ns / 1e9, vs_report_instant(&device->end, when, sizeof(when)),
		    vs_size_format(device->end.allocated, allocated), vs_size_format(device->end.reserved, reserved));
	if (summary->exit == VS_EXIT_RUNNING)
		vs_screen_text(screen, 0, "It is still running, now %s, with %s allocated and %s reserved.",
		               vs_report_instant(&device->end, when, sizeof(when)),
		               vs_size_format(device->end.allocated, allocated),
		               vs_size_format(device->end.reserved, reserved));
	if (summary->exit == VS_EXIT_CLEAN && summary->snapshot)
		vs_screen_text(screen, 0, "The history recorded in the snapshot has %" PRIu32 " optimizer step%s.",
		               summary->steps, summary->steps == 1 ? "" : "s");
	else if (summary->exit == VS_EXIT_CLEAN && summary->steps)
		vs_screen_text(screen, 0, "The process ended in order after %" PRIu32 "%s optimizer step%s.",
		               summary->steps, device->lost ? " recorded" : "", summary->steps == 1 ? "" : "s");
	else if (summary->exit == VS_EXIT_CLEAN && !device->allocations)
		vs_screen_text(screen, 0, "The process ended in order.");
	else if (summary->exit == VS_EXIT_CLEAN)
		vs_screen_text(screen, 0,
		               "The process ended in order. No optimizer step was seen: there was none, or none that "
		               "allocates or frees.");
}

/* What is missing decides how far the rest can be trusted, so it is said at once. */
static void missing(const struct vs_screen *screen, const struct vs_device_summary *device)
{
	char lost[VS_SIZE_MAX], all[VS_SIZE_MAX];

	if (device->lost)
		vs_screen_text(
		    screen, 0,
		    "%sIncomplete%s: %s of the %s allocations and frees are not in the trace (size limit, full disk, "
		    "or "
		    "a cut file). What follows describes those that are; allocated and reserved are PyTorch's own.",
		    vs_screen_style(screen, VS_YELLOW), vs_screen_style(screen, VS_PLAIN),
		    vs_count_format(device->lost, lost), vs_count_format(device->allocations + device->frees, all));
}

static void answer(const struct vs_screen *screen, const struct vs_device_summary *device)
{
	const struct vs_point *peak = &device->peak;
	char when[64], allocated[VS_SIZE_MAX], total[VS_SIZE_MAX], part[16], of[96] = "", made_of[160] = "";
	unsigned order[VS_TAG_COUNT];
	size_t used = 0;

	by_size(peak->tags, order);
	/* As many as it takes to name most of it, three at the most. */
	for (unsigned i = 0, named = 0; i < 3 && named < 80 && peak->tags[order[i]]; i++) {
		unsigned named_share = percent(peak->tags[order[i]], peak->allocated);
		used += snprintf(made_of + used, sizeof(made_of) - used, "%s%u%% %s", i ? ", " : ": ", named_share,
		                 vs_tag_name(order[i]));
		named += named_share;
	}
	if (!device->allocations) {
		vs_screen_text(
		    screen, 0,
		    "PyTorch's caching allocator gave out nothing here; at most %s were in use on the card%s.",
		    vs_size_format(device->max_device, allocated),
		    device->outside.context_source[0] ? "" : ", without the CUDA context");
		return;
	}
	if (device->total)
		snprintf(of, sizeof(of), " of the card's %s (%s)", vs_size_format(device->total, total),
		         share(peak->allocated, device->total, part, sizeof(part)));
	vs_screen_text(screen, 0, "%sPeak allocated %s%s%s, %s%s.", vs_screen_style(screen, VS_BOLD),
	               vs_size_format(peak->allocated, allocated), vs_screen_style(screen, VS_PLAIN), of,
	               vs_report_instant(peak, when, sizeof(when)), made_of);
	if (device->max_allocated > peak->allocated)
		vs_screen_text(screen, 0,
		               "PyTorch's own peak was %s: that moment was not recorded (see the lost events below), "
		               "the tags and "
		               "stacks here are those of the highest moment that was.",
		               vs_size_format(device->max_allocated, allocated));
}

/* The answer for a program without PyTorch. */
static void answer_elsewhere(const struct vs_screen *screen, const struct vs_device_summary *device)
{
	char most[VS_SIZE_MAX], total[VS_SIZE_MAX], part[16], of[96] = "of the card";

	if (device->total)
		snprintf(of, sizeof(of), "of the card's %s (%s)", vs_size_format(device->total, total),
		         share(device->max_device, device->total, part, sizeof(part)));
	vs_screen_text(screen, 0, "This process took at most %s%s%s %s%s: %" PRIu64 " bytes.",
	               vs_screen_style(screen, VS_BOLD), vs_size_format(device->max_device, most),
	               vs_screen_style(screen, VS_PLAIN), of,
	               device->outside.context_source[0] ? "" : ", without the CUDA context", device->max_device);
}

static void tags(const struct vs_screen *screen, const struct vs_point *peak)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_LEFT};
	struct vs_table *table = vs_table_new(",,,", kinds);
	char size[VS_SIZE_MAX], bar[BAR_COLUMNS * 4 + 1];
	unsigned order[VS_TAG_COUNT], columns = screen->width > BAR_BESIDE ? screen->width - BAR_BESIDE : 0;

	vs_screen_title(screen, "What the peak consists of");
	by_size(peak->tags, order);
	for (unsigned i = 0; i < VS_TAG_COUNT; i++) {
		enum vs_tag tag = order[i];
		if (!peak->tags[tag])
			continue;
		vs_text_bar(screen, peak->tags[tag], peak->tags[order[0]],
		            columns < BAR_COLUMNS ? columns : BAR_COLUMNS, bar, sizeof(bar));
		vs_table_cell(table, vs_tag_name(tag));
		vs_table_cell(table, vs_size_format(peak->tags[tag], size));
		vs_table_cellf(table, "%.1f%%", peak->allocated ? 100.0 * peak->tags[tag] / peak->allocated : 0);
		vs_table_cell(table, bar);
		for (unsigned j = VS_DETAIL_NONE + 1; j < VS_DETAIL_COUNT; j++) {
			if (!peak->details[j] || vs_detail_tag(j) != tag)
				continue;
			vs_table_cellf(table, "  /%s", vs_detail_name(j));
			vs_table_cell(table, vs_size_format(peak->details[j], size));
			vs_table_cellf(table, "%.1f%%",
			               peak->allocated ? 100.0 * peak->details[j] / peak->allocated : 0);
			vs_table_cell(table, "");
			vs_table_style(table, VS_DIM);
		}
	}
	vs_table_print(table, screen, 2);
}

static const char *device_meaning(const struct vs_device_summary *device)
{
	if (device->max_device < device->max_reserved)
		return "CUDA calls are missing";
	return device->outside.context_source[0] ? "what nvidia-smi shows" : "without the context";
}

static void counters(const struct vs_screen *screen, const struct vs_device_summary *device)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_FLEX};
	const struct {
		const char *name, *meaning;
		uint64_t at_peak, highest;
	} rows[] = {
	    {"allocated", "max_memory_allocated", device->peak.allocated, device->max_allocated},
	    {"reserved", "max_memory_reserved", device->peak.reserved, device->max_reserved},
	    {"device", device_meaning(device), device->peak.device, device->max_device},
	};
	struct vs_table *table = vs_table_new(",at the peak,highest,in bytes,of card,", kinds);
	char size[VS_SIZE_MAX];

	vs_screen_title(screen, "Allocated, reserved, device");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vs_table_cell(table, rows[i].name);
		vs_table_cell(table, vs_size_format(rows[i].at_peak, size));
		vs_table_cell(table, vs_size_format(rows[i].highest, size));
		vs_table_cellf(table, "%" PRIu64, rows[i].highest);
		if (device->total)
			vs_table_cell(table, share(rows[i].highest, device->total, size, sizeof(size)));
		else
			vs_table_cell(table, "");
		vs_table_cell(table, rows[i].meaning);
	}
	vs_table_print(table, screen, 2);
}

static void fragmentation(const struct vs_screen *screen, const struct vs_fragmentation *fragmentation)
{
	char unallocated[VS_SIZE_MAX], releasable[VS_SIZE_MAX], pinned[VS_SIZE_MAX], largest[VS_SIZE_MAX];

	if (!fragmentation->exact) {
		vs_screen_text(screen, 2, "  Fragmentation: %s reserved and not allocated at the peak%s.",
		               vs_size_format(fragmentation->unallocated, unallocated),
		               fragmentation->segments
		                   ? "; the recorded segments do not add up to what is reserved, so "
		                     "how much of it is in whole ones is not known"
		                   : "");
		return;
	}
	vs_screen_text(screen, 2,
	               "  Fragmentation: %s reserved and not allocated at the peak: %s in whole segments "
	               "(empty_cache gives them "
	               "back), %s in pieces of segments in use; the largest free piece is %s, index %.2f.",
	               vs_size_format(fragmentation->unallocated, unallocated),
	               vs_size_format(fragmentation->releasable, releasable),
	               vs_size_format(fragmentation->pinned, pinned),
	               vs_size_format(fragmentation->largest_free, largest), fragmentation->index);
}

/* What the tags lack, in a line each. Sizes do not depend on it. */
static void evidence(const struct vs_screen *screen, const struct vs_evidence *evidence)
{
	char some[VS_SIZE_MAX], all[VS_SIZE_MAX];

	if (evidence->stacks && !evidence->with_python)
		vs_screen_text(screen, 2,
		               "  No Python frames were recorded (not a Python program, or a version that cannot be "
		               "read): tags rest on native frames and on lifetimes alone.");
	if (evidence->with_native && evidence->unnamed == evidence->with_native)
		vs_screen_text(
		    screen, 2,
		    "  No native frame has a name (libraries stripped, or not on this machine): tags rest on "
		    "Python frames and threads alone.");
	if (evidence->cut)
		vs_screen_text(screen, 2,
		               "  %s of %s stacks are deeper than the recorder keeps and show no known frame: their "
		               "blocks are tagged by their threads, or unknown.",
		               vs_count_format(evidence->cut, some), vs_count_format(evidence->stacks, all));
}

/* Whether the numbers above can be trusted. */
static void books(const struct vs_screen *screen, const struct vs_subject *subject,
                  const struct vs_device_summary *device)
{
	char events[VS_SIZE_MAX], frees[VS_SIZE_MAX], wrong[VS_SIZE_MAX];
	uint64_t lost = subject->summary->lost, damaged = vramshim_trace_info(subject->process->trace)->damaged;

	vs_screen_title(screen, "Can this be trusted?");
	vs_screen_text(screen, 2, "  %s allocations and %s frees of PyTorch.",
	               vs_count_format(device->allocations, events), vs_count_format(device->frees, frees));
	if (lost > device->lost)
		vs_screen_text(screen, 2, "  %s events of all kinds were not recorded.",
		               vs_count_format(lost, events));
	if (subject->summary->marks_dropped)
		vs_screen_text(screen, 2, "  %s marks are beyond what is kept and cannot be looked at.",
		               vs_count_format(subject->summary->marks_dropped, events));
	evidence(screen, &subject->summary->evidence);
	if (damaged)
		vs_screen_text(screen, 2, "  The trace is damaged in %s places, where records are missing.",
		               vs_count_format(damaged, events));
	if (device->mismatches)
		vs_screen_text(screen, 2,
		               "  %sThe books differ%s: at %s of the recorded events the sum of the blocks was not "
		               "what PyTorch reported.",
		               vs_screen_style(screen, VS_YELLOW), vs_screen_style(screen, VS_PLAIN),
		               vs_count_format(device->mismatches, wrong));
	else if (device->allocations + device->frees > device->lost)
		vs_screen_text(screen, 2,
		               "  The books agree with PyTorch's counters: after every recorded event, the sum of "
		               "all live blocks "
		               "was what PyTorch itself reported.");
}

void vs_report_device(const struct vs_screen *screen, const struct vs_subjects *subjects,
                      const struct vs_subject *subject, const struct vs_device_summary *device,
                      const struct vs_report_options *options)
{
	struct vs_outside_account account;

	header(screen, subject, device);
	fprintf(screen->out, "\n");
	/* The answer first: where memory ran out, that; else the peak. */
	bool died = subject->summary->exit == VS_EXIT_OOM, pytorch = vs_subject_has_pytorch(subject, device);
	if (died)
		ending(screen, subject, device);
	if (pytorch)
		answer(screen, device);
	else
		answer_elsewhere(screen, device);
	if (!died)
		ending(screen, subject, device);
	missing(screen, device);
	if (device->allocations)
		tags(screen, &device->peak);
	if (pytorch)
		counters(screen, device);
	if (device->allocations)
		fragmentation(screen, &device->fragmentation);
	if (vs_outside_account(subjects, subject, device, &account) == 0) {
		vs_outside_print(screen, &account);
		vs_outside_account_release(&account);
	}
	if (!device->allocations) /* what follows is of PyTorch's blocks alone */
		return;
	vs_report_steps(screen, device, options->all);
	vs_report_stacks(screen, subject, device);
	vs_report_estimate(screen, subject, device, &options->estimate);
	books(screen, subject, device);
}
