/* SPDX-License-Identifier: MIT
 *
 * vramreport extrapolate: from a few small runs of a job, what a larger batch or a longer sequence will take.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/json.h"
#include "common/message.h"
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"
#include "estimate/estimate.h"
#include "estimate/option.h"
#include "model/gpu.h"
#include "series.h"
#include "sizes.h"

static const char usage[] =
    "usage: vramreport extrapolate RUN@BATCHxSEQ RUN@BATCHxSEQ [RUN@BATCHxSEQ...]\n"
    "                              --batch B --seq S [--gpu NAME] [--json]\n"
    "Two or three small runs of one job, at different batch sizes and sequence lengths, predict\n"
    "a larger one: every block's size is followed over the runs, and the largest run is played\n"
    "again with the new sizes.\n"
    "  RUN@2x512          the run's batch and sequence; without them they are read from its\n"
    "                     command line (--batch, --batch-size, --seq, --seq-len, ...)\n"
    "  --batch B --seq S  what to predict\n"
    "  --gpu NAME         does that fit this card\n"
    "  --json             one JSON object\n"
    "Exit status: 0 predicted (and fits), 1 it does not fit, or the runs cannot support an\n"
    "answer, 2 bad usage or input.\n";

struct recording {
	struct vs_recorded_series recorded;
	struct vs_subjects subjects;
	bool open;
	char path[4096];
};

static int parse_operand(const char *text, struct recording *r)
{
	const char *at = strrchr(text, '@'), *x = at ? strchr(at, 'x') : NULL;
	char batch[32];

	snprintf(r->path, sizeof(r->path), "%.*s", at ? (int)(at - text) : (int)sizeof(r->path) - 1, text);
	if (!at)
		return 0;
	if (!x || (size_t)(x - at) > sizeof(batch)) {
		vs_complain("bad sizes of a run: %s: write RUN@BATCHxSEQ, such as run1@2x512", text);
		return -EINVAL;
	}
	snprintf(batch, sizeof(batch), "%.*s", (int)(x - at - 1), at + 1);
	if (vs_count_parse(batch, &r->recorded.series.batch) || vs_count_parse(x + 1, &r->recorded.series.seq) ||
	    !r->recorded.series.batch || !r->recorded.series.seq || r->recorded.series.batch > 1 << 24 ||
	    r->recorded.series.seq > 1 << 28) {
		vs_complain("bad sizes of a run: %s: write RUN@BATCHxSEQ, such as run1@2x512", text);
		return -EINVAL;
	}
	return 0;
}

static int open_recording(const char *text, struct recording *r)
{
	const struct vs_analyse_options analysis = {.blocks_at = VS_BLOCKS_PEAK};
	const struct vs_device_summary *device;
	const struct vs_subject *subject = NULL;
	struct vramshim_trace *trace;
	int error = parse_operand(text, r);

	if (error)
		return error;
	if (vs_subjects_open(r->path, &analysis, &r->subjects) < 0)
		return -EINVAL;
	r->open = true;
	device = vs_subjects_worst(&r->subjects, &subject);
	if (!device) {
		vs_complain("no GPU memory was used: %s: record a run that trains", r->path);
		return -ENODATA;
	}
	trace = subject->process->trace;
	if (!r->recorded.series.batch)
		vs_sizes_from_command(trace, &r->recorded.series.batch, &r->recorded.series.seq);
	if (!r->recorded.series.batch || !r->recorded.series.seq) {
		vs_complain("unknown batch and sequence: %s: write them, RUN@BATCHxSEQ", r->path);
		return -EINVAL;
	}
	if (vramshim_trace_info(trace)->lost) {
		vs_complain("events were lost: %s: record it again with a larger --max-size", r->path);
		return -ENODATA;
	}
	error = vs_series_read(trace, device, &r->recorded);
	if (error)
		vs_complain("cannot read the run: %s: %s", r->path, strerror(-error));
	return error;
}

struct answer {
	struct vs_extrapolation e;
	uint64_t batch, seq;
	struct vs_gpu_memory gpu;
	bool with_gpu, fits;
	double error; /* expected, a share of the peak */
};

/* The first lines: what somebody came for. */
static void print_answer(const struct vs_screen *screen, const struct answer *a)
{
	char peak[VS_SIZE_MAX], other[VS_SIZE_MAX];
	uint64_t usable = a->gpu.total > a->gpu.context ? a->gpu.total - a->gpu.context : 0;

	vs_size_format(a->e.peak, peak);
	if (a->with_gpu) {
		printf("%s%s%s on %s: ", vs_screen_style(screen, VS_BOLD), a->fits ? "It fits" : "It does not fit",
		       vs_screen_style(screen, VS_PLAIN), a->gpu.name);
		printf("%s at the peak, %s are there.\n", peak, vs_size_format(usable, other));
	}
	vs_screen_text(
	    screen, 2,
	    "Batch %llu, sequence %llu: %s allocated at the peak, give or take %.1f %%; the largest run took %s.",
	    (unsigned long long)a->batch, (unsigned long long)a->seq, peak, 100 * a->error,
	    vs_size_format(a->e.measured, other));
	if (a->with_gpu)
		vs_screen_text(screen, 2, "Card: %s, of which the CUDA context takes %s (assumed).",
		               vs_size_format(a->gpu.total, peak), vs_size_format(a->gpu.context, other));
	puts("Fragmentation comes on top: what the allocator reserves is more than what it hands out.\n");
}

static void print_text(const struct answer *a)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT};
	struct vs_screen screen = vs_screen_on(stdout);
	struct vs_table *table = vs_table_new("at the peak,predicted,fixed,batch x seq,batch x seq^2,other", kinds);
	char text[VS_SIZE_MAX];

	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		const uint64_t *live = a->e.live[tag];
		uint64_t other = live[VS_GROWTH_SEQUENCE] + live[VS_GROWTH_SQUARE] + live[VS_GROWTH_BATCH];
		uint64_t parts[] = {live[VS_GROWTH_FIXED] + live[VS_GROWTH_TOKENS] + live[VS_GROWTH_SCORES] + other,
		                    live[VS_GROWTH_FIXED], live[VS_GROWTH_TOKENS], live[VS_GROWTH_SCORES], other};

		if (!parts[0])
			continue;
		vs_table_cell(table, vs_tag_name(tag));
		for (int i = 0; i < 5; i++)
			vs_table_cell(table, parts[i] ? vs_size_format(parts[i], text) : "-");
	}
	print_answer(&screen, a);
	vs_table_print(table, &screen, 2);
	printf("  %.2f %% of the largest run's allocations were found in every run", 100 * a->e.matched);
	if (a->e.unsure)
		printf("; the growth of %s is not settled by these runs", vs_size_format(a->e.unsure, text));
	putchar('\n');
}

static void print_json(const struct answer *a)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/extrapolate/1");
	vs_json_unsigned(&json, "batch", a->batch);
	vs_json_unsigned(&json, "seq", a->seq);
	vs_json_array(&json, "rows");
	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		const uint64_t *live = a->e.live[tag];
		uint64_t other = live[VS_GROWTH_SEQUENCE] + live[VS_GROWTH_SQUARE] + live[VS_GROWTH_BATCH];
		uint64_t sum = live[VS_GROWTH_FIXED] + live[VS_GROWTH_TOKENS] + live[VS_GROWTH_SCORES] + other;

		if (!sum)
			continue;
		vs_json_object_line(&json, NULL);
		vs_json_string(&json, "category", vs_tag_name(tag));
		vs_json_unsigned(&json, "predicted_bytes", sum);
		vs_json_unsigned(&json, "fixed_bytes", live[VS_GROWTH_FIXED]);
		vs_json_unsigned(&json, "linear_bytes", live[VS_GROWTH_TOKENS]);
		vs_json_unsigned(&json, "quadratic_bytes", live[VS_GROWTH_SCORES]);
		vs_json_unsigned(&json, "other_bytes", other);
		vs_json_end(&json);
	}
	vs_json_end(&json);
	vs_json_object_line(&json, "peak");
	vs_json_unsigned(&json, "predicted_bytes", a->e.peak);
	vs_json_unsigned(&json, "largest_run_bytes", a->e.measured);
	vs_json_end(&json);
	vs_json_number(&json, "expected_error", a->error);
	vs_json_number(&json, "matched", a->e.matched);
	vs_json_unsigned(&json, "unsure_bytes", a->e.unsure);
	if (a->with_gpu)
		vs_json_bool(&json, "fits", a->fits);
	else
		vs_json_null(&json, "fits");
	vs_json_end(&json);
}

static int extrapolate(const struct recording *recordings, size_t count, struct answer *a, bool json)
{
	struct vs_series runs[VS_SERIES_MAX];
	const char *why = "";
	int error;

	for (size_t i = 0; i < count; i++)
		runs[i] = recordings[i].recorded.series;
	error = vs_extrapolate(runs, count, a->batch, a->seq, &a->e, &why);
	if (error == -ENODATA || error == -ESRCH) {
		vs_complain("the runs cannot support an answer: extrapolate: %s", why);
		return VS_ANSWER_NO;
	}
	if (error) {
		vs_complain("cannot extrapolate: extrapolate: %s", strerror(-error));
		return VS_ANSWER_NONE;
	}
	a->error = a->e.peak ? (double)(a->e.residual + a->e.unsure) / (double)a->e.peak : 0;
	a->fits = !a->with_gpu || a->e.peak + a->gpu.context <= a->gpu.total;
	if (json)
		print_json(a);
	else
		print_text(a);
	return a->fits ? VS_ANSWER_YES : VS_ANSWER_NO;
}

int vs_extrapolate_main(int argc, char **argv)
{
	struct recording *recordings;
	const char *operands[VS_SERIES_MAX], *gpu = NULL;
	struct answer a = {0};
	bool json = false;
	struct vs_option options[] = {
	    {"--batch", VS_OPTION_COUNT, &a.batch, 1 << 24},
	    {"--seq", VS_OPTION_COUNT, &a.seq, 1 << 28},
	    {"--gpu", VS_OPTION_TEXT, &gpu},
	    {"--json", VS_OPTION_FLAG, &json},
	};
	int found = vs_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), operands,
	                             VS_SERIES_MAX, usage);
	int status = VS_ANSWER_NONE;

	if (found < 0)
		return found == -ECANCELED ? VS_ANSWER_YES : VS_ANSWER_NONE;
	if (found < 2 || !a.batch || !a.seq) {
		vs_complain("too little to go on: extrapolate: give two runs or more, --batch and --seq, see --help");
		return VS_ANSWER_NONE;
	}
	if (gpu && vs_gpu_memory_find(gpu, &a.gpu)) {
		vs_complain("unknown GPU: %s: see vramrun --list-gpus", gpu);
		return VS_ANSWER_NONE;
	}
	a.with_gpu = gpu != NULL;
	recordings = calloc((size_t)found, sizeof(*recordings));
	if (!recordings)
		return VS_ANSWER_NONE;
	for (int i = 0; i < found; i++) {
		if (open_recording(operands[i], &recordings[i]))
			goto out;
	}
	status = extrapolate(recordings, (size_t)found, &a, json);
out:
	for (int i = 0; i < found; i++) {
		if (recordings[i].open)
			vs_subjects_close(&recordings[i].subjects);
		vs_series_release(&recordings[i].recorded);
	}
	free(recordings);
	return status;
}
