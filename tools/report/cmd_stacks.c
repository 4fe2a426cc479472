/* SPDX-License-Identifier: MIT
 *
 * vramreport stacks: whole call stacks with names.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "common/json.h"
#include "common/message.h"
#include "common/screen.h"
#include "common/size.h"
#include "stack_text.h"
#include "subject.h"

static const char help[] = "Usage: vramreport stacks [OPTION]... RUN\n"
                           "\n"
                           "The call stacks that hold the most memory at the peak, native and Python frames merged,\n"
                           "the innermost first.\n"
                           "\n"
                           "      --top N     how many for each GPU (default: 10)\n"
                           "      --id N      this one alone, as report and blocks number them\n"
                           "      --json      one JSON object (schema vramshim/stacks/1)\n"
                           "  -h, --help      show this text\n";

enum { OPTION_TOP = VS_OPTION_FIRST, OPTION_ID, OPTION_JSON };

/* --- text --- */

static void text_top(const struct vs_screen *screen, const struct vs_subject *subject)
{
	const struct vs_summary *summary = subject->summary;
	char size[VS_SIZE_MAX], who[VS_WHO_MAX];

	for (size_t i = 0; i < summary->device_count; i++) {
		const struct vs_device_summary *device = &summary->devices[i];
		fprintf(screen->out, "%s%s, GPU %d, at the peak of %s allocated%s\n",
		        vs_screen_style(screen, VS_BOLD), vs_who(summary, who), device->index,
		        vs_size_format(device->peak.allocated, size), vs_screen_style(screen, VS_PLAIN));
		for (size_t j = 0; j < device->stack_count; j++) {
			const struct vs_stack_bytes *stack = &device->stacks[j];
			fprintf(screen->out, "\n  stack %" PRIu32 ": %s in %" PRIu64 " block%s, %s\n", stack->stack,
			        vs_size_format(stack->bytes, size), stack->blocks, stack->blocks == 1 ? "" : "s",
			        stack->detail ? vs_detail_path(stack->detail) : vs_tag_name(stack->tag));
			vs_stack_text(screen, subject, stack->stack);
		}
		fprintf(screen->out, "\n");
	}
}

/* --- JSON --- */

static void json_frames(struct vs_json *json, const struct vs_subject *subject, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(subject->process->trace, id);
	const struct vs_frame *frames;
	char address[24];
	size_t count;

	vs_json_bool(json, "truncated", stack && stack->truncated);
	vs_json_array(json, "frames");
	if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
		count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct vs_frame *frame = &frames[i];
		vs_json_object_line(json, NULL);
		vs_json_string(json, "kind", frame->kind == VS_FRAME_PYTHON ? "python" : "native");
		vs_json_string(json, "function", frame->function);
		if (frame->kind == VS_FRAME_PYTHON) {
			vs_json_string(json, "file", frame->file);
			vs_json_unsigned(json, "line", frame->line);
		} else {
			snprintf(address, sizeof(address), "0x%" PRIx64, frame->address);
			vs_json_string(json, "module", frame->module);
			vs_json_string(json, "address", address);
		}
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void json_process(struct vs_json *json, const struct vs_subject *subject, uint32_t id)
{
	const struct vs_summary *summary = subject->summary;

	vs_json_object(json, NULL);
	vs_json_pid(json, summary);
	vs_json_array(json, "stacks");
	if (id && vramshim_trace_stack(subject->process->trace, id)) {
		vs_json_object(json, NULL);
		vs_json_unsigned(json, "id", id);
		json_frames(json, subject, id);
		vs_json_end(json);
	}
	for (size_t i = 0; !id && i < summary->device_count; i++) {
		const struct vs_device_summary *device = &summary->devices[i];
		for (size_t j = 0; j < device->stack_count; j++) {
			const struct vs_stack_bytes *stack = &device->stacks[j];
			vs_json_object(json, NULL);
			vs_json_unsigned(json, "id", stack->stack);
			vs_json_signed(json, "device", device->index);
			vs_json_unsigned(json, "bytes", stack->bytes);
			vs_json_unsigned(json, "blocks", stack->blocks);
			vs_json_string(json, "tag", vs_tag_name(stack->tag));
			vs_json_string(json, "detail", vs_detail_name(stack->detail));
			json_frames(json, subject, stack->stack);
			vs_json_end(json);
		}
	}
	vs_json_end(json);
	vs_json_end(json);
}

static void print_json(const struct vs_subjects *subjects, uint32_t id)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/stacks/1");
	vs_json_array(&json, "processes");
	for (size_t i = 0; i < subjects->count; i++)
		json_process(&json, &subjects->list[i], id);
	vs_json_end(&json);
	vs_json_end(&json);
}

static void print_text(const struct vs_subjects *subjects, uint32_t id)
{
	struct vs_screen screen = vs_screen_on(stdout);
	char who[VS_WHO_MAX];

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_subject *subject = &subjects->list[i];
		if (!id) {
			text_top(&screen, subject);
		} else if (vramshim_trace_stack(subject->process->trace, id)) {
			printf("%s, stack %" PRIu32 "\n", vs_who(subject->summary, who), id);
			vs_stack_text(&screen, subject, id);
		}
	}
}

static bool exists(const struct vs_subjects *subjects, uint32_t id)
{
	uint32_t most = 0;

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vramshim_trace *trace = subjects->list[i].process->trace;
		if (vramshim_trace_stack(trace, id))
			return true;
		if (vramshim_trace_stack_count(trace) > most)
			most = vramshim_trace_stack_count(trace);
	}
	vs_complain("--id %" PRIu32 ": no such stack: they are numbered from 1 to %" PRIu32, id, most);
	return false;
}

int vs_cmd_stacks(int argc, char **argv)
{
	static const struct option options[] = {
	    {"top", required_argument, NULL, OPTION_TOP},
	    {"id", required_argument, NULL, OPTION_ID},
	    {"json", no_argument, NULL, OPTION_JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	struct vs_subjects subjects;
	uint64_t top = 10, id = 0;
	bool as_json = false;
	int option;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_TOP:
			if (vs_option_number("--top", optarg, 1, 100000, &top) < 0)
				return VS_ANSWER_NONE;
			break;
		case OPTION_ID:
			if (vs_option_number("--id", optarg, 1, UINT32_MAX, &id) < 0)
				return VS_ANSWER_NONE;
			break;
		case OPTION_JSON:
			as_json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		default:
			return vs_option_problem(option, argv);
		}
	}
	const char *path = vs_operand_run(argc, argv);
	struct vs_analyse_options analyse = {.top_stacks = top};
	if (!path || vs_subjects_open(path, &analyse, &subjects) < 0)
		return VS_ANSWER_NONE;
	int status = VS_ANSWER_YES;
	if (id && !exists(&subjects, id))
		status = VS_ANSWER_NONE;
	else if (as_json)
		print_json(&subjects, id);
	else
		print_text(&subjects, id);
	vs_subjects_close(&subjects);
	return status;
}
