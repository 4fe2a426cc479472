/* SPDX-License-Identifier: MIT
 *
 * The GPUs that can be simulated, for looking up and listing. The table itself is lib/sim/gpus.def.
 */
#ifndef VS_RUN_GPUS_H
#define VS_RUN_GPUS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The key of the GPU called `name` in the table: letters and digits count, not case or punctuation ("A100 80" is
 * "a100-80"); the full product name works too. NULL if unknown. The result lives for ever. */
const char *vs_gpu_find(const char *name);
/* All keys, "t4, v100-16, ...", cut at `size`. Returns `text`. */
char *vs_gpu_keys(char *text, size_t size);
/* The table for people: key, memory, compute capability, multiprocessors, product name. */
void vs_gpu_list(FILE *out);

#endif
