/* SPDX-License-Identifier: MIT
 *
 * A plan's answers, for printing.
 */
#ifndef VS_ESTIMATE_PLAN_H
#define VS_ESTIMATE_PLAN_H

#include "rows.h"

enum vs_formula { VS_FORMULA_REFINED, VS_FORMULA_ARTICLE, VS_FORMULA_ARTICLE_000, VS_FORMULA_ARTICLE_004 };
enum vs_sweep { VS_SWEEP_NONE, VS_SWEEP_BATCH, VS_SWEEP_SEQ, VS_SWEEP_GPUS };

struct vs_sweep_point {
	uint64_t value, paper, refined;
	const char *instant;
	bool fits;
};

#define VS_SWEEP_MAX      16
#define VS_PLAN_SHARDINGS 5 /* ddp, zero1, zero2, zero3, fsdp */

struct vs_plan {
	struct vs_article_estimate paper[VS_ARTICLE_COUNT];
	struct vs_forecast forecast;
	struct vs_row rows[VS_TAG_COUNT];
	size_t row_count;
	uint64_t usable;   /* bytes of the card that are PyTorch's */
	uint64_t reserved; /* bytes it would hold, if nothing limited it */
	bool fits, with_gpu;
	uint32_t ranks[VS_PLAN_SHARDINGS]; /* 0: never */
	uint32_t gpus_needed;              /* 0: none of them helps */
	uint64_t largest_batch, largest_seq;
	const char *largest_model;
	struct vs_remedy remedies[VS_REMEDIES_MAX];
	size_t remedy_count;
	struct vs_route routes[VS_ROUTES_MAX]; /* where it does not fit */
	size_t route_count;
	enum vs_sweep sweep;
	struct vs_sweep_point points[VS_SWEEP_MAX];
	size_t point_count;
};

void vs_plan_print(const struct vs_request *request, const struct vs_plan *plan);
void vs_plan_print_json(const struct vs_request *request, const struct vs_plan *plan);
/* --formula article: the two articles' own arithmetic, and what is different about it. */
void vs_plan_print_article(const struct vs_request *request, enum vs_formula formula, bool json);

#endif
