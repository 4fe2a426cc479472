/* SPDX-License-Identifier: MIT
 *
 * What optimizers keep for each parameter, and what they allocate while they step.
 */
#ifndef VS_MODEL_OPTIMIZER_H
#define VS_MODEL_OPTIMIZER_H

#include "model/job.h"

struct vs_optimizer_state;

/* Bytes of one parameter's state, block by block (each is an allocation), at most `room`: returns how many. `rows`
 * and `count` in elements, `size` bytes an element of the tensor the optimizer works on. */
size_t vs_optimizer_blocks(enum vs_optimizer optimizer, uint64_t count, uint64_t rows, uint8_t size, uint64_t *blocks,
                           size_t room);
/* Bytes an element of state without rounding: the regime tables' figure. */
double vs_optimizer_bytes(enum vs_optimizer optimizer, uint8_t size);
/* A list over all parameters of one type is live at once (foreach), in elements' size; 0: none. */
bool vs_optimizer_foreach(enum vs_optimizer optimizer);
/* Temporaries for one parameter at a time. */
uint64_t vs_optimizer_temporary(enum vs_optimizer optimizer, uint64_t count, uint64_t rows, uint8_t size);

#endif
