/* SPDX-License-Identifier: MIT
 *
 * The ledger as rows: a category on paper, refined and, where there is a recording, measured, with the reason of the
 * difference.
 */
#ifndef VS_ESTIMATE_ROWS_H
#define VS_ESTIMATE_ROWS_H

#include "request.h"

struct vs_row {
	enum vs_tag tag;
	uint64_t paper, refined;
	uint64_t measured;   /* compare alone */
	const char *reason;  /* of paper against refined: "class: what it is here" */
	const char *quality; /* of refined: "exact", "modelled", "assumed" */
};

/* One row a tag that anybody counts; returns how many. */
size_t vs_rows_make(const struct vs_job *job, const struct vs_article_estimate *paper,
                    const struct vs_forecast *forecast, struct vs_row rows[VS_TAG_COUNT]);

#endif
