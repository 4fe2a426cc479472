/* SPDX-License-Identifier: MIT
 *
 * DeepSeek's latent attention: queries and keys made from narrow vectors, part of each with rotary positions.
 */
#include "model/layer.h"

/* `count` elements of x as a view; its gradient becomes one of x's size with zeros around it. */
static struct vs_var part(struct vs_ops *o, struct vs_var x, uint64_t count)
{
	struct vs_var y;

	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, x.count * x.size, 0);
	y = vs_op_end_view(o->tape, x);
	y.count = count;
	return y;
}

/* cat((a, b), -1); b may be one head's, repeated for all. Gradients are views of the whole one. */
static struct vs_var joined(struct vs_ops *o, struct vs_var a, struct vs_var b, uint64_t count)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, a, 0, 0);
	vs_op_input(o->tape, b, 0, a.count + b.count < count ? b.count * b.size : 0);
	return vs_op_end(o->tape, count, a.size > b.size ? a.size : b.size);
}

static struct vs_var query(struct vs_layer *l, struct vs_var x, uint64_t rows)
{
	struct vs_tape *t = l->ops->tape;
	const struct vs_shape *s = &l->job->shape;
	struct vs_var a = vs_op_linear(l->ops, &l->q, x), b, rotated;

	if (s->q_lora) {
		b = vs_op_rms_norm(l->ops, l->q_norm, a);
		vs_drop(t, a);
		a = vs_op_linear(l->ops, &l->q_b, b);
		vs_drop(t, b);
	}
	b = part(l->ops, a, rows * s->rope_dim);
	rotated = vs_op_rotary(l->ops, b, x.size);
	vs_drop(t, b);
	b = part(l->ops, a, rows * s->nope_dim);
	x = joined(l->ops, b, rotated, rows * (s->nope_dim + s->rope_dim));
	vs_drop(t, rotated);
	vs_drop(t, b);
	vs_drop(t, a);
	return x;
}

struct vs_var vs_latent_attention(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	const struct vs_shape *s = &l->job->shape;
	uint64_t tokens = x.count / s->hidden, rows = tokens * (s->heads / l->job->tensor_parallel);
	struct vs_var q = query(l, x, rows), k, v, a, b, rotated, y;

	a = vs_op_linear(l->ops, &l->k, x);
	b = part(l->ops, a, tokens * s->rope_dim);
	rotated = vs_op_rotary(l->ops, b, x.size);
	vs_drop(t, b);
	b = part(l->ops, a, tokens * s->kv_lora);
	vs_drop(t, a);
	a = vs_op_rms_norm(l->ops, l->k_norm, b);
	vs_drop(t, b);
	b = vs_op_linear(l->ops, &l->kv_b, a);
	vs_drop(t, a);
	a = part(l->ops, b, rows * s->nope_dim);
	k = joined(l->ops, a, rotated, rows * (s->nope_dim + s->rope_dim));
	vs_drop(t, a);
	v = part(l->ops, b, rows * s->v_dim);
	vs_drop(t, b);
	vs_drop(t, rotated);
	y = vs_layer_core(l, q, k, v);
	vs_drop(t, q);
	vs_drop(t, k);
	vs_drop(t, v);
	a = vs_op_linear(l->ops, &l->o, y);
	vs_drop(t, y);
	return a;
}
