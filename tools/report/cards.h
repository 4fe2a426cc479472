/* SPDX-License-Identifier: MIT
 *
 * The GPUs of the table, for asking on which a job would fit.
 */
#ifndef VS_REPORT_CARDS_H
#define VS_REPORT_CARDS_H

#include <stddef.h>
#include <stdint.h>

struct vs_card {
	const char *key;  /* "a100-40" */
	const char *name; /* "NVIDIA A100-SXM4-40GB" */
	uint64_t memory;  /* bytes, as cudaMemGetInfo's total */
	uint64_t context; /* bytes: assumed size of a CUDA context */
};

/* By name or key: letters and digits count, not case or punctuation. NULL if unknown. */
const struct vs_card *vs_card_find(const char *name);
/* The card `index` by growing memory; NULL past the end. */
const struct vs_card *vs_card_at(size_t index);

#endif
