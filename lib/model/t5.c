/* SPDX-License-Identifier: MIT
 *
 * T5's layers: self-attention with a learned position bias, cross-attention in the decoder, a plain or gated
 * feed-forward.
 */
#include "model/layer.h"

void vs_t5_build(struct vs_layer *l)
{
	const struct vs_shape *s = &l->job->shape;
	uint64_t width = s->heads / l->job->tensor_parallel * s->head_dim;

	l->cross_q = vs_layer_linear(l, VS_LORA_Q, width, s->hidden, false);
	l->cross_k = vs_layer_linear(l, VS_LORA_K, width, s->hidden, false);
	l->cross_v = vs_layer_linear(l, VS_LORA_V, width, s->hidden, false);
	l->cross_o = vs_layer_linear(l, VS_LORA_O, s->hidden, width, false);
	l->norms[2][0] = vs_layer_param(l, s->hidden);
}

struct projections {
	const struct vs_linear *q, *k, *v, *o;
};

static struct vs_var attend(struct vs_layer *l, const struct projections *p, const struct vs_heads *h,
                            struct vs_var x, struct vs_var source)
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var q = vs_op_linear(l->ops, p->q, x), k = vs_op_linear(l->ops, p->k, source);
	struct vs_var v = vs_op_linear(l->ops, p->v, source);
	struct vs_var y = vs_op_attention(l->ops, h, vs_job_attention(l->job), q, k, v), z;

	vs_drop(t, q);
	vs_drop(t, k);
	vs_drop(t, v);
	z = vs_op_linear(l->ops, p->o, y);
	vs_drop(t, y);
	return z;
}

/* x + dropout(y), y being given up. */
static struct vs_var plus(struct vs_layer *l, struct vs_var x, struct vs_var y)
{
	struct vs_var dropped = vs_op_dropout(l->ops, y, l->job->shape.dropout_hidden), sum;

	vs_drop(l->ops->tape, y);
	sum = vs_op_add(l->ops, x, dropped);
	vs_drop(l->ops->tape, dropped);
	return sum;
}

/* Zeros stand in for the position bias that cross-attention has not; the first layer makes them for all. */
static struct vs_var cross(struct vs_layer *l, struct vs_var x)
{
	const struct projections p = {&l->cross_q, &l->cross_k, &l->cross_v, &l->cross_o};
	struct vs_tape *t = l->ops->tape;
	struct vs_heads h = vs_layer_heads(l);
	struct vs_var a = vs_op_rms_norm_t5(l->ops, l->norms[2][0], x), y;

	h.causal = false;
	h.bias = &l->zeros;
	h.bias_whole = true;
	y = attend(l, &p, &h, a, l->memory);
	vs_drop(t, a);
	return plus(l, x, y);
}

struct vs_var vs_t5_forward(struct vs_layer *l, struct vs_var x)
{
	const struct projections p = {&l->q, &l->k, &l->v, &l->o};
	struct vs_tape *t = l->ops->tape;
	struct vs_heads h = vs_layer_heads(l);
	struct vs_var a = vs_op_rms_norm_t5(l->ops, l->norms[0][0], x), y, z;

	h.causal = l->decoder;
	h.bias = &l->bias;
	y = plus(l, x, attend(l, &p, &h, a, a));
	vs_drop(t, a);
	if (l->decoder) {
		z = cross(l, y);
		vs_drop(t, y);
		y = z;
	}
	a = vs_op_rms_norm_t5(l->ops, l->norms[1][0], y);
	z = plus(l, y, vs_layer_mlp(l, a));
	vs_drop(t, a);
	vs_drop(t, y);
	return z;
}
