/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <jansson.h>
#include <stdio.h>

static json_t *size_of(uint64_t bytes)
{
	return json_integer((json_int_t)bytes);
}

static json_t *model_json(const struct vs_request *r)
{
	const struct vs_shape *s = &r->job.shape;

	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "name", r->name, "family",
	                 vs_family_name(s->family), "parameters", (json_int_t)vs_shape_count(s), "active_parameters",
	                 (json_int_t)vs_shape_active(s), "layers", (json_int_t)s->layers, "hidden",
	                 (json_int_t)s->hidden, "heads", (json_int_t)s->heads, "kv_heads", (json_int_t)s->kv_heads,
	                 "head_dim", (json_int_t)s->head_dim, "ffn", (json_int_t)s->ffn, "vocab",
	                 (json_int_t)s->vocab, "tied", s->tied);
}

static json_t *job_json(const struct vs_request *r, const struct vs_plan *p)
{
	const struct vs_job *j = &r->job;

	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:s, s:i, s:I}", "precision",
	                 vs_precision_names[j->precision], "optimizer", vs_optimizer_names[j->optimizer],
	                 "checkpointing", vs_checkpointing_names[j->checkpointing], "attention",
	                 vs_attention_names[vs_job_attention(j)], "batch", (json_int_t)j->batch, "seq",
	                 (json_int_t)j->seq, "accumulation", (int)j->accumulation, "lora_rank", (int)j->lora_rank,
	                 "sharding", vs_sharding_names[j->sharding], "gpus", (int)j->ranks, "trainable_parameters",
	                 (json_int_t)p->forecast.trainable);
}

static json_t *rows_json(const struct vs_plan *p)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < p->row_count; i++)
		json_array_append_new(rows,
		                      json_pack("{s:s, s:I, s:I, s:s, s:s}", "category", vs_tag_name(p->rows[i].tag),
		                                "paper_bytes", (json_int_t)p->rows[i].paper, "refined_bytes",
		                                (json_int_t)p->rows[i].refined, "quality", p->rows[i].quality,
		                                "reason", p->rows[i].reason));
	return rows;
}

static json_t *instants_json(const struct vs_plan *p)
{
	json_t *instants = json_array();

	for (int i = VS_INSTANT_FORWARD; i < VS_INSTANT_COUNT; i++) {
		if (p->forecast.instants[i].bytes)
			json_array_append_new(instants,
			                      json_pack("{s:s, s:I}", "instant", vs_instant_name(i), "bytes",
			                                (json_int_t)p->forecast.instants[i].bytes));
	}
	return instants;
}

static json_t *remedies_json(const struct vs_plan *p)
{
	json_t *remedies = json_array();

	for (size_t i = 0; i < p->remedy_count; i++) {
		const struct vs_remedy *m = &p->remedies[i];

		json_array_append_new(remedies, json_pack("{s:s, s:I, s:I, s:o, s:s}", "name", m->name, "saves_bytes",
		                                          (json_int_t)m->saves, "peak_bytes", (json_int_t)m->peak,
		                                          "enough", p->with_gpu ? json_boolean(m->fits) : json_null(),
		                                          "price", m->price));
	}
	return remedies;
}

static json_t *sweep_json(const struct vs_plan *p)
{
	json_t *points = json_array();

	for (size_t i = 0; i < p->point_count; i++)
		json_array_append_new(points,
		                      json_pack("{s:I, s:I, s:I, s:s, s:b}", "value", (json_int_t)p->points[i].value,
		                                "paper_bytes", (json_int_t)p->points[i].paper, "refined_bytes",
		                                (json_int_t)p->points[i].refined, "instant", p->points[i].instant,
		                                "fits", p->points[i].fits));
	return points;
}

static json_t *card_json(const struct vs_request *r, const struct vs_plan *p)
{
	static const char *const names[VS_PLAN_SHARDINGS] = {"ddp", "zero1", "zero2", "zero3", "fsdp"};
	json_t *ranks = json_object();

	for (int i = 0; i < VS_PLAN_SHARDINGS; i++)
		json_object_set_new(ranks, names[i], p->ranks[i] ? json_integer(p->ranks[i]) : json_null());
	return json_pack("{s:s, s:I, s:I, s:s, s:I, s:o, s:{s:I, s:I, s:s?}}", "name", r->gpu.name ? r->gpu.name : "",
	                 "total_bytes", (json_int_t)r->room.total, "context_bytes", (json_int_t)r->room.context,
	                 "context_source", "assumed", "usable_bytes", (json_int_t)p->usable, "gpus_by_sharding",
	                 ranks, "largest", "batch", (json_int_t)p->largest_batch, "seq", (json_int_t)p->largest_seq,
	                 "model", p->largest_model);
}

void vs_plan_print_json(const struct vs_request *r, const struct vs_plan *p)
{
	json_t *root = json_object();

	json_object_set_new(root, "schema", json_string("vramshim/plan/1"));
	json_object_set_new(root, "model", model_json(r));
	json_object_set_new(root, "job", job_json(r, p));
	json_object_set_new(root, "rows", rows_json(p));
	json_object_set_new(root, "peak",
	                    json_pack("{s:o, s:o, s:s, s:o, s:o}", "paper_bytes",
	                              size_of(p->paper[VS_ARTICLE_SCORES].total), "refined_bytes",
	                              size_of(vs_forecast_peak(&p->forecast)), "instant",
	                              vs_instant_name(p->forecast.winner), "paper_004_bytes",
	                              size_of(p->paper[VS_ARTICLE_TWELVE].total), "first_step_bytes",
	                              size_of(p->forecast.first.bytes)));
	json_object_set_new(root, "instants", instants_json(p));
	json_object_set_new(root, "host_bytes", size_of(p->forecast.host));
	json_object_set_new(root, "fits", p->with_gpu ? json_boolean(p->fits) : json_null());
	json_object_set_new(root, "gpus_needed",
	                    p->with_gpu && p->gpus_needed ? json_integer(p->gpus_needed) : json_null());
	json_object_set_new(root, "gpu", p->with_gpu ? card_json(r, p) : json_null());
	json_object_set_new(root, "remedies", remedies_json(p));
	if (p->sweep)
		json_object_set_new(root, "sweep", sweep_json(p));
	json_dumpf(root, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(root);
}
