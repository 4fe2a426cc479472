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
/* How many lists over all parameters of one type are live at once (foreach), each in the elements' size. `l2_decay`:
 * weight decay is added to the gradients. */
unsigned vs_optimizer_lists(enum vs_optimizer optimizer, bool l2_decay);
/* Temporaries for one parameter at a time. */
uint64_t vs_optimizer_temporary(enum vs_optimizer optimizer, bool l2_decay, uint64_t count, uint64_t rows,
                                uint8_t size);
/* Whether this optimizer can add weight decay to the gradients at all. */
bool vs_optimizer_takes_l2(enum vs_optimizer optimizer);

#endif
