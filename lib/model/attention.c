/* SPDX-License-Identifier: MIT
 *
 * Attention, one function an implementation.
 */
#include "model/ops.h"

static uint64_t bytes_of(struct vs_var x)
{
	return x.count * x.size;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* repeat_kv: heads that share keys get copies of them. */
static struct vs_var repeated(struct vs_ops *o, const struct vs_heads *h, struct vs_var x, uint64_t dim)
{
	uint64_t count = h->batch * h->heads * h->keys * dim;

	return x.count == count ? vs_keep(o->tape, x) : vs_op_copy(o, x, count);
}

/* matmul over (batch, heads) needs one stride for both. A projection seen as B A S d has none once B > 1, and is
 * copied; with one sequence, or once it is a copy already, it is not. */
static struct vs_var foldable(struct vs_ops *o, const struct vs_heads *h, struct vs_var x, bool copied)
{
	return h->batch > 1 && !copied ? vs_op_copy(o, x, x.count) : vs_keep(o->tape, x);
}

/* Under autocast the copy is made of what was cast. */
static struct vs_var operand(struct vs_ops *o, const struct vs_heads *h, struct vs_var x, bool copied)
{
	struct vs_var cast = o->autocast ? vs_op_cast(o, x, o->autocast) : vs_keep(o->tape, x);
	struct vs_var y = foldable(o, h, cast, copied);

	vs_drop(o->tape, cast);
	return y;
}

static struct vs_var eager_scores(struct vs_ops *o, const struct vs_heads *h, struct vs_var q, struct vs_var k)
{
	struct vs_tape *t = o->tape;
	uint64_t count = h->batch * h->heads * h->seq * h->keys;
	struct vs_var a = operand(o, h, q, false), b = operand(o, h, k, h->kv_heads != h->heads), x, y;

	x = vs_op_bmm(o, a, b, count);
	vs_drop(t, a);
	vs_drop(t, b);
	y = vs_op_pointwise(o, x, 0); /* times scaling */
	vs_drop(t, x);
	if (h->softcap) { /* tanh(scores / cap) * cap */
		x = vs_op_pointwise(o, y, 0);
		vs_drop(t, y);
		y = vs_op_unary_output(o, x);
		vs_drop(t, x);
		x = vs_op_pointwise(o, y, 0);
		vs_drop(t, y);
		y = x;
	}
	if (h->bias) {
		x = vs_op_add(o, y, *h->bias);
		vs_drop(t, y);
		y = x;
	}
	if (!h->causal)
		return y;
	vs_op_begin(t); /* plus the mask */
	vs_op_input(t, y, 0, 0);
	x = vs_op_end(t, count, y.size);
	vs_drop(t, y);
	return x;
}

static struct vs_var eager(struct vs_ops *o, const struct vs_heads *h, struct vs_var q, struct vs_var k,
                           struct vs_var v)
{
	struct vs_tape *t = o->tape;
	struct vs_var keys = repeated(o, h, k, h->dim), values = repeated(o, h, v, h->v_dim), x, y, b;
	uint8_t size = o->autocast ? o->autocast : q.size;

	x = eager_scores(o, h, q, keys);
	y = vs_op_softmax(o, x, h->fp32_softmax ? 4 : 0);
	b = vs_op_cast(o, y, size);
	vs_drop(t, y);
	vs_drop(t, x); /* the name holds the scores until what replaces them is made */
	y = vs_op_dropout(o, b, h->dropout);
	vs_drop(t, b);
	b = operand(o, h, values, h->kv_heads != h->heads);
	x = vs_op_bmm(o, y, b, h->batch * h->heads * h->seq * h->v_dim);
	vs_drop(t, b);
	b = vs_op_copy(o, x, x.count); /* transpose(1, 2).contiguous() */
	vs_drop(t, x);
	vs_drop(t, y); /* the attention weights are a local of the function */
	vs_drop(t, keys);
	vs_drop(t, values);
	return b;
}

/* PyTorch's math kernel: both operands scaled, then as eager; the mask is made inside. */
static struct vs_var math(struct vs_ops *o, const struct vs_heads *h, struct vs_var q, struct vs_var k,
                          struct vs_var v)
{
	struct vs_tape *t = o->tape;
	uint64_t scores = h->batch * h->heads * h->seq * h->keys;
	struct vs_var keys = repeated(o, h, k, h->dim), values = repeated(o, h, v, h->v_dim);
	struct vs_var a = vs_op_pointwise(o, q, 0), b = vs_op_pointwise(o, keys, 0), x, y, mask = {.storage = -1};

	if (h->causal)
		mask = vs_new(t, h->seq * h->keys, q.size, VS_TAG_TEMPORARIES);
	x = vs_op_bmm(o, a, b, scores);
	vs_drop(t, a);
	vs_drop(t, b);
	y = vs_op_softmax(o, x, 0);
	vs_touch(t, scores, VS_TAG_TEMPORARIES); /* which rows are masked altogether */
	vs_drop(t, x);
	x = vs_op_pointwise(o, y, 0); /* where(...) */
	vs_drop(t, y);
	y = vs_op_dropout(o, x, h->dropout);
	vs_drop(t, x);
	x = vs_op_bmm(o, y, values, h->batch * h->heads * h->seq * h->v_dim);
	vs_drop(t, y);
	vs_drop(t, mask);
	vs_drop(t, keys);
	vs_drop(t, values);
	y = vs_op_copy(o, x, x.count);
	vs_drop(t, x);
	return y;
}

/* flash and efficient: inputs, output and one logarithm a row are kept; nothing grows with S^2. */
static struct vs_var fused(struct vs_ops *o, const struct vs_heads *h, bool flash, struct vs_var q, struct vs_var k,
                           struct vs_var v)
{
	struct vs_tape *t = o->tape;
	uint64_t rows = h->batch * h->heads, seq, workspace;
	struct vs_var cq = q, ck, cv, bias, y;

	cq = o->autocast ? vs_op_cast(o, q, o->autocast) : vs_keep(t, q);
	ck = o->autocast ? vs_op_cast(o, k, o->autocast) : vs_keep(t, k);
	cv = o->autocast ? vs_op_cast(o, v, o->autocast) : vs_keep(t, v);
	if (h->repeat) {
		y = repeated(o, h, ck, h->dim);
		vs_drop(t, ck);
		ck = y;
		y = repeated(o, h, cv, h->v_dim);
		vs_drop(t, cv);
		cv = y;
	}
	if (flash) {
		/* mha_bwd: the query's gradient is summed in fp32, rows rounded to 128, heads to 32 (above 128: 64)
		 * elements, and each row has a sum; shared keys get a gradient a head before they are added up. */
		seq = round_up(h->seq, 128);
		workspace = rows * seq * round_up(h->dim, h->dim > 128 ? 64 : 32) * 4 + rows * seq * 4;
		if (ck.count < h->batch * h->heads * h->keys * h->dim)
			workspace += h->batch * h->heads * h->keys * (h->dim + h->v_dim) * cq.size;
	} else {
		/* _efficient_attention_backward: a sum a row, and 16-bit gradients are summed in fp32. */
		workspace = rows * h->seq * 4;
		if (cq.size < 4)
			workspace += rows * round_up(h->seq, 64) * h->dim * 4;
	}
	if (!h->bias)
		bias = (struct vs_var){.storage = -1, .node = -1};
	else
		bias = h->bias_whole ? vs_keep(t, *h->bias) : vs_op_copy(o, *h->bias, h->bias->count);
	vs_op_begin(t);
	vs_op_input(t, cq, bytes_of(cq), 0);
	vs_op_input(t, ck, bytes_of(ck), 0);
	vs_op_input(t, cv, bytes_of(cv), 0);
	vs_op_input(t, bias, h->batch * bytes_of(bias), bytes_of(bias));
	vs_op_save(t, bias);
	vs_op_save(t, cq);
	vs_op_save(t, ck);
	vs_op_save(t, cv);
	vs_op_backward_workspace(t, workspace);
	y = vs_op_end(t, h->batch * h->seq * h->heads * h->v_dim, cq.size);
	vs_op_save_output(t, y);
	vs_op_save_bytes(t, y, rows * (flash ? h->seq : round_up(h->seq, 32)) * 4);
	vs_op_save_bytes(t, y, 16); /* the random generator's state */
	vs_drop(t, bias);
	vs_drop(t, cq);
	vs_drop(t, ck);
	vs_drop(t, cv);
	return y;
}

struct vs_var vs_op_attention(struct vs_ops *o, const struct vs_heads *h, enum vs_attention kind, struct vs_var q,
                              struct vs_var k, struct vs_var v)
{
	switch (kind) {
	case VS_ATTENTION_EAGER:
		return eager(o, h, q, k, v);
	case VS_ATTENTION_MATH:
		return math(o, h, q, k, v);
	case VS_ATTENTION_FLASH:
	case VS_ATTENTION_EFFICIENT:
	case VS_ATTENTION_AUTO:
		break;
	}
	return fused(o, h, kind == VS_ATTENTION_FLASH, q, k, v);
}
