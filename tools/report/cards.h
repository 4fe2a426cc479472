/* SPDX-License-Identifier: MIT
 *
 * The GPUs of the table by growing memory, for asking on which a job would fit.
 */
#ifndef VS_REPORT_CARDS_H
#define VS_REPORT_CARDS_H

#include <stddef.h>

#include "model/gpu.h"

/* By name or key: letters and digits count, not case or punctuation; a "g" or "GB" may follow. NULL if unknown. */
const struct vs_gpu_memory *vs_card_find(const char *name);
/* The card `index` by growing memory; NULL past the end. */
const struct vs_gpu_memory *vs_card_at(size_t index);

#endif
