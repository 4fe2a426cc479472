/* SPDX-License-Identifier: MIT
 *
 * vramreport compare: the estimate on paper and the refined one beside what a run really took, category by category.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/json.h"
#include "common/message.h"
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"
#include "dtype.h"
#include "estimate/estimate.h"
#include "estimate/rows.h"
#include "model/preset.h"
#include "sizes.h"

static const char usage_head[] =
    "usage: vramreport compare RUN [MODEL] [JOB] [--json]\n"
    "The paper estimate and the refined one beside what was measured, with the reason of each gap. What the "
    "recording\n"
    "tells (parameters, their type, optimizer, checkpointing) is inferred and shown; flags win over it.\n";

#define ASSUMED " (assumed)"

/* What was concluded from the recording instead of said by a flag. */
struct inferred {
	bool parameters, precision, optimizer, checkpointing, model;
	const char *batch, *seq; /* where from, in words; "": a flag says it */
	uint64_t count;
	uint64_t layers; /* 0: the recording does not tell */
	struct vs_dtype dtype;
};

struct comparison {
	const struct vs_device_summary *device;
	struct inferred inferred;
	struct vs_article_estimate paper;
	struct vs_forecast forecast;
	bool refined; /* the model is known: there is a forecast */
	struct vs_row rows[VS_TAG_COUNT];
	size_t row_count;
};

/* Between optimizer steps, the largest optimizer share any point of the recording shows. */
static uint64_t optimizer_bytes(const struct vs_device_summary *d)
{
	uint64_t most = d->peak.tags[VS_TAG_OPTIMIZER];

	if (d->end.tags[VS_TAG_OPTIMIZER] > most)
		most = d->end.tags[VS_TAG_OPTIMIZER];
	for (size_t i = 0; i < d->step_count; i++) {
		if (d->steps[i].tags[VS_TAG_OPTIMIZER] > most)
			most = d->steps[i].tags[VS_TAG_OPTIMIZER];
	}
	return most;
}

static bool recomputes(const struct vs_device_summary *d)
{
	bool seen = d->peak.details[VS_DETAIL_ACTIVATIONS_RECOMPUTED] > 0;

	for (size_t i = 0; i < d->step_count; i++)
		seen |= d->steps[i].details[VS_DETAIL_ACTIVATIONS_RECOMPUTED] > 0;
	for (size_t i = 0; i < d->stack_count; i++)
		seen |= d->stacks[i].detail == VS_DETAIL_ACTIVATIONS_RECOMPUTED;
	return seen;
}

/* Bytes of optimizer state a parameter, to the regime it belongs to. */
static void infer_regime(struct vs_request *r, const struct vs_option *options, size_t count, struct comparison *c)
{
	double per = (double)optimizer_bytes(c->device) / (double)(c->inferred.count ? c->inferred.count : 1);
	unsigned bytes = c->inferred.dtype.bytes;

	if (!vs_option_given(options, count, "--precision")) {
		c->inferred.precision = true;
		r->precision = bytes >= 4 ? VS_PRECISION_FP32 : per > 9 ? VS_PRECISION_MASTER16 : VS_PRECISION_PURE16;
	}
	if (!vs_option_given(options, count, "--optimizer")) {
		double master = bytes < 4 && per > 5 ? 4 : 0, states = per - master;
		double unit = master > 0 ? 4 : bytes;

		c->inferred.optimizer = true;
		if (states < 0.25)
			r->optimizer = VS_OPTIMIZER_SGD;
		else if (states > 1.9 && states < 2.2 && bytes >= 4)
			r->optimizer = VS_OPTIMIZER_ADAMW_8BIT;
		else
			r->optimizer = states < 1.5 * unit ? VS_OPTIMIZER_MOMENTUM : VS_OPTIMIZER_ADAMW;
	}
	if (!vs_option_given(options, count, "--checkpointing")) {
		c->inferred.checkpointing = true;
		r->checkpointing = recomputes(c->device) ? VS_CHECKPOINTING_FULL : VS_CHECKPOINTING_NONE;
	}
}

/* A preset with just this many parameters. Blocks are multiples of 512 bytes, so small tensors count a little more.
 */
static const char *preset_of(uint64_t parameters)
{
	struct vs_shape shape;
	const char *name;

	for (size_t i = 0; (name = vs_preset_at(i, &shape)); i++) {
		double ratio = (double)parameters / (double)vs_shape_count(&shape);

		if (ratio >= 1 && ratio < 1.0005)
			return name;
	}
	return NULL;
}

/* A layer's module makes each of its weights at one place of the program, as often as there are layers: the number
 * that at least this many places agree on, if they make most of the weights. */
#define PLACES_LEAST 4

static int by_stack(const void *a, const void *b)
{
	const struct vs_block *x = a, *y = b;

	return (x->stack > y->stack) - (x->stack < y->stack);
}

static uint64_t layers_of(const struct vs_device_summary *d)
{
	struct vs_block *weights = calloc(d->block_count + 1, sizeof(*weights));
	uint64_t bytes = 0, best = 0;
	size_t count = 0;

	for (size_t i = 0; weights && i < d->block_count; i++) {
		if (d->blocks[i].tag == VS_TAG_WEIGHTS && d->blocks[i].stack)
			weights[count++] = d->blocks[i];
	}
	if (count)
		qsort(weights, count, sizeof(*weights), by_stack);
	for (size_t i = 0; i < count; i++)
		bytes += weights[i].size;
	for (uint64_t times = 2; times <= count / PLACES_LEAST && !best; times++) {
		uint64_t places = 0, held = 0;

		for (size_t i = 0, next; i < count; i = next) {
			uint64_t size = 0;

			for (next = i; next < count && weights[next].stack == weights[i].stack; next++)
				size += weights[next].size;
			if (next - i == times) {
				places++;
				held += size;
			}
		}
		if (places >= PLACES_LEAST && held > bytes / 2)
			best = times;
	}
	free(weights);
	return best;
}

static void infer_sizes(struct vs_request *r, const struct vs_option *options, size_t count,
                        const struct vs_subject *subject, struct comparison *c)
{
	uint64_t batch = 0, seq = 0;

	vs_sizes_from_command(subject->process->trace, &batch, &seq);
	c->inferred.batch = c->inferred.seq = "";
	if (!vs_option_given(options, count, "--batch")) {
		c->inferred.batch = batch ? " (inferred: the command line)" : ASSUMED;
		r->batch = batch ? batch : r->batch;
	}
	if (!vs_option_given(options, count, "--seq")) {
		c->inferred.seq = seq ? " (inferred: the command line)" : ASSUMED;
		r->seq = seq ? seq : r->seq;
	}
	c->inferred.layers = layers_of(c->device);
}

static int infer(struct vs_request *r, const struct vs_option *options, size_t count,
                 const struct vs_subject *subject, struct comparison *c)
{
	const struct vs_point *peak = &c->device->peak;
	uint64_t weights = peak->tags[VS_TAG_WEIGHTS] - peak->details[VS_DETAIL_WEIGHTS_GATHERED];

	c->inferred.dtype = vs_dtype_conclude(subject, c->device);
	c->inferred.count = weights / c->inferred.dtype.bytes;
	infer_regime(r, options, count, c);
	if (!r->config && !r->preset && !r->layers && !r->hidden) {
		r->preset = preset_of(c->inferred.count);
		c->inferred.model = r->preset != NULL;
	}
	if (!r->config && !r->preset && !r->layers && !r->parameters) {
		c->inferred.parameters = true;
		r->parameters = c->inferred.count;
		if (!r->parameters) {
			vs_complain("no weights in the recording: compare: give --config, --preset or --parameters");
			return -ENODATA;
		}
	}
	infer_sizes(r, options, count, subject, c);
	return 0;
}

/* Why measured and refined differ, by the class of the gap. */
static const char *measured_reason(const struct vs_row *row)
{
	double gap = (double)row->measured - (double)row->refined;

	if (row->tag == VS_TAG_OUTPUTS && row->measured > row->refined + (1 << 20))
		return "held output: a variable keeps what the forward returned";
	if (fabs(gap) <= 0.02 * (double)row->measured || fabs(gap) < 4 << 20)
		return "";
	switch (row->tag) {
	case VS_TAG_WEIGHTS:
	case VS_TAG_GRADIENTS:
	case VS_TAG_OPTIMIZER:
		return "regime: another type, optimizer or instant than assumed";
	case VS_TAG_COMMUNICATION:
	case VS_TAG_WORKSPACE:
		return "buffer of a library";
	default:
		return "op saved differently: other kernels or sizes than assumed";
	}
}

static void article_rows(struct comparison *c)
{
	const uint64_t on_paper[VS_TAG_COUNT] = {
	    [VS_TAG_WEIGHTS] = c->paper.weights,
	    [VS_TAG_GRADIENTS] = c->paper.gradients,
	    [VS_TAG_OPTIMIZER] = c->paper.master + c->paper.states,
	    [VS_TAG_ACTIVATIONS] = c->paper.activations,
	};

	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		uint64_t measured = c->device->peak.tags[tag];
		const struct vs_peak *peak = &c->forecast.instants[c->forecast.winner];
		struct vs_row *row = &c->rows[c->row_count];

		if (!measured && !on_paper[tag] && !(c->refined && peak->live[tag]))
			continue;
		*row = (struct vs_row){.tag = tag, .paper = on_paper[tag], .refined = peak->live[tag], .reason = ""};
		row->measured = measured;
		c->row_count++;
	}
}

static int make(struct vs_request *r, struct comparison *c)
{
	struct vs_article_model model = vs_request_article(r);
	struct vs_row refined[VS_TAG_COUNT];
	size_t count = 0;
	int error;

	if (!r->shaped)
		model.layers = 0;
	error = vs_article_estimate(VS_ARTICLE_SCORES, vs_request_regime(&r->job), &model, &c->paper);
	if (!error && r->shaped) {
		error = vs_forecast_job(&r->job, NULL, &c->forecast);
		c->refined = !error;
	}
	if (error)
		return error;
	article_rows(c);
	if (c->refined)
		count = vs_rows_make(&r->job, &c->paper, &c->forecast, refined);
	for (size_t i = 0; i < c->row_count; i++) {
		struct vs_row *row = &c->rows[i];

		if (c->refined)
			row->reason = measured_reason(row);
		for (size_t k = 0; k < count && !*row->reason; k++) {
			if (refined[k].tag == row->tag)
				row->reason = refined[k].reason;
		}
	}
	return 0;
}

static double off(uint64_t estimate, uint64_t measured)
{
	return measured ? 100 * ((double)estimate / (double)measured - 1) : 0;
}

static void verdict(const struct comparison *c, char *text, size_t size)
{
	uint64_t measured = c->device->peak.allocated, paper = c->paper.total;
	char a[VS_SIZE_MAX], b[VS_SIZE_MAX];
	double percent = off(paper, measured);
	const char *safe = percent < 0    ? "is not safe for this job: it is too low"
	                   : percent > 25 ? "is safe for this job, but wasteful"
	                                  : "is safe for this job";

	snprintf(text, size, "The paper estimate %s: %s on paper, %s measured, off by %+.0f %%.", safe,
	         vs_size_format(paper, a), vs_size_format(measured, b), percent);
	if (c->refined)
		snprintf(text + strlen(text), size - strlen(text), " The refined one is off by %+.1f %%.",
		         off(vs_forecast_peak(&c->forecast), measured));
}

static void print_inferred(const struct vs_request *r, const struct comparison *c)
{
	char count[VS_SIZE_MAX];

	printf("%s: %s parameters%s\n", c->inferred.parameters ? "model unknown" : r->name,
	       vs_count_format(r->shaped ? vs_shape_count(&r->job.shape) : r->parameters, count),
	       c->inferred.model        ? " (inferred: a preset of that size)"
	       : c->inferred.parameters ? " (inferred from the weights)"
	                                : "");
	printf("  weights of %u bytes (%s%s)\n", c->inferred.dtype.bytes,
	       c->inferred.dtype.assumed ? "assumed: " : "",
	       c->inferred.dtype.basis ? c->inferred.dtype.basis : "recorded");
	printf("  precision %s%s, optimizer %s%s, checkpointing %s%s", vs_precision_names[r->job.precision],
	       c->inferred.precision ? " (inferred)" : "", vs_optimizer_names[r->job.optimizer],
	       c->inferred.optimizer ? " (inferred)" : "", vs_checkpointing_names[r->job.checkpointing],
	       c->inferred.checkpointing ? " (inferred)" : "");
	if (r->shaped)
		printf(", batch %llu%s, sequence %llu%s", (unsigned long long)r->job.batch, c->inferred.batch,
		       (unsigned long long)r->job.seq, c->inferred.seq);
	putchar('\n');
	if (c->inferred.layers)
		printf("  %llu layers (inferred: most weights are made in as many at each place)\n",
		       (unsigned long long)c->inferred.layers);
	if (!r->shaped)
		puts("  Activations and the refined column need the model: give --config or --preset, --batch and "
		     "--seq.");
}

static void sized(struct vs_table *table, uint64_t bytes, bool known)
{
	char text[VS_SIZE_MAX];

	vs_table_cell(table, !known ? "?" : bytes ? vs_size_format(bytes, text) : "-");
}

static void print_text(const struct vs_request *r, const struct comparison *c)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT};
	struct vs_screen screen = vs_screen_on(stdout);
	struct vs_table *table = vs_table_new("at the peak,paper,refined,measured,measured - refined", kinds);
	const struct vs_point *peak = &c->device->peak;
	char text[512];

	print_inferred(r, c);
	putchar('\n');
	for (size_t i = 0; i < c->row_count; i++) {
		const struct vs_row *row = &c->rows[i];

		vs_table_cell(table, vs_tag_name(row->tag));
		sized(table, row->paper, row->tag != VS_TAG_ACTIVATIONS || r->shaped);
		sized(table, row->refined, c->refined);
		sized(table, row->measured, true);
		vs_table_cell(table,
		              c->refined ? vs_size_format_signed((int64_t)(row->measured - row->refined), text) : "");
	}
	vs_table_cell(table, "allocated");
	sized(table, c->paper.total, true);
	sized(table, vs_forecast_peak(&c->forecast), c->refined);
	sized(table, peak->allocated, true);
	vs_table_cell(table, c->refined ? vs_size_format_signed(
	                                      (int64_t)(peak->allocated - vs_forecast_peak(&c->forecast)), text)
	                                : "");
	vs_table_style(table, VS_BOLD);
	vs_table_cell(table, "fragmentation");
	sized(table, 0, true);
	sized(table, 0, true);
	sized(table, peak->reserved > peak->allocated ? peak->reserved - peak->allocated : 0, true);
	vs_table_cell(table, "");
	vs_table_cell(table, "outside PyTorch");
	sized(table, 0, true);
	sized(table, 0, true);
	sized(table, peak->device > peak->reserved ? peak->device - peak->reserved : 0, true);
	vs_table_cell(table, "");
	vs_table_print(table, &screen, 2);
	printf("  Measured in: %s, step %u.", vs_phase_name(peak->phase), peak->step);
	if (c->refined)
		printf(" Estimated at: %s.", vs_instant_name(c->forecast.winner));
	puts("\n  Why:");
	for (size_t i = 0; i < c->row_count; i++) {
		if (*c->rows[i].reason)
			vs_screen_text(&screen, 6, "    %s: %s", vs_tag_name(c->rows[i].tag), c->rows[i].reason);
	}
	puts("    fragmentation, outside PyTorch: not on paper; the allocator's segments, the CUDA context, "
	     "libraries");
	putchar('\n');
	verdict(c, text, sizeof(text));
	vs_screen_text(&screen, 0, "%s", text);
}

static void size_or_null(struct vs_json *json, const char *key, uint64_t bytes, bool known)
{
	if (known)
		vs_json_unsigned(json, key, bytes);
	else
		vs_json_null(json, key);
}

static void model_json(struct vs_json *json, const struct vs_request *r, const struct comparison *c)
{
	bool assumed = !strcmp(c->inferred.batch, ASSUMED) || !strcmp(c->inferred.seq, ASSUMED);

	vs_json_object(json, "model");
	vs_json_string(json, "name", c->inferred.parameters ? "" : r->name);
	vs_json_unsigned(json, "parameters", r->shaped ? vs_shape_count(&r->job.shape) : r->parameters);
	vs_json_string(json, "precision", vs_precision_names[r->job.precision]);
	vs_json_string(json, "optimizer", vs_optimizer_names[r->job.optimizer]);
	vs_json_string(json, "checkpointing", vs_checkpointing_names[r->job.checkpointing]);
	vs_json_unsigned(json, "batch", r->job.batch);
	vs_json_unsigned(json, "seq", r->job.seq);
	vs_json_object_line(json, "inferred");
	vs_json_bool(json, "model", c->inferred.model || c->inferred.parameters);
	vs_json_bool(json, "precision", c->inferred.precision);
	vs_json_bool(json, "optimizer", c->inferred.optimizer);
	vs_json_bool(json, "checkpointing", c->inferred.checkpointing);
	vs_json_bool(json, "sizes_assumed", assumed);
	size_or_null(json, "layers", c->inferred.layers, c->inferred.layers > 0);
	vs_json_end(json);
	vs_json_end(json);
}

static void rows_json(struct vs_json *json, const struct comparison *c)
{
	vs_json_array(json, "rows");
	for (size_t i = 0; i < c->row_count; i++) {
		const struct vs_row *row = &c->rows[i];

		vs_json_object_line(json, NULL);
		vs_json_string(json, "category", vs_tag_name(row->tag));
		vs_json_unsigned(json, "paper_bytes", row->paper);
		size_or_null(json, "refined_bytes", row->refined, c->refined);
		vs_json_unsigned(json, "measured_bytes", row->measured);
		vs_json_string(json, "reason", row->reason);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static uint64_t above(uint64_t more, uint64_t less)
{
	return more > less ? more - less : 0;
}

static void print_json(const struct vs_request *r, const struct comparison *c)
{
	struct vs_json json = vs_json_on(stdout);
	const struct vs_point *peak = &c->device->peak;
	char text[512];

	verdict(c, text, sizeof(text));
	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/compare/1");
	model_json(&json, r, c);
	rows_json(&json, c);
	vs_json_object(&json, "peak");
	vs_json_unsigned(&json, "paper_bytes", c->paper.total);
	size_or_null(&json, "refined_bytes", vs_forecast_peak(&c->forecast), c->refined);
	vs_json_unsigned(&json, "measured_bytes", peak->allocated);
	vs_json_string(&json, "instant", c->refined ? vs_instant_name(c->forecast.winner) : NULL);
	vs_json_string(&json, "phase", vs_phase_name(peak->phase));
	vs_json_end(&json);
	vs_json_unsigned(&json, "fragmentation_bytes", above(peak->reserved, peak->allocated));
	vs_json_unsigned(&json, "outside_pytorch_bytes", above(peak->device, peak->reserved));
	vs_json_bool(&json, "fits", !c->device->total || c->device->max_device <= c->device->total);
	vs_json_unsigned(&json, "gpus_needed", 1);
	vs_json_string(&json, "verdict", text);
	vs_json_end(&json);
}

static int compare(struct vs_request *r, const struct vs_option *options, size_t count,
                   const struct vs_subjects *subjects, bool json)
{
	struct comparison c = {0};
	const struct vs_subject *subject = NULL;
	struct vs_gpu_memory gpu;
	int error;

	c.device = vs_subjects_worst(subjects, &subject);
	if (!c.device) {
		vs_complain("no GPU memory was used: compare: record a run that trains");
		return VS_ANSWER_NONE;
	}
	if (infer(r, options, count, subject, &c) || vs_request_resolve(r, options, count))
		return VS_ANSWER_NONE;
	if (!vs_gpu_memory_find(c.device->name, &gpu))
		vs_job_on(&r->job, &gpu);
	error = make(r, &c);
	if (error) {
		vs_complain("cannot estimate this job: %s: %s", r->name, strerror(-error));
		return VS_ANSWER_NONE;
	}
	if (json)
		print_json(r, &c);
	else
		print_text(r, &c);
	return VS_ANSWER_YES;
}

int vs_compare_main(int argc, char **argv)
{
	struct vs_request r;
	struct vs_subjects subjects;
	const struct vs_analyse_options analysis = {.blocks_at = VS_BLOCKS_PEAK};
	struct vs_option options[VS_REQUEST_OPTIONS + 3];
	const char *run = NULL;
	char usage[sizeof(usage_head) + 4096];
	bool json = false;
	const struct vs_option own[] = {
	    {"--gpu", VS_OPTION_TEXT, &r.gpu_name},
	    {"--gpu-memory", VS_OPTION_SIZE, &r.memory},
	    {"--json", VS_OPTION_FLAG, &json},
	};
	size_t count = VS_REQUEST_OPTIONS + sizeof(own) / sizeof(own[0]);
	int found, status;

	vs_request_init(&r);
	vs_request_options(&r, options);
	memcpy(options + VS_REQUEST_OPTIONS, own, sizeof(own));
	snprintf(usage, sizeof(usage), "%s%s", usage_head, vs_request_usage);
	found = vs_options_parse(argc, argv, options, count, &run, 1, usage);
	if (found < 0)
		return found == -ECANCELED ? VS_ANSWER_YES : VS_ANSWER_NONE;
	if (!found) {
		vs_complain("no RUN given: compare: give the folder that vramrun wrote");
		return VS_ANSWER_NONE;
	}
	if (vs_subjects_open(run, &analysis, &subjects) < 0)
		return VS_ANSWER_NONE;
	status = compare(&r, options, count, &subjects, json);
	vs_subjects_close(&subjects);
	return status;
}
