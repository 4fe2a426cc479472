/* SPDX-License-Identifier: MIT */
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"
#include "model/shard.h"
#include "plan.h"

#include <stdio.h>

static void size_cells(struct vs_table *table, uint64_t bytes)
{
	char text[VS_SIZE_MAX];

	vs_table_cell(table, bytes ? vs_size_format_decimal(bytes, text) : "-");
	vs_table_cell(table, bytes ? vs_size_format(bytes, text) : "-");
}

static void print_ledger(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_LEFT};
	struct vs_table *table = vs_table_new("category,paper GB,GiB,refined GB,GiB,", kinds);

	for (size_t i = 0; i < p->row_count; i++) {
		vs_table_cell(table, vs_tag_name(p->rows[i].tag));
		size_cells(table, p->rows[i].paper);
		size_cells(table, p->rows[i].refined);
		vs_table_cell(table, p->rows[i].quality);
	}
	vs_table_cell(table, "peak");
	size_cells(table, p->paper[VS_ARTICLE_SCORES].total);
	size_cells(table, vs_forecast_peak(&p->forecast));
	vs_table_cell(table, "");
	vs_table_style(table, VS_BOLD);
	vs_table_print(table, screen, 2);
	puts("  Why paper and refined differ:");
	for (size_t i = 0; i < p->row_count; i++) {
		if (*p->rows[i].reason)
			vs_screen_text(screen, 6, "    %s: %s", vs_tag_name(p->rows[i].tag), p->rows[i].reason);
	}
}

static void print_instants(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_LEFT, VS_FLEX};
	struct vs_table *table = vs_table_new(",GB,GiB,,", kinds);

	for (int i = VS_INSTANT_FORWARD; i < VS_INSTANT_COUNT; i++) {
		const struct vs_peak *peak = &p->forecast.instants[i];

		if (!peak->bytes)
			continue;
		vs_table_cell(table, vs_instant_name(i));
		size_cells(table, peak->bytes);
		vs_table_cell(table, i == (int)p->forecast.winner ? "<- the peak" : "");
		if (peak->layer != UINT32_MAX)
			vs_table_cellf(table, "in layer %u", peak->layer);
		else
			vs_table_cell(table, "");
	}
	vs_table_cell(table, "the first step");
	size_cells(table, p->forecast.first.bytes);
	vs_table_cell(table, "");
	vs_table_cell(table, "no optimizer state before its end");
	vs_table_print(table, screen, 2);
}

/* The first lines: what somebody came for. */
static void print_answer(const struct vs_screen *screen, const struct vs_request *r, const struct vs_plan *p)
{
	char a[VS_SIZE_MAX], b[VS_SIZE_MAX], c[VS_SIZE_MAX];
	uint64_t peak = vs_forecast_peak(&p->forecast), taken = r->room.total - p->usable;

	if (p->with_gpu) {
		printf("%s%s%s on %s: ", vs_screen_style(screen, VS_BOLD), p->fits ? "It fits" : "It does not fit",
		       vs_screen_style(screen, VS_PLAIN), r->gpu.name ? r->gpu.name : "this card");
		printf("%s at the peak, %s are there.\n", vs_size_format(peak, a), vs_size_format(p->usable, b));
	}
	vs_screen_text(screen, 2, "Peak: %s (%s) allocated, at: %s; %s reserved (modelled), fragmentation included.",
	               vs_size_format(peak, a), vs_size_format_decimal(peak, b), vs_instant_name(p->forecast.winner),
	               vs_size_format(p->reserved, c));
	if (vs_job_by_formula(&r->job, 0)) {
		fputs("By formula alone, held against no run: ", stdout);
		for (size_t i = 0; vs_job_by_formula(&r->job, i); i++)
			printf("%s%s", i ? ", " : "", vs_job_by_formula(&r->job, i));
		puts(".");
	}
	if (!p->with_gpu)
		return;
	vs_screen_text(screen, 2, "Card: %s; the CUDA context%s %s (assumed), PyTorch can have %s.",
	               vs_size_format(r->room.total, a),
	               taken > r->room.context ? " and NCCL's buffers take" : " takes", vs_size_format(taken, b),
	               vs_size_format(p->usable, c));
	if (p->fits && p->reserved > p->usable)
		puts("Tight: PyTorch has to give cached segments back and ask again, which is slow.");
	if (!p->fits && peak <= p->usable)
		puts("The tensors alone would fit; the segments around them do not.");
}

static void print_routes(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT};
	struct vs_table *table;
	char text[VS_SIZE_MAX];

	if (!p->route_count) {
		vs_screen_text(
		    screen, 2,
		    "  Nothing tried makes it fit: not batch 1, full checkpointing, LoRA, 4-bit weights or "
		    "FSDP over up to 4096 GPUs. Left: a shorter sequence, a larger card, --tensor-parallel, "
		    "--pipeline-parallel, --expert-parallel.");
		return;
	}
	putchar('\n');
	table = vs_table_new("what makes it fit,GPUs,peak of each", kinds);
	for (size_t i = 0; i < p->route_count; i++) {
		vs_table_cell(table, p->routes[i].name);
		vs_table_cellf(table, "%u", p->routes[i].gpus);
		vs_table_cell(table, vs_size_format(p->routes[i].peak, text));
	}
	vs_table_print(table, screen, 2);
}

static void print_card(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const char *const names[VS_PLAN_SHARDINGS] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP"};

	vs_screen_title(screen, "On this card");
	fputs("  GPUs needed, all else equal: ", stdout);
	for (int i = 0; i < VS_PLAN_SHARDINGS; i++) {
		if (p->ranks[i])
			printf("%s%s %u", i ? ", " : "", names[i], p->ranks[i]);
		else
			printf("%s%s never", i ? ", " : "", names[i]);
	}
	putchar('\n');
	if (p->largest_batch) {
		printf("  The largest that fits, all else equal: batch %llu", (unsigned long long)p->largest_batch);
		if (p->largest_seq)
			printf(", sequence %llu", (unsigned long long)p->largest_seq);
	} else {
		printf("  Not even batch 1 fits as it is");
		if (p->largest_seq)
			printf("; the longest sequence that does: %llu", (unsigned long long)p->largest_seq);
	}
	printf("%s %s\n", p->largest_batch ? ", model" : "; the largest model that does:",
	       p->largest_model ? p->largest_model : "none of this family");
	if (!p->fits)
		print_routes(screen, p);
}

static void print_remedies(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const enum vs_column kinds[] = {VS_LEFT, VS_RIGHT, VS_RIGHT, VS_LEFT, VS_FLEX};
	struct vs_table *table = vs_table_new("what would help,saves,peak,,price", kinds);
	char text[VS_SIZE_MAX];

	for (size_t i = 0; i < p->remedy_count; i++) {
		const struct vs_remedy *m = &p->remedies[i];

		vs_table_cell(table, m->name);
		vs_table_cell(table, vs_size_format_signed(m->saves, text));
		vs_table_cell(table, vs_size_format(m->peak, text));
		vs_table_cell(table, !p->with_gpu ? "" : m->fits ? "fits" : "too big");
		vs_table_cell(table, m->price);
	}
	putchar('\n');
	vs_table_print(table, screen, 2);
	puts("  Gradient accumulation by itself saves nothing: it replaces a larger batch.");
}

static void print_sweep(const struct vs_screen *screen, const struct vs_plan *p)
{
	static const char *const names[] = {"", "batch", "sequence", "GPUs (sharded)"};
	static const enum vs_column kinds[] = {VS_RIGHT, VS_RIGHT, VS_RIGHT, VS_LEFT, VS_FLEX};
	char titles[80], text[VS_SIZE_MAX];
	struct vs_table *table;

	snprintf(titles, sizeof(titles), "%s,paper,refined,,the peak is at", names[p->sweep]);
	table = vs_table_new(titles, kinds);
	for (size_t i = 0; i < p->point_count; i++) {
		const struct vs_sweep_point *point = &p->points[i];

		vs_table_cellf(table, "%llu", (unsigned long long)point->value);
		vs_table_cell(table, vs_size_format(point->paper, text));
		vs_table_cell(table, vs_size_format(point->refined, text));
		vs_table_cell(table, !p->with_gpu ? "" : point->fits ? "fits" : "too big");
		vs_table_cell(table, point->instant);
	}
	putchar('\n');
	vs_table_print(table, screen, 2);
}

void vs_plan_print(const struct vs_request *r, const struct vs_plan *p)
{
	struct vs_screen screen = vs_screen_on(stdout);
	const struct vs_shape *s = &r->job.shape;
	char count[VS_SIZE_MAX], trainable[VS_SIZE_MAX];

	print_answer(&screen, r, p);
	printf("\n%s: %s parameters", r->name, vs_count_format(vs_shape_count(s), count));
	if (s->experts)
		printf(" (%s seen by a token)", vs_count_format(vs_shape_active(s), trainable));
	printf(", %llu layers, hidden %llu, %llu heads\n", (unsigned long long)s->layers,
	       (unsigned long long)s->hidden, (unsigned long long)s->heads);
	printf("%s, %s%s, batch %llu x %llu tokens, %s attention (%s), checkpointing %s",
	       vs_precision_names[r->job.precision], vs_optimizer_names[r->job.optimizer],
	       r->job.l2_decay ? " with L2 decay" : "", (unsigned long long)r->job.batch,
	       (unsigned long long)vs_shape_sequence(s, r->job.seq), vs_attention_names[r->job.attention],
	       vs_attention_names[vs_job_attention(&r->job)], vs_checkpointing_names[r->job.checkpointing]);
	if (r->job.lora_rank)
		printf(", LoRA rank %u (%s trained)", r->job.lora_rank,
		       vs_count_format(p->forecast.trainable, trainable));
	if (r->job.ranks > 1)
		printf(", %s over %u GPUs", vs_sharding_names[r->job.sharding], r->job.ranks);
	putchar('\n');
	vs_screen_title(&screen, "The ledger at the peak");
	print_ledger(&screen, p);
	vs_screen_title(&screen, "The instants");
	print_instants(&screen, p);
	if (p->forecast.host)
		printf("  In host memory: %s\n", vs_size_format(p->forecast.host, count));
	if (p->with_gpu)
		print_card(&screen, p);
	if (p->point_count)
		print_sweep(&screen, p);
	print_remedies(&screen, p);
}

static void article_json(const struct vs_request *r, enum vs_article article, const struct vs_article_estimate *e,
                         bool last)
{
	printf(
	    " {\"article\":\"%s\",\"weights_bytes\":%llu,\"gradients_bytes\":%llu,\"master_bytes\":%llu,"
	    "\"states_bytes\":%llu,\"activations_layer_bytes\":%llu,\"activations_bytes\":%llu,\"total_bytes\":%llu,"
	    "\"cards_of_80_gb\":%llu}%s\n",
	    article == VS_ARTICLE_SCORES ? "000" : "004", (unsigned long long)e->weights,
	    (unsigned long long)e->gradients, (unsigned long long)e->master, (unsigned long long)e->states,
	    (unsigned long long)e->activations_layer, (unsigned long long)e->activations,
	    (unsigned long long)e->total,
	    (unsigned long long)vs_article_cards(e->total, r->room.total ? r->room.total : 80000000000),
	    last ? "" : ",");
}

static void article_text(const struct vs_request *r, enum vs_article article, const struct vs_article_estimate *e)
{
	const struct vs_article_model m = vs_request_article(r);
	uint64_t fixed = e->weights + e->gradients + e->master + e->states;
	uint64_t card = r->room.total ? r->room.total : 80000000000;
	char a[VS_SIZE_MAX], b[VS_SIZE_MAX];

	printf("%s\n", article == VS_ARTICLE_SCORES
	                   ? "Article 000: P x bytes + 2 (19 B S H + 3 B A S^2) a layer; one layer with checkpointing"
	                   : "Article 004: P x bytes + 2 x B x S x H x layers x 12");
	printf("  weights      %12s  %12s\n", vs_size_format_decimal(e->weights, a), vs_size_format(e->weights, b));
	printf("  gradients    %12s  %12s\n", vs_size_format_decimal(e->gradients, a),
	       vs_size_format(e->gradients, b));
	printf("  fp32 master  %12s  %12s\n", vs_size_format_decimal(e->master, a), vs_size_format(e->master, b));
	printf("  moments      %12s  %12s\n", vs_size_format_decimal(e->states, a), vs_size_format(e->states, b));
	printf("  fixed        %12s  %12s\n", vs_size_format_decimal(fixed, a), vs_size_format(fixed, b));
	if (m.layers)
		printf("  a layer      %12s  %12s\n", vs_size_format_decimal(e->activations_layer, a),
		       vs_size_format(e->activations_layer, b));
	if (m.layers)
		printf("  activations  %12s  %12s\n", vs_size_format_decimal(e->activations, a),
		       vs_size_format(e->activations, b));
	printf("  total        %12s  %12s   %llu cards of %s by division\n", vs_size_format_decimal(e->total, a),
	       vs_size_format(e->total, b), (unsigned long long)vs_article_cards(e->total, card), "80 GB");
}

void vs_plan_print_article(const struct vs_request *r, enum vs_formula formula, bool json)
{
	struct vs_article_model m = vs_request_article(r);
	struct vs_article_estimate e;

	if (!r->shaped)
		m.layers = 0;
	if (json)
		puts("{\"schema\":\"vramshim/plan/1\",\"formula\":\"article\",\"estimates\":[");
	for (int i = 0; i < VS_ARTICLE_COUNT; i++) {
		bool last = i + 1 == VS_ARTICLE_COUNT || formula == VS_FORMULA_ARTICLE_000;

		if ((formula == VS_FORMULA_ARTICLE_000 && i != VS_ARTICLE_SCORES) ||
		    (formula == VS_FORMULA_ARTICLE_004 && i != VS_ARTICLE_TWELVE))
			continue;
		if (vs_article_estimate(i, vs_request_regime(&r->job), &m, &e))
			continue;
		if (json)
			article_json(r, i, &e, last);
		else
			article_text(r, i, &e);
	}
	if (json) {
		puts("]}");
		return;
	}
	puts("What to know about these numbers:\n"
	     "  - GB is 10^9 bytes, as the articles print it; a division by 1024^3 gives GiB: 112 GB is 104.3 GiB.\n"
	     "  - Cards by division need the states sharded (ZeRO, FSDP): plain data parallel copies all of them.\n"
	     "  - Not counted: logits and loss, temporaries, communication, the allocator, the CUDA context.\n"
	     "  - vramreport plan without --formula counts them, for the kernels that really run.");
}
