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
    "the allocated bytes of that instant. Of a program without PyTorch, or that uses another\n"
    "allocator with it: what it has from CUDA, with the library that asked as tag and the\n"
    "kind of memory as detail.\n"
    "\n"
    "      --at INSTANT  peak (default), end, oom (also where CUDA refused a library or a\n"
    "                    program without PyTorch), or the name of a mark\n"
    "      --cuda        what every library has from CUDA, PyTorch's allocator among them\n"
    "      --cut         tag them by what was known then, as if the trace ended there\n"
    "      --explain ADDRESS  why the block at that address has its tag: its stack, its life,\n"
    "                    the rules that decided\n"
    "      --all         all blocks, not only the largest\n"
    "      --csv         process,device,address,size,tag,detail,phase,step,stack\n"
    "      --json        one JSON object (schema vramshim/blocks/1)\n"
    "  -h, --help        show this text\n";

enum { OPTION_AT = VS_OPTION_FIRST, OPTION_CUDA, OPTION_CUT, OPTION_EXPLAIN, OPTION_ALL, OPTION_CSV, OPTION_JSON };

struct command_line {
	const char *at;
	uint64_t explain; /* 0: no; a block's address otherwise */
	bool cuda, cut, all, csv, json;
};

/* One line, of PyTorch's allocator or of CUDA's where there is no PyTorch. */
struct row {
	uint64_t address, size;
	const char *tag, *detail;
	const char
	    *path; /* tag and detail in one; NULL where these are the library that asked and the kind of memory */
	const char *phase; /* NULL: neither phase nor step */
	uint32_t step, stack;
};

static struct row pytorch_row(const struct vs_block *block)
{
	return (struct row){
	    .address = block->address,
	    .size = block->size,
	    .tag = vs_tag_name(block->tag),
	    .detail = vs_detail_name(block->detail),
	    .path = block->detail ? vs_detail_path(block->detail) : vs_tag_name(block->tag),
	    .phase = vs_phase_name(block->phase),
	    .step = block->step,
	    .stack = block->stack,
	};
}

static struct row cuda_row(const struct vs_cuda_block *block)
{
	return (struct row){
	    .address = block->address,
	    .size = block->size,
	    .tag = block->library,
	    .detail = vs_memory_name(block->memory),
	    .stack = block->stack,
	};
}

/* The rows of one device of a subject. */
struct rows {
	const struct vs_device_summary *device;
	bool pytorch;
	size_t count;
};

static struct rows rows_of(const struct vs_subject *subject, size_t device, bool cuda)
{
	struct rows rows = {.device = &subject->summary->devices[device]};

	/* Where its allocator gave out nothing, another one of the job's did. */
	rows.pytorch = subject->summary->snapshot || (!cuda && rows.device->allocations);
	rows.count = rows.pytorch ? rows.device->block_count : rows.device->cuda_block_count;
	return rows;
}

static struct row row_at(const struct rows *rows, size_t i)
{
	return rows->pytorch ? pytorch_row(&rows->device->blocks[i]) : cuda_row(&rows->device->cuda_blocks[i]);
}

static void csv_row(const struct vs_summary *summary, int device, const struct row *row)
{
	if (!summary->snapshot)
		printf("%" PRIu32, summary->pid);
	printf(",%d,0x%" PRIx64 ",%" PRIu64 ",", device, row->address, row->size);
	vs_csv_field(stdout, row->tag);
	putchar(',');
	vs_csv_field(stdout, row->detail);
	putchar(',');
	if (row->phase) {
		vs_csv_field(stdout, row->phase);
		printf(",%" PRIu32, row->step);
	} else {
		putchar(',');
	}
	printf(",%" PRIu32 "\n", row->stack);
}

static void csv(const struct vs_subjects *subjects, bool cuda)
{
	puts("process,device,address,size,tag,detail,phase,step,stack");
	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			struct rows rows = rows_of(&subjects->list[i], j, cuda);
			for (size_t k = 0; k < rows.count; k++) {
				struct row row = row_at(&rows, k);
				csv_row(summary, rows.device->index, &row);
			}
		}
	}
}

static void json_row(struct vs_json *json, const struct row *row)
{
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, row->address);
	vs_json_object_line(json, NULL);
	vs_json_string(json, "address", address);
	vs_json_unsigned(json, "size", row->size);
	vs_json_string(json, "tag", row->tag);
	vs_json_string(json, "detail", row->detail);
	vs_json_string(json, "phase", row->phase);
	vs_json_unsigned_if(json, "step", row->phase, row->step);
	vs_json_unsigned(json, "stack", row->stack);
	vs_json_end(json);
}

static void json(const struct vs_subjects *subjects, const char *at, bool cuda)
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
			struct rows rows = rows_of(&subjects->list[i], j, cuda);
			vs_json_object(&json, NULL);
			vs_json_signed(&json, "index", rows.device->index);
			vs_json_array(&json, "blocks");
			for (size_t k = 0; k < rows.count; k++) {
				struct row row = row_at(&rows, k);
				json_row(&json, &row);
			}
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
	const struct row *left = a, *right = b;

	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static struct vs_table *table_of(const struct rows *rows)
{
	static const enum vs_column pytorch[] = {VS_RIGHT, VS_LEFT, VS_LEFT, VS_RIGHT, VS_RIGHT, VS_LEFT};
	static const enum vs_column cuda[] = {VS_RIGHT, VS_LEFT, VS_LEFT, VS_RIGHT, VS_LEFT};

	return rows->pytorch ? vs_table_new("size,tag,allocated in,step,stack,address", pytorch)
	                     : vs_table_new("size,asked by,memory,stack,address", cuda);
}

static void text_row(struct vs_table *table, const struct row *row)
{
	char size[VS_SIZE_MAX];

	vs_table_cell(table, vs_size_format(row->size, size));
	if (row->path) {
		vs_table_cell(table, row->path);
		vs_table_cell(table, row->phase);
		vs_table_cellf(table, "%" PRIu32, row->step);
	} else {
		vs_table_cell(table, row->tag);
		vs_table_cell(table, row->detail);
	}
	vs_table_cellf(table, "%" PRIu32, row->stack);
	vs_table_cellf(table, "0x%" PRIx64, row->address);
}

static void text_device(const struct vs_screen *screen, const struct vs_summary *summary, const struct rows *rows,
                        const struct command_line *line)
{
	struct row *order = calloc(rows->count + 1, sizeof(*order));
	struct vs_table *table = table_of(rows);
	char size[VS_SIZE_MAX], count[VS_SIZE_MAX], who[VS_WHO_MAX];
	const char *what = rows->pytorch      ? "blocks"
	                   : rows->count == 1 ? "allocation of CUDA's"
	                                      : "allocations of CUDA's";
	uint64_t sum = 0, hidden = 0;

	for (size_t i = 0; order && i < rows->count; i++) {
		order[i] = row_at(rows, i);
		sum += order[i].size;
	}
	printf("%s%s, GPU %d, at %s: %s %s, ", vs_screen_style(screen, VS_BOLD), vs_who(summary, who),
	       rows->device->index, line->at, vs_count_format(rows->count, count), what);
	printf("%s%s\n", vs_size_format(sum, size), vs_screen_style(screen, VS_PLAIN));
	if (order)
		qsort(order, rows->count, sizeof(*order), larger_first);
	size_t shown = line->all || rows->count < ROWS ? rows->count : ROWS;
	for (size_t i = 0; order && i < rows->count; i++) {
		if (i < shown)
			text_row(table, &order[i]);
		else
			hidden += order[i].size;
	}
	vs_table_print(table, screen, 2);
	if (shown < rows->count)
		printf("  and %zu smaller ones, %s (--all or --csv for all)\n", rows->count - shown,
		       vs_size_format(hidden, size));
	free(order);
}

static void text(const struct vs_subjects *subjects, const struct command_line *line)
{
	struct vs_screen screen = vs_screen_on(stdout);
	bool cuda = line->cuda;

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_summary *summary = subjects->list[i].summary;
		for (size_t j = 0; j < summary->device_count; j++) {
			struct rows rows = rows_of(&subjects->list[i], j, cuda);
			text_device(&screen, summary, &rows, line);
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
		if (subjects->list[i].refusal.sequence)
			return true;
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
	    {"at", required_argument, NULL, OPTION_AT},
	    {"all", no_argument, NULL, OPTION_ALL},
	    {"cuda", no_argument, NULL, OPTION_CUDA},
	    {"cut", no_argument, NULL, OPTION_CUT},
	    {"explain", required_argument, NULL, OPTION_EXPLAIN},
	    {"csv", no_argument, NULL, OPTION_CSV},
	    {"json", no_argument, NULL, OPTION_JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
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
		case OPTION_CUDA:
			line.cuda = true;
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
		json(&subjects, line.at, line.cuda);
	} else if (line.csv) {
		csv(&subjects, line.cuda);
	} else {
		text(&subjects, &line);
	}
	vs_subjects_close(&subjects);
	return status;
}
