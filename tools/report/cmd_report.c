/* SPDX-License-Identifier: MIT
 *
 * vramreport report: the summary of a run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "common/message.h"
#include "estimate/paper_config.h"
#include "report.h"

static const char help[] =
    "Usage: vramreport [report] [OPTION]... RUN\n"
    "\n"
    "Where the GPU memory of a run went: its peak and what it consists of, fragmentation,\n"
    "each step, the call stacks that hold the most, and the estimate on paper beside it.\n"
    "Of several processes or GPUs the fullest is shown in detail.\n"
    "\n"
    "      --all             all processes and GPUs in detail, all steps\n"
    "      --top N           call stacks to show (default: 8)\n"
    "      --json            one JSON object (schema vramshim/report/1)\n"
    "  -h, --help            show this text\n"
    "\n"
    "For the estimate (16 bytes a parameter; 2 (19BSH + 3BAS^2) bytes of activations a layer):\n"
    "      --config FILE     the model's config.json: layers, hidden size, heads\n"
    "      --layers L, --hidden H, --heads A\n"
    "                        the same by hand; they win over the file\n"
    "      --batch B         sequences in a batch of one GPU\n"
    "      --seq S           tokens in a sequence\n"
    "      --checkpointing   activations of one layer instead of all\n"
    "      --params N        parameters, 7e9 or 7B (default: counted from the weights)\n"
    "      --param-bytes N   bytes of one weight (default: concluded from the recording)\n";

enum {
	OPTION_ALL = VS_OPTION_FIRST,
	OPTION_TOP,
	OPTION_JSON,
	OPTION_CONFIG,
	OPTION_LAYERS,
	OPTION_HIDDEN,
	OPTION_HEADS,
	OPTION_BATCH,
	OPTION_SEQ,
	OPTION_CHECKPOINTING,
	OPTION_PARAMS,
	OPTION_PARAM_BYTES
};

static const struct option options[] = {
    {"all", no_argument, NULL, OPTION_ALL},
    {"top", required_argument, NULL, OPTION_TOP},
    {"json", no_argument, NULL, OPTION_JSON},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"layers", required_argument, NULL, OPTION_LAYERS},
    {"hidden", required_argument, NULL, OPTION_HIDDEN},
    {"heads", required_argument, NULL, OPTION_HEADS},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"seq", required_argument, NULL, OPTION_SEQ},
    {"checkpointing", no_argument, NULL, OPTION_CHECKPOINTING},
    {"params", required_argument, NULL, OPTION_PARAMS},
    {"param-bytes", required_argument, NULL, OPTION_PARAM_BYTES},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct command_line {
	struct vs_report_options report;
	const char *config;
	bool json, help;
};

/* The numbers among the options: where they go, and what is a typing error. */
static int parse_number(int option, const char *text, struct vs_report_options *report)
{
	struct vs_paper_shape *shape = &report->estimate.shape;
	uint64_t top;
	const struct {
		int option;
		const char *name;
		uint64_t least, most;
		uint64_t *value;
	} numbers[] = {
	    {OPTION_TOP, "--top", 1, 10000, &top},
	    {OPTION_LAYERS, "--layers", 1, 1 << 16, &shape->layers},
	    {OPTION_HIDDEN, "--hidden", 1, 1 << 24, &shape->hidden},
	    {OPTION_HEADS, "--heads", 1, 1 << 20, &shape->heads},
	    {OPTION_BATCH, "--batch", 1, 1 << 24, &shape->batch},
	    {OPTION_SEQ, "--seq", 1, 1 << 30, &shape->sequence},
	    {OPTION_PARAM_BYTES, "--param-bytes", 1, 8, &report->estimate.parameter_bytes},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i].option != option)
			continue;
		int r = vs_option_number(numbers[i].name, text, numbers[i].least, numbers[i].most, numbers[i].value);
		if (r == 0 && option == OPTION_TOP)
			report->top_stacks = top;
		return r;
	}
	return -1;
}

/* "6738415616", "7e9", "1.1B": as people name models. */
static int parse_parameters(const char *text, uint64_t *ret_parameters)
{
	static const struct {
		const char *suffix;
		double factor;
	} suffixes[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		double count = value * suffixes[i].factor;
		/* Digits first: neither "inf" nor " 1". Hexadecimal ends in no suffix of ours but is refused by its
		 * 'x'. */
		if (!strcasecmp(end, suffixes[i].suffix) && text[0] >= '0' && text[0] <= '9' &&
		    !strpbrk(text, "xX") && count >= 1 && count <= 1e15) {
			*ret_parameters = count;
			return 0;
		}
	}
	vs_complain("--params '%s': is a number of parameters: 6738415616, 7e9, 7B", text);
	return -1;
}

static int parse(int argc, char **argv, struct command_line *line)
{
	int option;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_ALL:
			line->report.all = true;
			break;
		case OPTION_JSON:
			line->json = true;
			break;
		case OPTION_CONFIG:
			line->config = optarg;
			break;
		case OPTION_CHECKPOINTING:
			line->report.estimate.checkpointing = true;
			break;
		case OPTION_PARAMS:
			if (parse_parameters(optarg, &line->report.estimate.parameters) < 0)
				return VS_ANSWER_NONE;
			break;
		case 'h':
			line->help = true;
			return VS_ANSWER_YES;
		case '?':
		case ':':
			return vs_option_problem(option, argv);
		default:
			if (parse_number(option, optarg, &line->report) < 0)
				return VS_ANSWER_NONE;
		}
	}
	return VS_ANSWER_YES;
}

/* All sizes of the shape or none. */
static int complete_shape(const struct command_line *line, struct vs_paper_shape *shape)
{
	bool any = line->config || shape->layers || shape->hidden || shape->heads || shape->batch || shape->sequence;
	const struct {
		const char *name;
		uint64_t value;
	} sizes[] = {
	    {"--layers (or --config)", shape->layers},
	    {"--hidden (or --config)", shape->hidden},
	    {"--heads (or --config)", shape->heads},
	    {"--batch", shape->batch},
	    {"--seq", shape->sequence},
	};

	for (size_t i = line->config ? 3 : 0; any && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (!sizes[i].value) {
			vs_complain("report: the activations on paper also need %s", sizes[i].name);
			return -1;
		}
	}
	return line->config ? vs_paper_config_read(line->config, shape) : 0;
}

static void print(const struct vs_subjects *subjects, const struct vs_report_options *report)
{
	struct vs_screen screen = vs_screen_on(stdout);
	const struct vs_subject *subject = NULL;
	const struct vs_device_summary *worst = vs_subjects_worst(subjects, &subject);
	bool several = subjects->count > 1 || subjects->list[0].summary->device_count > 1;

	if (several)
		vs_report_overview(&screen, subjects);
	if (!report->all) {
		if (several)
			fprintf(screen.out, "In detail, the fullest (--all for all):\n\n");
		vs_report_device(&screen, subjects, subject, worst, report);
		return;
	}
	for (size_t i = 0, shown = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++, shown++) {
			if (shown)
				fprintf(screen.out, "\n\n");
			vs_report_device(&screen, subjects, &subjects->list[i], &summary->devices[j], report);
		}
	}
}

int vs_cmd_report(int argc, char **argv)
{
	struct command_line line = {.report.top_stacks = 8};
	const struct vs_subject *subject;
	struct vs_subjects subjects;
	int status = parse(argc, argv, &line);

	if (status != VS_ANSWER_YES)
		return status;
	if (line.help) {
		fputs(help, stdout);
		return VS_ANSWER_YES;
	}
	const char *path = vs_operand_run(argc, argv);
	if (!path || complete_shape(&line, &line.report.estimate.shape) < 0)
		return VS_ANSWER_NONE;
	struct vs_analyse_options analyse = {.top_stacks = line.report.top_stacks};
	if (vs_subjects_open(path, &analyse, &subjects) < 0)
		return VS_ANSWER_NONE;
	if (line.json) {
		struct vs_json json = vs_json_on(stdout);
		vs_report_json(&json, &subjects, &line.report);
	} else if (vs_subjects_worst(&subjects, &subject)) {
		print(&subjects, &line.report);
	} else {
		vs_complain(
		    "%s: holds no GPU memory event: the process took none, has only begun, or its trace is cut",
		    path);
		status = VS_ANSWER_NONE;
	}
	vs_subjects_close(&subjects);
	return status;
}
