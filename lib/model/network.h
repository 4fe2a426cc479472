/* SPDX-License-Identifier: MIT
 *
 * A model laid out on a tape: its parameters, and the forward of one micro-batch as the published Python code runs
 * it.
 */
#ifndef VS_MODEL_NETWORK_H
#define VS_MODEL_NETWORK_H

#include "model/job.h"

struct vs_network;

/* Puts the parameters on the tape. `job` must outlive the network. -ENOMEM, or the tape's error. */
int vs_network_new(const struct vs_job *job, struct vs_ops *ops, struct vs_network **ret_network);
void vs_network_free(struct vs_network *network); /* accepts NULL */

struct vs_forward {
	struct vs_var loss;
	struct vs_var logits; /* what the output object holds */
	struct vs_var held;   /* ... and what else; storage -1: nothing */
};

/* Runs the forward of a micro-batch; the caller drops what it returns. */
struct vs_forward vs_network_forward(struct vs_network *network);

/* What a data-parallel framework does when a backward is over. */
void vs_network_after_backward(struct vs_network *network);

#endif
