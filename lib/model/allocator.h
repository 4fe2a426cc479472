/* SPDX-License-Identifier: MIT
 *
 * A tape's bytes through the model of PyTorch's allocator: what a step on paper would reserve, and whether it runs
 * out on a card of a given size.
 */
#ifndef VS_MODEL_ALLOCATOR_H
#define VS_MODEL_ALLOCATOR_H

#include "model/tape.h"

struct vs_allocator;

/* `capacity`: bytes that the allocator can have from the device, UINT64_MAX for no limit. The settings are those of a
 * fresh PyTorch. -ENOMEM. */
int vs_allocator_new(uint64_t capacity, struct vs_allocator **ret_allocator);
void vs_allocator_free(struct vs_allocator *allocator); /* accepts NULL */

/* For vs_forecast_job(); the allocator must outlive the call. One tape after another: each begins with an empty
 * cache. A tape that runs out ends with -ENOMEM. */
struct vs_tape_memory vs_allocator_memory(struct vs_allocator *allocator);
/* The most bytes it held from the device, over all tapes so far. */
uint64_t vs_allocator_reserved(const struct vs_allocator *allocator);

#endif
