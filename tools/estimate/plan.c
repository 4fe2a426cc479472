/* SPDX-License-Identifier: MIT
 *
 * vramreport plan: will it fit, on how many cards, and what would make it fit.
 */
#include "plan.h"

#include "common/message.h"
#include "estimate.h"
#include "model/preset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage_head[] =
    "usage: vramreport plan MODEL [JOB] [--gpu NAME] [--sweep batch|seq|gpus]\n"
    "                       [--formula FORMULA] [--json]\n"
    "Estimates the memory of one training step, category by category, at its highest instant;\n"
    "whether it fits a card, on how many, and what would make it fit.\n";
static const char usage_tail[] =
    "The answer:\n"
    "  --sweep WHAT             a table over batch, seq or gpus\n"
    "  --formula F              refined (default); article, article-000, article-004:\n"
    "                           the articles' arithmetic\n"
    "  --list-presets           names for --preset\n"
    "  --json                   one JSON object\n"
    "Exit status: 0 it fits (or no card is given), 1 it does not, 2 bad usage or input.\n";

static const char *const formula_names[] = {"refined", "article", "article-000", "article-004", NULL};
static const char *const sweep_names[] = {"none", "batch", "seq", "gpus", NULL};

static void list_presets(void)
{
	struct vs_shape shape;
	const char *name;

	for (size_t i = 0; (name = vs_preset_at(i, &shape)); i++)
		printf("%-18s %18llu parameters\n", name, (unsigned long long)vs_shape_count(&shape));
}

static void sweep_value(struct vs_job *j, enum vs_sweep sweep, uint64_t value)
{
	if (sweep == VS_SWEEP_BATCH)
		j->batch = value;
	else if (sweep == VS_SWEEP_SEQ)
		j->seq = value;
	else
		j->ranks = (uint32_t)value;
	if (sweep == VS_SWEEP_GPUS && j->sharding <= VS_SHARDING_DDP)
		j->sharding = VS_SHARDING_FSDP;
}

static void fill_sweep(const struct vs_request *r, struct vs_plan *p)
{
	uint64_t value = p->sweep == VS_SWEEP_SEQ ? 512 : 1;

	/* Powers of two, to the first that does not fit and one more; ten where there is no card. */
	for (int beyond = 0; p->point_count < (p->with_gpu ? VS_SWEEP_MAX : 10) && beyond < 2; value *= 2) {
		struct vs_sweep_point *point = &p->points[p->point_count];
		struct vs_request variant = *r;
		struct vs_article_model model;
		struct vs_article_estimate paper;
		struct vs_forecast f;

		sweep_value(&variant.job, p->sweep, value);
		model = vs_request_article(&variant);
		if (vs_forecast_job(&variant.job, NULL, &f) ||
		    vs_article_estimate(VS_ARTICLE_SCORES, vs_request_regime(&r->job), &model, &paper))
			break;
		*point = (struct vs_sweep_point){.value = value,
		                                 .paper = paper.total,
		                                 .refined = vs_forecast_peak(&f),
		                                 .instant = vs_instant_name(f.winner),
		                                 .fits = vs_plan_fits(&variant.job, &r->room)};
		beyond += p->sweep != VS_SWEEP_GPUS && p->with_gpu && !point->fits;
		p->point_count++;
	}
}

static void fill_cards(const struct vs_request *r, struct vs_plan *p)
{
	p->gpus_needed = p->fits ? r->job.ranks * r->job.tensor_parallel * r->job.pipeline_parallel : 0;
	for (int i = 0; i < VS_PLAN_SHARDINGS; i++) {
		p->ranks[i] = vs_plan_ranks(&r->job, VS_SHARDING_DDP + i, &r->room);
		if (!p->fits && p->ranks[i] && (!p->gpus_needed || p->ranks[i] < p->gpus_needed))
			p->gpus_needed = p->ranks[i];
	}
	p->largest_batch = vs_plan_largest_batch(&r->job, &r->room);
	p->largest_seq = vs_plan_largest_seq(&r->job, &r->room);
	p->largest_model = vs_plan_largest_model(&r->job, &r->room);
	if (!p->fits)
		p->route_count = vs_plan_routes(&r->job, &r->room, p->routes);
}

static int make_plan(const struct vs_request *r, struct vs_plan *p)
{
	struct vs_article_model model = vs_request_article(r);
	int error;

	for (int i = 0; i < VS_ARTICLE_COUNT; i++) {
		error = vs_article_estimate(i, vs_request_regime(&r->job), &model, &p->paper[i]);
		if (error)
			return error;
	}
	error = vs_forecast_job(&r->job, NULL, &p->forecast);
	if (error)
		return error;
	p->row_count = vs_rows_make(&r->job, &p->paper[VS_ARTICLE_SCORES], &p->forecast, p->rows);
	p->with_gpu = r->room.total != 0;
	p->usable = vs_room_usable(&r->room, &r->job);
	p->fits = vs_plan_fits(&r->job, &r->room);
	error = vs_plan_reserved(&r->job, &p->reserved);
	if (error)
		return error;
	if (p->with_gpu)
		fill_cards(r, p);
	p->remedy_count = vs_plan_remedies(&r->job, &r->room, p->remedies);
	if (p->sweep)
		fill_sweep(r, p);
	return 0;
}

int vs_plan_main(int argc, char **argv)
{
	struct vs_request r;
	struct vs_plan p = {0};
	int formula = VS_FORMULA_REFINED, sweep = VS_SWEEP_NONE, error;
	bool json = false, presets = false;
	char usage[sizeof(usage_head) + sizeof(usage_tail) + 4096];
	struct vs_option options[VS_REQUEST_OPTIONS + 7];
	const struct vs_option own[] = {
	    {"--gpu", VS_OPTION_TEXT, &r.gpu_name},
	    {"--gpu-memory", VS_OPTION_SIZE, &r.memory},
	    {"--formula", VS_OPTION_CHOICE, &formula, .choices = formula_names},
	    {"--sweep", VS_OPTION_CHOICE, &sweep, .choices = sweep_names},
	    {"--list-presets", VS_OPTION_FLAG, &presets},
	    {"--json", VS_OPTION_FLAG, &json},
	};
	size_t count = VS_REQUEST_OPTIONS + sizeof(own) / sizeof(own[0]);

	vs_request_init(&r);
	vs_request_options(&r, options);
	memcpy(options + VS_REQUEST_OPTIONS, own, sizeof(own));
	snprintf(usage, sizeof(usage), "%s%s%s", usage_head, vs_request_usage, usage_tail);
	error = vs_options_parse(argc, argv, options, count, NULL, 0, usage);
	if (error < 0)
		return error == -ECANCELED ? 0 : 2;
	if (presets) {
		list_presets();
		return 0;
	}
	if (sweep != VS_SWEEP_NONE && formula != VS_FORMULA_REFINED) {
		vs_complain("--sweep with --formula article: plan: it sweeps the refined estimate, leave one out");
		return 2;
	}
	if (r.sharding != VS_SHARDING_NONE && sweep != VS_SWEEP_GPUS && !vs_option_given(options, count, "--gpus")) {
		vs_complain("--sharding without --gpus: plan: give their number, or --sweep gpus");
		return 2;
	}
	if (vs_request_resolve(&r, options, count))
		return 2;
	if (formula != VS_FORMULA_REFINED) {
		vs_plan_print_article(&r, formula, json);
		return 0;
	}
	if (!r.shaped) {
		vs_complain(
		    "a number of parameters alone: --parameters: give the model's sizes, or --formula article");
		return 2;
	}
	p.sweep = sweep;
	error = make_plan(&r, &p);
	if (error) {
		vs_complain("cannot estimate this job: %s: %s", r.name,
		            error == -ERANGE ? "its sizes are beyond 64 bits: give smaller ones" : strerror(-error));
		return 2;
	}
	if (json)
		vs_plan_print_json(&r, &p);
	else
		vs_plan_print(&r, &p);
	return p.fits ? 0 : 1;
}
