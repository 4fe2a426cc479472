/* SPDX-License-Identifier: MIT
 *
 * Parameters, gradients and states spread over data-parallel ranks: what a rank keeps, and the buffers it gathers and
 * reduces through.
 */
#ifndef VS_MODEL_SHARD_H
#define VS_MODEL_SHARD_H

#include "model/job.h"

/* Parameters that are gathered together: a layer, or what is outside of the layers. */
struct vs_unit {
	const struct vs_job *job;
	struct vs_unit *previous; /* whose parameters the backward gathers next; NULL: none */
	struct vs_unit *root;
	int first, last; /* parameters [first, last) */
	bool keeps;      /* gathered until its backward is over */
	bool gathered;
	struct vs_var whole, buffer; /* the gathered parameters, and what they arrived in */
	struct vs_var reducing;      /* of the root alone: the buffer of the latest reduction */
	uint64_t waiting;            /* of the root alone: elements in the bucket that are not reduced yet */
	struct vs_var arriving;      /* of the root alone: forward keeps the latest buffer until the next */
};

void vs_unit_init(struct vs_unit *unit, const struct vs_job *job, struct vs_unit *root, int first, int last);
/* Which of the layers' units stay gathered between forward and backward: DeepSpeed's ZeRO-3 lets the last ones, up to
 * max_live_parameters; FSDP none. */
void vs_units_keep(const struct vs_tape *tape, const struct vs_job *job, struct vs_unit *units, size_t count);
void vs_unit_before_forward(struct vs_tape *tape, struct vs_unit *unit);
void vs_unit_after_forward(struct vs_tape *tape, struct vs_unit *unit);
/* Hooks for the backward, with the unit as context. */
vs_tape_hook vs_unit_before_backward;
vs_tape_hook vs_unit_after_backward;
/* After a whole backward: nothing is in flight any more. */
void vs_unit_settle(struct vs_tape *tape, struct vs_unit *root);

/* Are parameters, gradients, optimizer states spread? */
bool vs_shards_parameters(const struct vs_job *job);
bool vs_shards_gradients(const struct vs_job *job);
bool vs_shards_states(const struct vs_job *job);
/* Are this rank's shares of parameters and gradients in host memory, not only its states (FSDP's CPUOffloadPolicy)?
 */
bool vs_shards_on_host(const struct vs_job *job);
/* This rank's share of `count` elements. */
uint64_t vs_shard_share(const struct vs_job *job, uint64_t count);
/* Bytes an element of the shared, stored parameter. */
uint8_t vs_shard_stored_size(const struct vs_job *job);
/* Bytes of buffers that exist for the whole training, given the trainable elements: for communication, and for this
 * rank's share of the gradients where that is one flat buffer. */
uint64_t vs_shard_persistent(const struct vs_job *job, uint64_t trainable);
uint64_t vs_shard_gradient_buffer(const struct vs_job *job, uint64_t trainable);
/* Bytes of the copies that the optimizer's step makes of the gradients. */
uint64_t vs_shard_step_copies(const struct vs_job *job, uint64_t trainable);

#endif
