/* SPDX-License-Identifier: MIT
 *
 * One transformer layer on a tape.
 */
#ifndef VS_MODEL_LAYER_H
#define VS_MODEL_LAYER_H

#include "model/job.h"

struct vs_layer {
	const struct vs_job *job;
	struct vs_ops *ops;
	uint32_t index;
	bool moe;
	/* q holds the one projection of GPT-2; latent attention has q (or q_a, q_b), kv_a, kv_b and o. */
	struct vs_linear q, k, v, o, q_b, kv_b;
	int q_norm, k_norm;
	int norms[4][2]; /* before attention, after it; Gemma 2 has four */
	struct vs_linear gate, up, down;
	struct vs_linear router, shared_gate, shared_up, shared_down;
	int experts_up, experts_down;
	/* T5: a decoder layer attends to the encoder's output too. Set before each forward. */
	bool decoder;
	struct vs_linear cross_q, cross_k, cross_v, cross_o;
	struct vs_var memory, bias, zeros;
};

/* Puts layer number `index`'s parameters on the tape. */
void vs_layer_build(struct vs_layer *layer, const struct vs_job *job, struct vs_ops *ops, uint32_t index);
struct vs_var vs_layer_forward(struct vs_layer *layer, struct vs_var x);

struct vs_var vs_norm_forward(struct vs_ops *ops, enum vs_norm kind, const int params[2], struct vs_var x);
/* T5's layers, of both stacks; their parameters beyond an ordinary layer's. */
void vs_t5_build(struct vs_layer *layer);
struct vs_var vs_t5_forward(struct vs_layer *layer, struct vs_var x);
/* Shared by the layers' files. */
struct vs_linear vs_layer_linear(struct vs_layer *layer, uint32_t target, uint64_t out, uint64_t in, bool bias);
int vs_layer_param(struct vs_layer *layer, uint64_t count);
struct vs_heads vs_layer_heads(const struct vs_layer *layer);
struct vs_var vs_layer_mlp(struct vs_layer *layer, struct vs_var x);
struct vs_var vs_moe_forward(struct vs_layer *layer, struct vs_var x);
struct vs_var vs_latent_attention(struct vs_layer *layer, struct vs_var x);
/* Attention between the projections, by the job's kernel. */
struct vs_var vs_layer_core(struct vs_layer *layer, struct vs_var q, struct vs_var k, struct vs_var v);

/* Does a token see only those before it? */
bool vs_shape_causal(const struct vs_shape *shape);

#endif
