/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "common/json.h"

static void model_json(struct vs_json *json, const struct vs_request *r)
{
	const struct vs_shape *s = &r->job.shape;

	vs_json_object(json, "model");
	vs_json_string(json, "name", r->name);
	vs_json_string(json, "family", vs_family_name(s->family));
	vs_json_unsigned(json, "parameters", vs_shape_count(s));
	vs_json_unsigned(json, "active_parameters", vs_shape_active(s));
	vs_json_unsigned(json, "layers", s->layers);
	vs_json_unsigned(json, "hidden", s->hidden);
	vs_json_unsigned(json, "heads", s->heads);
	vs_json_unsigned(json, "kv_heads", s->kv_heads);
	vs_json_unsigned(json, "head_dim", s->head_dim);
	vs_json_unsigned(json, "ffn", s->ffn);
	vs_json_unsigned(json, "vocab", s->vocab);
	vs_json_bool(json, "tied", s->tied);
	vs_json_end(json);
}

static void job_json(struct vs_json *json, const struct vs_request *r, const struct vs_plan *p)
{
	const struct vs_job *j = &r->job;

	vs_json_object(json, "job");
	vs_json_string(json, "precision", vs_precision_names[j->precision]);
	vs_json_string(json, "optimizer", vs_optimizer_names[j->optimizer]);
	vs_json_bool(json, "l2_decay", j->l2_decay);
	vs_json_string(json, "checkpointing", vs_checkpointing_names[j->checkpointing]);
	vs_json_string(json, "attention", vs_attention_names[vs_job_attention(j)]);
	vs_json_unsigned(json, "batch", j->batch);
	vs_json_unsigned(json, "seq", j->seq);
	vs_json_unsigned(json, "accumulation", j->accumulation);
	vs_json_unsigned(json, "lora_rank", j->lora_rank);
	vs_json_string(json, "sharding", vs_sharding_names[j->sharding]);
	vs_json_unsigned(json, "gpus", j->ranks);
	vs_json_unsigned(json, "trainable_parameters", p->forecast.trainable);
	vs_json_array(json, "by_formula");
	for (size_t i = 0; vs_job_by_formula(j, i); i++)
		vs_json_string(json, NULL, vs_job_by_formula(j, i));
	vs_json_end(json);
	vs_json_end(json);
}

static void rows_json(struct vs_json *json, const struct vs_plan *p)
{
	vs_json_array(json, "rows");
	for (size_t i = 0; i < p->row_count; i++) {
		const struct vs_row *row = &p->rows[i];

		vs_json_object_line(json, NULL);
		vs_json_string(json, "category", vs_tag_name(row->tag));
		vs_json_unsigned(json, "paper_bytes", row->paper);
		vs_json_unsigned(json, "refined_bytes", row->refined);
		vs_json_string(json, "quality", row->quality);
		vs_json_string(json, "reason", row->reason);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void peak_json(struct vs_json *json, const struct vs_plan *p)
{
	vs_json_object(json, "peak");
	vs_json_unsigned(json, "paper_bytes", p->paper[VS_ARTICLE_SCORES].total);
	vs_json_unsigned(json, "refined_bytes", vs_forecast_peak(&p->forecast));
	vs_json_string(json, "instant", vs_instant_name(p->forecast.winner));
	vs_json_unsigned(json, "reserved_bytes", p->reserved);
	vs_json_unsigned(json, "paper_004_bytes", p->paper[VS_ARTICLE_TWELVE].total);
	vs_json_unsigned(json, "first_step_bytes", p->forecast.first.bytes);
	vs_json_end(json);
	vs_json_array(json, "instants");
	for (int i = VS_INSTANT_FORWARD; i < VS_INSTANT_COUNT; i++) {
		if (!p->forecast.instants[i].bytes)
			continue;
		vs_json_object_line(json, NULL);
		vs_json_string(json, "instant", vs_instant_name(i));
		vs_json_unsigned(json, "bytes", p->forecast.instants[i].bytes);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void remedies_json(struct vs_json *json, const struct vs_plan *p)
{
	vs_json_array(json, "remedies");
	for (size_t i = 0; i < p->remedy_count; i++) {
		const struct vs_remedy *m = &p->remedies[i];

		vs_json_object_line(json, NULL);
		vs_json_string(json, "name", m->name);
		vs_json_signed(json, "saves_bytes", (int64_t)m->saves);
		vs_json_unsigned(json, "peak_bytes", m->peak);
		if (p->with_gpu)
			vs_json_bool(json, "enough", m->fits);
		else
			vs_json_null(json, "enough");
		vs_json_string(json, "price", m->price);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void routes_json(struct vs_json *json, const struct vs_plan *p)
{
	vs_json_array(json, "routes");
	for (size_t i = 0; i < p->route_count; i++) {
		vs_json_object_line(json, NULL);
		vs_json_string(json, "name", p->routes[i].name);
		vs_json_unsigned(json, "gpus", p->routes[i].gpus);
		vs_json_unsigned(json, "peak_bytes", p->routes[i].peak);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void sweep_json(struct vs_json *json, const struct vs_plan *p)
{
	vs_json_array(json, "sweep");
	for (size_t i = 0; i < p->point_count; i++) {
		const struct vs_sweep_point *point = &p->points[i];

		vs_json_object_line(json, NULL);
		vs_json_unsigned(json, "value", point->value);
		vs_json_unsigned(json, "paper_bytes", point->paper);
		vs_json_unsigned(json, "refined_bytes", point->refined);
		vs_json_string(json, "instant", point->instant);
		vs_json_bool(json, "fits", point->fits);
		vs_json_end(json);
	}
	vs_json_end(json);
}

static void card_json(struct vs_json *json, const struct vs_request *r, const struct vs_plan *p)
{
	static const char *const names[VS_PLAN_SHARDINGS] = {"ddp", "zero1", "zero2", "zero3", "fsdp"};

	vs_json_object(json, "gpu");
	vs_json_string(json, "name", r->gpu.name ? r->gpu.name : "");
	vs_json_unsigned(json, "total_bytes", r->room.total);
	vs_json_unsigned(json, "context_bytes", r->room.context);
	vs_json_string(json, "context_source", "assumed");
	vs_json_unsigned(json, "usable_bytes", p->usable);
	vs_json_object_line(json, "gpus_by_sharding");
	for (int i = 0; i < VS_PLAN_SHARDINGS; i++)
		vs_json_unsigned_if(json, names[i], p->ranks[i], p->ranks[i]);
	vs_json_end(json);
	vs_json_object_line(json, "largest");
	vs_json_unsigned(json, "batch", p->largest_batch);
	vs_json_unsigned(json, "seq", p->largest_seq);
	vs_json_string(json, "model", p->largest_model);
	vs_json_end(json);
	vs_json_end(json);
}

void vs_plan_print_json(const struct vs_request *r, const struct vs_plan *p)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/plan/1");
	model_json(&json, r);
	job_json(&json, r, p);
	rows_json(&json, p);
	peak_json(&json, p);
	vs_json_unsigned(&json, "host_bytes", p->forecast.host);
	if (p->with_gpu) {
		vs_json_bool(&json, "fits", p->fits);
		vs_json_unsigned_if(&json, "gpus_needed", p->gpus_needed, p->gpus_needed);
		card_json(&json, r, p);
	} else {
		vs_json_null(&json, "fits");
		vs_json_null(&json, "gpus_needed");
		vs_json_null(&json, "gpu");
	}
	remedies_json(&json, p);
	routes_json(&json, p);
	if (p->sweep)
		sweep_json(&json, p);
	vs_json_end(&json);
}
