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
#include "compare_infer.h"
#include "estimate/estimate.h"
#include "estimate/rows.h"

static const char usage_head[] =
    "usage: vramreport compare RUN [MODEL] [JOB] [--json]\n"
    "The paper estimate and the refined one beside what was measured, with the reason of each\n"
    "gap. What the recording tells (the model, precision, optimizer, attention, checkpointing)\n"
    "is inferred and shown; flags win over it.\n";

struct comparison {
	const struct vs_device_summary *device;
	struct vs_inferred inferred;
	struct vs_article_estimate paper;
	struct vs_forecast forecast;
	bool refined; /* the model is known: there is a forecast */
	struct vs_row rows[VS_TAG_COUNT];
	size_t row_count;
};

/* A block above 1 MiB may keep up to 1 MiB more than was asked for (c10/cuda/CUDACachingAllocator.cpp: kSmallSize).
 */
#define SLACK (UINT64_C(1) << 20)

/* Can the blocks of what stays have kept so much more? */
static bool may_be_slack(const struct vs_device_summary *device, enum vs_tag tag, double bytes)
{
	uint64_t most = 0;

	if (tag != VS_TAG_WEIGHTS && tag != VS_TAG_GRADIENTS && tag != VS_TAG_OPTIMIZER)
		return false;
	for (size_t i = 0; i < device->block_count; i++) {
		if (device->blocks[i].tag == tag && device->blocks[i].size > SLACK)
			most += SLACK;
	}
	return bytes > 0 && bytes <= (double)most;
}

/* Why measured and refined differ, by the class of the gap. */
static const char *measured_reason(const struct vs_device_summary *device, const struct vs_row *row)
{
	double gap = (double)row->measured - (double)row->refined;

	if (row->tag == VS_TAG_OUTPUTS && row->measured > row->refined + (1 << 20))
		return "held output: a variable keeps what the forward returned";
	if (fabs(gap) <= 0.02 * (double)row->measured || fabs(gap) < 4 << 20)
		return "";
	/* A type or an optimizer more makes it a half or more. */
	if (gap < 0.1 * (double)row->refined && may_be_slack(device, row->tag, gap))
		return "rounding: a block above 1 MiB may keep up to 1 MiB more than was asked for";
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
			row->reason = measured_reason(c->device, row);
		for (size_t k = 0; k < count && !*row->reason; k++) {
			if (refined[k].tag == row->tag)
				row->reason = refined[k].reason;
		}
	}
	return 0;
}

static bool on_paper_known(const struct comparison *c, const struct vs_row *row)
{
	return c->refined || row->tag != VS_TAG_ACTIVATIONS;
}

static double off(uint64_t estimate, uint64_t measured)
{
	return measured ? 100 * ((double)estimate / (double)measured - 1) : 0;
}

/* Where the model is not known, paper lacks the activations: no answer to whether it is safe. */
static void verdict(const struct comparison *c, char *text, size_t size)
{
	uint64_t measured = c->device->peak.allocated, paper = c->paper.total;
	char a[VS_SIZE_MAX], b[VS_SIZE_MAX];
	double percent = off(paper, measured);
	const char *safe = percent < 0    ? "is not safe for this job: it is too low"
	                   : percent > 25 ? "is safe for this job, but wasteful"
	                                  : "is safe for this job";

	vs_size_format(paper, a);
	vs_size_format(measured, b);
	if (!c->refined) {
		snprintf(
		    text, size,
		    "Is the paper estimate safe for this job? Without activations it is %s, and %s were measured: "
		    "the model is needed to tell.",
		    a, b);
		return;
	}
	snprintf(text, size, "The paper estimate %s: %s on paper, %s measured, off by %+.0f %%.", safe, a, b,
	         percent);
	percent = off(vs_forecast_peak(&c->forecast), measured);
	if (fabs(percent) < 0.05)
		snprintf(text + strlen(text), size - strlen(text), " The refined one is off by less than 0.1 %%.");
	else
		snprintf(text + strlen(text), size - strlen(text), " The refined one is off by %+.1f %%.", percent);
}

static void print_sizes(const struct vs_request *r, const struct comparison *c)
{
	const struct vs_shape *s = &r->job.shape;

	printf("  %llu layers, hidden %llu, feed-forward %llu, vocabulary %llu, %llu heads",
	       (unsigned long long)s->layers, (unsigned long long)s->hidden, (unsigned long long)s->ffn,
	       (unsigned long long)s->vocab, (unsigned long long)s->heads);
	if (s->kv_heads != s->heads)
		printf(" (%llu for keys)", (unsigned long long)s->kv_heads);
	printf(" of %llu%s\n", (unsigned long long)s->head_dim,
	       *c->inferred.model && c->inferred.facts.hidden && !c->inferred.facts.head_dim ? " (assumed)" : "");
}

static void print_inferred(const struct vs_request *r, const struct comparison *c)
{
	char count[VS_SIZE_MAX];

	printf("%s: %s parameters%s\n", c->inferred.parameters ? "model unknown" : r->name,
	       vs_count_format(r->shaped ? vs_shape_count(&r->job.shape) : r->parameters, count),
	       c->inferred.parameters ? " (inferred from the weights)" : c->inferred.model);
	printf("  weights of %u bytes (%s)\n", c->inferred.dtype.bytes,
	       c->inferred.dtype.basis ? c->inferred.dtype.basis : "recorded");
	if (r->shaped)
		print_sizes(r, c);
	if (c->inferred.adapters)
		printf("  LoRA of rank %u (inferred) on %llu matrices a layer, taken for %s\n", r->job.lora_rank,
		       (unsigned long long)c->inferred.facts.lora_modules, r->lora_targets);
	printf("  precision %s%s, optimizer %s%s%s, checkpointing %s%s", vs_precision_names[r->job.precision],
	       c->inferred.precision ? " (inferred)" : "", vs_optimizer_names[r->job.optimizer],
	       r->job.l2_decay ? " with L2 decay" : "", c->inferred.optimizer ? " (inferred)" : "",
	       vs_checkpointing_names[r->job.checkpointing], c->inferred.checkpointing ? " (inferred)" : "");
	if (r->shaped)
		printf(",\n  attention %s%s, batch %llu%s, sequence %llu%s", vs_attention_names[r->job.attention],
		       c->inferred.attention ? " (inferred)" : "", (unsigned long long)r->job.batch,
		       c->inferred.batch, (unsigned long long)r->job.seq, c->inferred.seq);
	putchar('\n');
	if (c->inferred.facts.layers && !r->shaped)
		printf("  %llu layers (inferred: the weights come in as many repetitions)\n",
		       (unsigned long long)c->inferred.facts.layers);
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
		sized(table, row->paper, on_paper_known(c, row));
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
	vs_screen_text(
	    &screen, 6,
	    "    fragmentation, outside PyTorch: not on paper; the allocator's segments, the CUDA context, "
	    "libraries");
	putchar('\n');
	verdict(c, text, sizeof(text));
	vs_screen_text(&screen, 0, "%s", text);
}

static void model_json(struct vs_json *json, const struct vs_request *r, const struct comparison *c)
{
	vs_json_object(json, "model");
	vs_json_string(json, "name", c->inferred.parameters ? "" : r->name);
	vs_json_unsigned(json, "parameters", r->shaped ? vs_shape_count(&r->job.shape) : r->parameters);
	vs_json_string(json, "precision", vs_precision_names[r->job.precision]);
	vs_json_string(json, "optimizer", vs_optimizer_names[r->job.optimizer]);
	vs_json_bool(json, "l2_decay", r->job.l2_decay);
	vs_json_string(json, "checkpointing", vs_checkpointing_names[r->job.checkpointing]);
	vs_json_string(json, "attention", vs_attention_names[r->job.attention]);
	vs_json_unsigned(json, "lora_rank", r->job.lora_rank);
	vs_json_unsigned(json, "batch", r->job.batch);
	vs_json_unsigned(json, "seq", r->job.seq);
	if (r->shaped) {
		vs_json_unsigned(json, "layers", r->job.shape.layers);
		vs_json_unsigned(json, "hidden", r->job.shape.hidden);
		vs_json_unsigned(json, "heads", r->job.shape.heads);
		vs_json_unsigned(json, "kv_heads", r->job.shape.kv_heads);
		vs_json_unsigned(json, "ffn", r->job.shape.ffn);
		vs_json_unsigned(json, "vocab", r->job.shape.vocab);
	}
	vs_json_object_line(json, "inferred");
	vs_json_bool(json, "model", *c->inferred.model || c->inferred.parameters);
	vs_json_bool(json, "precision", c->inferred.precision);
	vs_json_bool(json, "optimizer", c->inferred.optimizer);
	vs_json_bool(json, "l2_decay", c->inferred.l2_decay);
	vs_json_bool(json, "checkpointing", c->inferred.checkpointing);
	vs_json_bool(json, "attention", c->inferred.attention);
	vs_json_bool(json, "adapters", c->inferred.adapters);
	vs_json_bool(json, "sizes_assumed", c->inferred.assumed);
	vs_json_unsigned_if(json, "layers", c->inferred.facts.layers > 0, c->inferred.facts.layers);
	vs_json_unsigned_if(json, "hidden", c->inferred.facts.hidden > 0, c->inferred.facts.hidden);
	vs_json_unsigned_if(json, "head_dim", c->inferred.facts.head_dim > 0, c->inferred.facts.head_dim);
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
		vs_json_unsigned_if(json, "paper_bytes", on_paper_known(c, row), row->paper);
		vs_json_unsigned_if(json, "refined_bytes", c->refined, row->refined);
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
	vs_json_unsigned_if(&json, "refined_bytes", c->refined, vs_forecast_peak(&c->forecast));
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
	if (vs_compare_infer(r, options, count, subject, c.device, &c.inferred) ||
	    vs_request_resolve(r, options, count))
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
