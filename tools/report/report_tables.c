/* SPDX-License-Identifier: MIT
 *
 * The sections of the report that are tables: processes, steps, stacks, the estimate.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/size.h"
#include "common/table.h"
#include "frames.h"
#include "report.h"

/* Steps shown at each end and around the peak of a long run. */
#define STEPS_ENDS 4
#define STEPS_ALL  12

/* Columns of a table: "999.99 GiB" with the gap before it, and what stands before the tags in the table of steps. */
#define GAP          2
#define SIZE_COLUMNS 10
#define STEP_COLUMNS (2 + 4 + GAP + 9 + 2 * (GAP + SIZE_COLUMNS))

void vs_report_overview(const struct vs_screen *screen, const struct vs_subjects *subjects)
{
	static const enum vs_column kinds[] = {VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_LEFT, VS_RIGHT,
	                                       VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT};
	struct vs_table *table = vs_table_new("rank,pid,GPU,end,allocated,reserved,device,card,steps", kinds);
	char size[VS_SIZE_MAX];

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			const struct vs_device_summary *device = &summary->devices[j];
			if (summary->rank >= 0)
				vs_table_cellf(table, "%d", summary->rank);
			else
				vs_table_cell(table, "-");
			if (summary->snapshot)
				vs_table_cell(table, "-");
			else
				vs_table_cellf(table, "%" PRIu32, summary->pid);
			vs_table_cellf(table, "%d", device->index);
			vs_table_cell(table, summary->snapshot ? "-" : vs_exit_name(summary->exit));
			vs_table_cell(table, vs_size_format(device->max_allocated, size));
			vs_table_cell(table, vs_size_format(device->max_reserved, size));
			vs_table_cell(table, vs_size_format(device->max_device, size));
			vs_table_cell(table, device->total ? vs_size_format(device->total, size) : "-");
			vs_table_cellf(table, "%zu", device->step_count);
			if (summary->exit == VS_EXIT_OOM)
				vs_table_style(table, VS_RED);
		}
	}
	fprintf(screen->out, "%s%zu process%s, highest of each GPU:%s\n", vs_screen_style(screen, VS_BOLD),
	        subjects->count, subjects->count == 1 ? "" : "es", vs_screen_style(screen, VS_PLAIN));
	vs_table_print(table, screen, 2);
	fprintf(screen->out, "\n");
}

static unsigned column_width(enum vs_tag tag)
{
	unsigned title = strlen(vs_tag_name(tag));

	return GAP + (title > SIZE_COLUMNS ? title : SIZE_COLUMNS);
}

/* The tags with the most bytes in any step, as many as fit beside the counters. *ret_other: there are more, for which
 * a last column is kept. */
static unsigned choose_tags(const struct vs_screen *screen, const struct vs_device_summary *device,
                            enum vs_tag chosen[VS_TAG_COUNT], bool *ret_other)
{
	uint64_t most[VS_TAG_COUNT] = {0};
	unsigned count = 0, fit = 0, used = STEP_COLUMNS;

	for (size_t i = 0; i < device->step_count; i++) {
		for (unsigned tag = 0; tag < VS_TAG_COUNT; tag++) {
			if (device->steps[i].tags[tag] > most[tag])
				most[tag] = device->steps[i].tags[tag];
		}
	}
	for (unsigned tag = 0; tag < VS_TAG_COUNT; tag++) {
		unsigned at = count;
		if (!most[tag])
			continue;
		for (; at > 0 && most[chosen[at - 1]] < most[tag]; at--)
			chosen[at] = chosen[at - 1];
		chosen[at] = tag;
		count++;
	}
	for (; fit < count; fit++) {
		unsigned other = fit + 1 < count ? GAP + SIZE_COLUMNS : 0;
		used += column_width(chosen[fit]);
		if (used + other > screen->width)
			break;
	}
	*ret_other = fit < count;
	return fit;
}

static bool shown_step(const struct vs_device_summary *device, size_t i)
{
	size_t peak = device->peak.step;

	if (device->step_count <= STEPS_ALL)
		return true;
	return i < STEPS_ENDS || i + STEPS_ENDS >= device->step_count ||
	       (device->steps[i].step + 1 >= peak && device->steps[i].step <= peak + 1);
}

void vs_report_steps(const struct vs_screen *screen, const struct vs_device_summary *device, bool all)
{
	enum vs_column kinds[VS_TAG_COUNT + 6] = {VS_RIGHT, VS_LEFT, VS_RIGHT, VS_RIGHT};
	enum vs_tag chosen[VS_TAG_COUNT];
	bool with_other;
	unsigned count = choose_tags(screen, device, chosen, &with_other), columns = count + 4 + with_other;
	char titles[256] = "step,peak in,allocated,reserved", size[VS_SIZE_MAX];
	bool skipping = false;

	if (!device->step_count)
		return;
	for (unsigned i = 0; i < count + with_other; i++) {
		kinds[4 + i] = VS_RIGHT;
		snprintf(titles + strlen(titles), sizeof(titles) - strlen(titles), ",%s",
		         i < count ? vs_tag_name(chosen[i]) : "other");
	}
	struct vs_table *table = vs_table_new(titles, kinds);
	for (size_t i = 0; i < device->step_count; i++) {
		const struct vs_point *step = &device->steps[i];
		if (!all && !shown_step(device, i)) {
			for (unsigned j = 0; j < columns && !skipping; j++)
				vs_table_cell(table, j ? "" : screen->utf8 ? "…" : "...");
			skipping = true;
			continue;
		}
		skipping = false;
		uint64_t other = 0;
		for (unsigned tag = 0; tag < VS_TAG_COUNT; tag++)
			other += step->tags[tag];
		vs_table_cellf(table, "%" PRIu32, step->step);
		vs_table_cell(table, vs_phase_name(step->phase));
		vs_table_cell(table, vs_size_format(step->allocated, size));
		vs_table_cell(table, vs_size_format(step->reserved, size));
		for (unsigned j = 0; j < count; j++) {
			vs_table_cell(table, vs_size_format(step->tags[chosen[j]], size));
			other -= step->tags[chosen[j]];
		}
		if (with_other)
			vs_table_cell(table, vs_size_format(other, size));
		if (step->step == device->peak.step)
			vs_table_style(table, VS_BOLD);
	}
	vs_screen_title(screen, "Peak of each step");
	vs_table_print(table, screen, 2);
}

/* "a <- b <- c", broken before an arrow where the line is full. */
static void print_telling(const struct vs_screen *screen, const struct vs_telling *telling)
{
	const char *arrow = screen->utf8 ? "← " : "<- ";
	const unsigned indent = 6;
	unsigned column = indent;
	char line[VS_FRAME_TEXT + 8];

	fprintf(screen->out, "%*s%s", (int)indent, "", vs_screen_style(screen, VS_DIM));
	for (unsigned i = 0; i < telling->count; i++) {
		const char *lead = i ? arrow : "";
		unsigned lead_columns = vs_text_columns(lead), room = screen->width - indent - lead_columns;
		vs_text_fit(screen, telling->frames[i], room, VS_CUT_END, line, sizeof(line));
		unsigned columns = lead_columns + vs_text_columns(line);
		if (i && column + 1 + columns > screen->width) {
			fprintf(screen->out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (i) {
			fprintf(screen->out, " ");
			column++;
		}
		fprintf(screen->out, "%s%s", lead, line);
		column += columns;
	}
	fprintf(screen->out, "%s\n", vs_screen_style(screen, VS_PLAIN));
}

void vs_report_stack(const struct vs_screen *screen, const struct vs_subject *subject, uint32_t id)
{
	const struct vs_frame *frames;
	struct vs_telling telling = {0};
	size_t count;

	if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
		return;
	vs_frames_telling(frames, count, &telling);
	if (telling.count)
		print_telling(screen, &telling);
}

void vs_report_stacks(const struct vs_screen *screen, const struct vs_subject *subject,
                      const struct vs_device_summary *device)
{
	char size[VS_SIZE_MAX];

	if (!device->stack_count)
		return;
	vs_screen_title(screen, "Call stacks that hold the most at the peak");
	for (size_t i = 0; i < device->stack_count; i++) {
		const struct vs_stack_bytes *stack = &device->stacks[i];

		fprintf(screen->out, "  %10s %3.0f%%  %s, %" PRIu64 " block%s, stack %" PRIu32 "\n",
		        vs_size_format(stack->bytes, size),
		        device->peak.allocated ? 100.0 * stack->bytes / device->peak.allocated : 0,
		        stack->detail ? vs_detail_path(stack->detail) : vs_tag_name(stack->tag), stack->blocks,
		        stack->blocks == 1 ? "" : "s", stack->stack);
		if (!stack->stack)
			fprintf(screen->out,
			        "      no frames were recorded (level light: autograd's threads have none)\n");
		vs_report_stack(screen, subject, stack->stack);
	}
}

/* The paper counts everything at once and takes it that all parameters are trained, with Adam: say where this job is
 * not like that. A tenth of what the paper has is as good as nothing. */
static void explain_training(const struct vs_screen *screen, const struct vs_subject *subject,
                             const struct vs_device_summary *device, const struct vs_estimate *estimate)
{
	uint64_t gradients = 0, optimizer = device->end.tags[VS_TAG_OPTIMIZER];
	uint64_t little = estimate->paper[VS_ESTIMATE_GRADIENTS] / 10;
	/* One that did not come to its end counts as seen. */
	bool amid = subject->summary->exit != VS_EXIT_CLEAN && device->end.phase == VS_PHASE_OPTIMIZER;
	char size[VS_SIZE_MAX];
	size_t step = 0;

	for (size_t i = 0; i < device->step_count; i++) {
		const uint64_t *tags = device->steps[i].tags;
		if (tags[VS_TAG_OPTIMIZER] > optimizer)
			optimizer = tags[VS_TAG_OPTIMIZER];
		if (tags[VS_TAG_GRADIENTS] > gradients) {
			gradients = tags[VS_TAG_GRADIENTS];
			step = i;
		}
	}
	if (subject->summary->steps <= amid)
		vs_screen_text(
		    screen, 2,
		    "  The paper takes it that all parameters are trained with Adam; no whole optimizer step "
		    "was seen here.");
	else if (optimizer / VS_PAPER_MOMENTS < estimate->parameters / 2)
		vs_screen_text(
		    screen, 2,
		    "  The paper takes it that all parameters are trained with Adam; here the optimizer never "
		    "held more than %s: frozen weights (LoRA), or an optimizer with less state.",
		    vs_size_format(optimizer, size));
	if (device->peak.tags[VS_TAG_GRADIENTS] > little)
		return;
	if (gradients > little)
		vs_screen_text(screen, 2,
		               "  The gradients are not there at this peak; at the peak of step %" PRIu32
		               " (%s) they were %s.",
		               device->steps[step].step, vs_phase_name(device->steps[step].phase),
		               vs_size_format(gradients, size));
	else
		vs_screen_text(screen, 2, "  There were hardly any gradients at this peak.");
}

static void explain_estimate(const struct vs_screen *screen, const struct vs_subject *subject,
                             const struct vs_device_summary *device, const struct vs_estimate_request *request,
                             const struct vs_estimate *estimate)
{
	char parameters[VS_SIZE_MAX], linear[VS_SIZE_MAX], scores[VS_SIZE_MAX], layer[VS_SIZE_MAX];

	if (request->parameters)
		vs_screen_text(screen, 2, "  %s parameters (%s).", vs_count_format(estimate->parameters, parameters),
		               estimate->basis);
	else
		vs_screen_text(
		    screen, 2,
		    "  %s parameters, counted from the weights (buffers and padding to 512 B among them) at %" PRIu64
		    " bytes each: %s.",
		    vs_count_format(estimate->parameters, parameters), estimate->parameter_bytes, estimate->basis);
	if (estimate->activations) {
		const struct vs_paper_shape *shape = &request->shape;
		vs_screen_text(
		    screen, 2,
		    "  Activations: 2 (19 B S H + 3 B A S^2) bytes a layer = 2 x (%s + %s) = %s, x %s; L=%" PRIu64
		    " H=%" PRIu64 " A=%" PRIu64 " B=%" PRIu64 " S=%" PRIu64 ".",
		    vs_count_format(estimate->layer.linear_elements, linear),
		    vs_count_format(estimate->layer.score_elements, scores),
		    vs_size_format_decimal(estimate->layer.layer_bytes, layer),
		    request->checkpointing ? "1 (checkpointing)" : "L", shape->layers, shape->hidden, shape->heads,
		    shape->batch, shape->sequence);
	} else {
		vs_screen_text(
		    screen, 2,
		    "  For the activations on paper, which its total lacks: --config config.json --batch B --seq S, "
		    "or --layers --hidden --heads.");
	}
	vs_screen_text(
	    screen, 2,
	    "  Measured is what there was at the peak; the difference is measured - paper. Outputs count as "
	    "activations.");
	explain_training(screen, subject, device, estimate);
}

void vs_report_estimate(const struct vs_screen *screen, const struct vs_subject *subject,
                        const struct vs_device_summary *device, const struct vs_estimate_request *request)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT};
	struct vs_estimate estimate;
	char size[VS_SIZE_MAX];

	vs_screen_title(screen, "The estimate on paper beside the measurement");
	int r = vs_estimate_make(subject, device, request, &estimate);
	if (r < 0) {
		vs_screen_text(screen, 2, "  %s",
		               r == -ENODATA ? "No weights at the peak to count parameters from: say --params N."
		               : r == -EOPNOTSUPP
		                   ? "The weights are quantized, so their bytes do not tell how many they "
		                     "are: say --params N."
		                   : "The numbers given are too large.");
		return;
	}
	explain_estimate(screen, subject, device, request, &estimate);
	struct vs_table *table = vs_table_new(",B/param,paper,,measured,B/param,difference", kinds);
	for (unsigned i = 0; i < VS_ESTIMATE_LINES; i++) {
		bool known = i != VS_ESTIMATE_OTHER && (i != VS_ESTIMATE_ACTIVATIONS || estimate.activations);
		bool comparable = i != VS_ESTIMATE_ACTIVATIONS || estimate.activations;
		bool by_parameter = i <= VS_ESTIMATE_FIXED;
		vs_table_cell(table, vs_estimate_name(i));
		if (by_parameter)
			vs_table_cellf(table, "%u", estimate.per_parameter[i]);
		else
			vs_table_cell(table, "");
		vs_table_cell(table, known ? vs_size_format(estimate.paper[i], size) : "-");
		vs_table_cell(table, known ? vs_size_format_decimal(estimate.paper[i], size) : "");
		vs_table_cell(table, vs_size_format(estimate.measured[i], size));
		if (by_parameter)
			vs_table_cellf(table, "%.2f", (double)estimate.measured[i] / estimate.parameters);
		else
			vs_table_cell(table, "");
		vs_table_cell(
		    table, comparable ? vs_size_format_signed(estimate.measured[i] - estimate.paper[i], size) : "-");
		if (i == VS_ESTIMATE_FIXED || i == VS_ESTIMATE_TOTAL)
			vs_table_style(table, VS_BOLD);
	}
	vs_table_print(table, screen, 2);
}
