/* SPDX-License-Identifier: MIT
 *
 * A mixture of experts as transformers 5 runs it: tokens gathered by expert, two grouped matrix products, the results
 * weighted, put back in order and summed. Balanced routing: every rank of expert parallelism sees its even share.
 */
#include "model/layer.h"

static uint64_t bytes_of(struct vs_var x)
{
	return x.count * x.size;
}

/* Rows picked by index; the backward adds them into zeros of the source's size. */
static struct vs_var pick(struct vs_ops *o, struct vs_var x, uint64_t count)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	return vs_op_end(o->tape, count, x.size);
}

/* One product for all experts: rows x in by experts x out x in. Autocast does not know grouped_mm: it computes in
 * what it is given. */
static struct vs_var grouped(struct vs_ops *o, int weight, struct vs_var x, uint64_t count)
{
	struct vs_tape *t = o->tape;
	struct vs_var w = vs_tape_param_var(t, weight), y;

	vs_op_begin(t);
	vs_op_input(t, x, bytes_of(x), 0);
	vs_op_input(t, w, w.count * w.size, 0);
	if (w.node >= 0)
		vs_op_save(t, x);
	if (x.node >= 0)
		vs_op_save(t, w);
	y = vs_op_end(t, count, x.size);
	vs_drop(t, w);
	return y;
}

/* gate and up are halves of one tensor: both are saved by saving it, and their gradients are put together. */
static struct vs_var gated(struct vs_layer *l, struct vs_var both)
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var gate, up, act, y;

	vs_op_begin(t);
	vs_op_input(t, both, bytes_of(both), 0);
	gate = vs_op_end_view(t, both);
	gate.count /= 2;
	up = vs_op_more_view(t, gate, 1);
	act = vs_op_unary_input(l->ops, gate);
	y = vs_op_mul(l->ops, act, up);
	vs_drop(t, act);
	vs_drop(t, up);
	vs_drop(t, gate);
	return y;
}

struct vs_var vs_moe_forward(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	const struct vs_shape *s = &l->job->shape;
	uint64_t tokens = x.count / s->hidden, pairs = tokens * s->experts_per_token;
	struct vs_var logits, scores, a, b;

	logits = vs_op_linear(l->ops, &l->router, x);
	scores = vs_op_softmax(l->ops, logits, 4);
	vs_drop(t, logits);
	a = pick(l->ops, x, pairs * s->hidden);
	b = grouped(l->ops, l->experts_up, a, pairs * 2 * s->expert_ffn);
	vs_drop(t, a);
	a = gated(l, b);
	vs_drop(t, b);
	b = grouped(l->ops, l->experts_down, a, pairs * s->hidden);
	vs_drop(t, a);
	logits = pick(l->ops, scores, pairs);
	vs_drop(t, scores);
	/* The weights broadcast over a row; fp32 weights make the product fp32. */
	a = vs_op_mul(l->ops, b, logits);
	vs_drop(t, logits);
	vs_drop(t, b);
	b = pick(l->ops, a, a.count); /* back in order */
	vs_drop(t, a);
	vs_op_begin(t); /* the sum over a token's experts */
	vs_op_input(t, b, 0, 0);
	a = vs_op_end(t, tokens * s->hidden, b.size);
	vs_drop(t, b);
	b = vs_op_cast(l->ops, a, x.size);
	vs_drop(t, a);
	return b;
}
