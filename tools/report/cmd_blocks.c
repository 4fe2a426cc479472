/* SPDX-License-Identifier: MIT
 *
 * vramreport blocks: what is alive at one instant, block by block.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/csv.h"
#include "common/json.h"
#include "common/message.h"
#include "common/size.h"
#include "common/table.h"
#include "explain.h"
#include "subject.h"

/* Rows people are shown without --all: what is beyond is small. */
#define ROWS 40

static const char help[] =
    "Usage: vramreport blocks [OPTION]... RUN\n"
    "\n"
    "The blocks of PyTorch's allocator that are alive at one instant. Their sizes add up to\n"
    "the allocated bytes of that instant. Of a program without PyTorch: what it has from\n"
    "CUDA, with the library that asked as tag and the kind of memory as detail.\n"
    "\n"
    "      --at INSTANT  peak (default), end, oom, or the name of a mark\n"
    "      --cut         tag them by what was known then, as if the trace ended there\n"
    "      --explain ADDRESS  why the block at that address has its tag: its stack, its life,\n"
    "                    the rules that decided\n"
    "      --all         all blocks, not only the largest\n"
    "      --csv         process,device,address,size,tag,detail,phase,step,stack\n"
    "      --json        one JSON object (schema vramshim/blocks/1)\n"
    "  -h, --help        show this text\n";

enum { OPTION_AT = VS_OPTION_FIRST, OPTION_CUT, OPTION_EXPLAIN, OPTION_ALL, OPTION_CSV, OPTION_JSON };

struct command_line {
	const char *at;
	uint64_t explain; /* 0: no; a block's address otherwise */
	bool cut, all, csv, json;
};

static void csv_block(const struct vs_summary *summary, const struct vs_block *block)
{
	if (!summary->snapshot)
		printf("%" PRIu32, summary->pid);
	printf(",%d,0x%" PRIx64 ",%" PRIu64 ",", block->device, block->address, block->size);
	vs_csv_field(stdout, vs_tag_name(block->tag));
	putchar(',');
	vs_csv_field(stdout, vs_detail_name(block->detail));
	putchar(',');
	vs_csv_field(stdout, vs_phase_name(block->phase));
	printf(",%" PRIu32 ",%" PRIu32 "\n", block->step, block->stack);
}

static void csv_cuda_block(const struct vs_summary *summary, int device, const struct vs_cuda_block *block)
{
	printf("%" PRIu32 ",%d,0x%" PRIx64 ",%" PRIu64 ",", summary->pid, device, block->address, block->size);
	vs_csv_field(stdout, block->library);
	printf(",%s,,,%" PRIu32 "\n", vs_memory_name(block->memory), block->stack);
}

static void csv(const struct vs_subjects *subjects)
{
	puts("process,device,address,size,tag,detail,phase,step,stack");
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			for (size_t k = 0; k < summary->devices[j].block_count; k++)
				csv_block(summary, &summary->devices[j].blocks[k]);
			if (vs_subject_has_pytorch(&subjects->list[i], &summary->devices[j]))
				continue;
			for (size_t k = 0; k < summary->devices[j].cuda_block_count; k++)
				csv_cuda_block(summary, summary->devices[j].index,
				               &summary->devices[j].cuda_blocks[k]);
		}
	}
}

static void json_block(struct vs_json *json, const struct vs_block *block)
{
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, block->address);
	vs_json_object_line(json, NULL);
	vs_json_string(json, "address", address);
	vs_json_unsigned(json, "size", block->size);
	vs_json_string(json, "tag", vs_tag_name(block->tag));
	vs_json_string(json, "detail", vs_detail_name(block->detail));
	vs_json_string(json, "phase", vs_phase_name(block->phase));
	vs_json_unsigned(json, "step", block->step);
	vs_json_unsigned(json, "stack", block->stack);
	vs_json_end(json);
}

static void json_cuda_block(struct vs_json *json, const struct vs_cuda_block *block)
{
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, block->address);
	vs_json_object_line(json, NULL);
	vs_json_string(json, "address", address);
	vs_json_unsigned(json, "size", block->size);
	vs_json_string(json, "tag", block->library);
	vs_json_string(json, "detail", vs_memory_name(block->memory));
	vs_json_null(json, "phase");
	vs_json_null(json, "step");
	vs_json_unsigned(json, "stack", block->stack);
	vs_json_end(json);
}

static void json(const struct vs_subjects *subjects, const char *at)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/blocks/1");
	vs_json_string(&json, "at", at);
	vs_json_array(&json, "processes");
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		vs_json_object(&json, NULL);
		vs_json_pid(&json, summary);
		if (summary->rank >= 0)
			vs_json_signed(&json, "rank", summary->rank);
		else
			vs_json_null(&json, "rank");
		vs_json_array(&json, "devices");
		for (size_t j = 0; j < summary->device_count; j++) {
			vs_json_object(&json, NULL);
			vs_json_signed(&json, "index", summary->devices[j].index);
			vs_json_array(&json, "blocks");
			for (size_t k = 0; k < summary->devices[j].block_count; k++)
				json_block(&json, &summary->devices[j].blocks[k]);
			bool plain = !vs_subject_has_pytorch(&subjects->list[i], &summary->devices[j]);
			for (size_t k = 0; plain && k < summary->devices[j].cuda_block_count; k++)
				json_cuda_block(&json, &summary->devices[j].cuda_blocks[k]);
			vs_json_end(&json);
			vs_json_end(&json);
		}
		vs_json_end(&json);
		vs_json_end(&json);
	}
	vs_json_end(&json);
	vs_json_end(&json);
}

static int larger_first(const void *a, const void *b)
{
	const struct vs_block *left = *(const struct vs_block *const *)a, *right = *(const struct vs_block *const *)b;

	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static void text_device(const struct vs_screen *screen, const struct vs_summary *summary,
                        const struct vs_device_summary *device, const struct command_line *line)
{
	static const enum vs_column kinds[] = {VS_RIGHT, VS_LEFT, VS_LEFT, VS_RIGHT, VS_RIGHT, VS_LEFT};
	const struct vs_block **order = calloc(device->block_count + 1, sizeof(*order));
	struct vs_table *table = vs_table_new("size,tag,allocated in,step,stack,address", kinds);
	char size[VS_SIZE_MAX], count[VS_SIZE_MAX], who[VS_WHO_MAX];
	uint64_t sum = 0, hidden = 0;

	for (size_t i = 0; order && i < device->block_count; i++) {
		order[i] = &device->blocks[i];
		sum += device->blocks[i].size;
	}
	printf("%s%s, GPU %d, at %s: %s blocks, ", vs_screen_style(screen, VS_BOLD), vs_who(summary, who),
	       device->index, line->at, vs_count_format(device->block_count, count));
	printf("%s%s\n", vs_size_format(sum, size), vs_screen_style(screen, VS_PLAIN));
	if (order)
		qsort(order, device->block_count, sizeof(*order), larger_first);
	size_t shown = line->all || device->block_count < ROWS ? device->block_count : ROWS;
	for (size_t i = 0; order && i < device->block_count; i++) {
		const struct vs_block *block = order[i];
		if (i >= shown) {
			hidden += block->size;
			continue;
		}
		vs_table_cell(table, vs_size_format(block->size, size));
		vs_table_cell(table, block->detail ? vs_detail_path(block->detail) : vs_tag_name(block->tag));
		vs_table_cell(table, vs_phase_name(block->phase));
		vs_table_cellf(table, "%" PRIu32, block->step);
		vs_table_cellf(table, "%" PRIu32, block->stack);
		vs_table_cellf(table, "0x%" PRIx64, block->address);
	}
	vs_table_print(table, screen, 2);
	if (shown < device->block_count)
		printf("  and %zu smaller ones, %s (--all or --csv for all)\n", device->block_count - shown,
		       vs_size_format(hidden, size));
	free(order);
}

static int larger_cuda_first(const void *a, const void *b)
{
	const struct vs_cuda_block *left = *(const struct vs_cuda_block *const *)a;
	const struct vs_cuda_block *right = *(const struct vs_cuda_block *const *)b;

	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

/* Without PyTorch: what CUDA gave out. */
static void text_cuda(const struct vs_screen *screen, const struct vs_summary *summary,
                      const struct vs_device_summary *device, const struct command_line *line)
{
	static const enum vs_column kinds[] = {VS_RIGHT, VS_LEFT, VS_LEFT, VS_RIGHT, VS_LEFT};
	const struct vs_cuda_block **order = calloc(device->cuda_block_count + 1, sizeof(*order));
	struct vs_table *table = vs_table_new("size,asked by,memory,stack,address", kinds);
	char size[VS_SIZE_MAX], count[VS_SIZE_MAX], who[VS_WHO_MAX];
	uint64_t sum = 0, hidden = 0;

	for (size_t i = 0; order && i < device->cuda_block_count; i++) {
		order[i] = &device->cuda_blocks[i];
		sum += device->cuda_blocks[i].size;
	}
	printf("%s%s, GPU %d, at %s: %s allocation%s of CUDA's, %s%s\n", vs_screen_style(screen, VS_BOLD),
	       vs_who(summary, who), device->index, line->at, vs_count_format(device->cuda_block_count, count),
	       device->cuda_block_count == 1 ? "" : "s", vs_size_format(sum, size),
	       vs_screen_style(screen, VS_PLAIN));
	if (order)
		qsort(order, device->cuda_block_count, sizeof(*order), larger_cuda_first);
	size_t shown = line->all || device->cuda_block_count < ROWS ? device->cuda_block_count : ROWS;
	for (size_t i = 0; order && i < device->cuda_block_count; i++) {
		if (i >= shown) {
			hidden += order[i]->size;
			continue;
		}
		vs_table_cell(table, vs_size_format(order[i]->size, size));
		vs_table_cell(table, order[i]->library);
		vs_table_cell(table, vs_memory_name(order[i]->memory));
		vs_table_cellf(table, "%" PRIu32, order[i]->stack);
		vs_table_cellf(table, "0x%" PRIx64, order[i]->address);
	}
	vs_table_print(table, screen, 2);
	if (shown < device->cuda_block_count)
		printf("  and %zu smaller ones, %s (--all or --csv for all)\n", device->cuda_block_count - shown,
		       vs_size_format(hidden, size));
	free(order);
}

static void text(const struct vs_subjects *subjects, const struct command_line *line)
{
	struct vs_screen screen = vs_screen_on(stdout);

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			if (vs_subject_has_pytorch(&subjects->list[i], &summary->devices[j]))
				text_device(&screen, summary, &summary->devices[j], line);
			else
				text_cuda(&screen, summary, &summary->devices[j], line);
		}
	}
}

static bool ran_out_of_memory(const struct vs_subjects *subjects)
{
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			if (summary->devices[j].oom_count)
				return true;
		}
	}
	return false;
}

/* As blocks prints it; 0 is nobody's. */
static bool address(const char *text, uint64_t *ret_address)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || !value) {
		vs_complain("--explain %s: an address is expected, like 0x7f0012340000", text);
		return false;
	}
	*ret_address = value;
	return true;
}

int vs_cmd_blocks(int argc, char **argv)
{
	static const struct option options[] = {
	    {"at", required_argument, NULL, OPTION_AT}, {"all", no_argument, NULL, OPTION_ALL},
	    {"cut", no_argument, NULL, OPTION_CUT},     {"explain", required_argument, NULL, OPTION_EXPLAIN},
	    {"csv", no_argument, NULL, OPTION_CSV},     {"json", no_argument, NULL, OPTION_JSON},
	    {"help", no_argument, NULL, 'h'},           {0},
	};
	static const struct {
		const char *name;
		enum vs_blocks_at at;
	} instants[] = {{"peak", VS_BLOCKS_PEAK}, {"end", VS_BLOCKS_END}, {"oom", VS_BLOCKS_OOM}};
	struct command_line line = {.at = "peak"};
	struct vs_subjects subjects;
	int option;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_AT:
			line.at = optarg;
			break;
		case OPTION_CUT:
			line.cut = true;
			break;
		case OPTION_EXPLAIN:
			if (!address(optarg, &line.explain))
				return VS_ANSWER_NONE;
			break;
		case OPTION_ALL:
			line.all = true;
			break;
		case OPTION_CSV:
			line.csv = true;
			break;
		case OPTION_JSON:
			line.json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		default:
			return vs_option_problem(option, argv);
		}
	}
	if (line.csv + line.json + !!line.explain > 1) {
		vs_complain("blocks: --csv, --json and --explain: choose one");
		return VS_ANSWER_NONE;
	}
	const char *path = vs_operand_run(argc, argv);
	if (!path)
		return VS_ANSWER_NONE;
	struct vs_analyse_options analyse = {.blocks_at = VS_BLOCKS_MARK, .mark = line.at};
	for (size_t i = 0; i < sizeof(instants) / sizeof(instants[0]); i++) {
		if (!strcmp(line.at, instants[i].name))
			analyse = (struct vs_analyse_options){.blocks_at = instants[i].at};
	}
	analyse.cut = line.cut;
	if (vs_subjects_open(path, &analyse, &subjects) < 0)
		return VS_ANSWER_NONE;
	int status = VS_ANSWER_YES;
	if (analyse.blocks_at == VS_BLOCKS_OOM && !ran_out_of_memory(&subjects)) {
		vs_complain("--at oom: no such instant: this run did not run out of memory");
		status = VS_ANSWER_NONE;
	} else if (line.explain) {
		if (!vs_explain(&subjects, line.explain, line.at)) {
			vs_complain("--explain 0x%" PRIx64 ": no block lies there at %s: blocks --all lists them",
			            line.explain, line.at);
			status = VS_ANSWER_NONE;
		}
	} else if (line.json) {
		json(&subjects, line.at);
	} else if (line.csv) {
		csv(&subjects);
	} else {
		text(&subjects, &line);
	}
	vs_subjects_close(&subjects);
	return status;
}
