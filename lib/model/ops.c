/* SPDX-License-Identifier: MIT */
#include "model/ops.h"

static uint64_t bytes_of(struct vs_var x)
{
	return x.count * x.size;
}

static uint8_t wider(struct vs_var x, struct vs_var y)
{
	return x.size > y.size ? x.size : y.size;
}

struct vs_var vs_op_cast(struct vs_ops *o, struct vs_var x, uint8_t size)
{
	if (x.size == size)
		return vs_keep(o->tape, x);
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	return vs_op_end(o->tape, x.count, size);
}

/* x is cast once for every operator that takes it: autocast caches parameters, not activations. */
static struct vs_var to_compute(struct vs_ops *o, struct vs_var x)
{
	return o->autocast ? vs_op_cast(o, x, o->autocast) : vs_keep(o->tape, x);
}

static struct vs_var parameter(struct vs_ops *o, int param)
{
	return o->autocast ? vs_tape_cast_param(o->tape, param, o->autocast) : vs_tape_param_var(o->tape, param);
}

/* addmm and mm: the input is kept for the weight's gradient, the weight for the input's. */
static struct vs_var product(struct vs_ops *o, struct vs_var x, int weight, int bias, const struct vs_linear *l)
{
	struct vs_tape *t = o->tape;
	uint64_t rows = x.count / l->in;
	struct vs_var y, w = parameter(o, weight), b = {.storage = -1, .node = -1};

	if (bias >= 0)
		b = parameter(o, bias);
	vs_op_begin(t);
	vs_op_input(t, x, bytes_of(x), 0);
	vs_op_input(t, w, l->in * l->out * w.size, 0);
	if (w.node >= 0)
		vs_op_last_input_is_view(t);
	vs_op_input(t, b, 0, l->out * b.size);
	if (b.node >= 0)
		vs_op_last_input_reduce_workspace(t, vs_reduce_workspace(o, rows, l->out));
	if (w.node >= 0)
		vs_op_save(t, x);
	if (x.node >= 0)
		vs_op_save(t, w);
	vs_op_workspace(t, o->gemm_workspace);
	vs_op_backward_workspace(t, o->gemm_workspace);
	y = vs_op_end(t, rows * l->out, x.size);
	vs_drop(t, w);
	vs_drop(t, b);
	return y;
}

/* bitsandbytes MatMul4Bit: the weight as x's type in a temporary, forward and backward; x itself is not kept. */
static struct vs_var product_4bit(struct vs_ops *o, const struct vs_linear *l, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var w = vs_tape_param_var(t, l->weight), y;

	vs_op_begin(t);
	vs_op_input(t, x, bytes_of(x), 0);
	vs_op_save(t, w);
	vs_op_workspace(t, l->in * l->out * x.size + o->gemm_workspace);
	vs_op_backward_workspace(t, l->in * l->out * x.size + o->gemm_workspace);
	y = vs_op_end(t, x.count / l->in * l->out, x.size);
	vs_drop(t, w);
	return y;
}

static struct vs_var base_product(struct vs_ops *o, const struct vs_linear *l, struct vs_var x)
{
	struct vs_var compute, y, back;

	if (!l->quantized) {
		compute = to_compute(o, x);
		y = product(o, compute, l->weight, l->bias, l);
		vs_drop(o->tape, compute);
		return y;
	}
	/* Linear4bit: to the compute type (16 bits), and back to the input's. */
	compute = vs_op_cast(o, x, 2);
	y = product_4bit(o, l, compute);
	vs_drop(o->tape, compute);
	back = o->autocast ? vs_keep(o->tape, y) : vs_op_cast(o, y, x.size);
	vs_drop(o->tape, y);
	return back;
}

/* peft's layer: base(x) + B(A(x)) * scaling, the adapter in its own type, the sum cast back to the base's. */
static struct vs_var adapted(struct vs_ops *o, const struct vs_linear *l, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	uint8_t adapter = vs_tape_param_spec(t, l->lora_a)->size;
	struct vs_var result = base_product(o, l, x), y, a, b, cast;
	uint8_t size = result.size;
	struct vs_linear down = *l, up = *l;

	down.out = up.in = l->rank;
	if (l->quantized) {
		y = vs_op_copy(o, result, result.count);
		vs_drop(t, result);
		result = y;
	}
	cast = o->autocast ? vs_op_cast(o, x, o->autocast) : vs_op_cast(o, x, adapter);
	a = product(o, cast, l->lora_a, -1, &down);
	b = product(o, a, l->lora_b, -1, &up);
	vs_drop(t, a);
	y = vs_op_pointwise(o, b, 0); /* times scaling */
	vs_drop(t, b);
	if (l->quantized) {
		b = vs_op_cast(o, y, size);
		vs_drop(t, y);
		y = b;
	}
	b = vs_op_add(o, result, y);
	vs_drop(t, y);
	vs_drop(t, result);
	y = vs_op_cast(o, b, size);
	vs_drop(t, b);
	vs_drop(t, cast);
	return y;
}

struct vs_var vs_op_linear(struct vs_ops *o, const struct vs_linear *l, struct vs_var x)
{
	return l->lora_a >= 0 ? adapted(o, l, x) : base_product(o, l, x);
}

/* A sum's gradient is passed on as it is; a smaller or narrower input's is then reduced to its own shape and type. */
static void pass_to(struct vs_tape *t, struct vs_var x, uint64_t count, uint8_t size)
{
	vs_op_input(t, x, 0, x.count < count || x.size < size ? bytes_of(x) : 0);
}

struct vs_var vs_op_add(struct vs_ops *o, struct vs_var x, struct vs_var y)
{
	uint64_t count = x.count > y.count ? x.count : y.count;
	uint8_t size = wider(x, y);

	vs_op_begin(o->tape);
	pass_to(o->tape, x, count, size);
	pass_to(o->tape, y, count, size);
	return vs_op_end(o->tape, count, size);
}

/* `vector`: x is a row that is repeated over all others, as a norm's weight. */
static struct vs_var multiply(struct vs_ops *o, struct vs_var x, struct vs_var y, bool vector)
{
	uint64_t count = x.count > y.count ? x.count : y.count;
	uint8_t size = wider(x, y);
	struct vs_tape *t = o->tape;

	vs_op_begin(t);
	vs_op_input(t, x, count * size, x.count < count || x.size < size ? bytes_of(x) : 0);
	if (x.node >= 0 && x.count < count && vector)
		vs_op_last_input_reduce_workspace(t, vs_reduce_workspace(o, count / x.count, x.count));
	vs_op_input(t, y, count * size, y.count < count || y.size < size ? bytes_of(y) : 0);
	if (y.node >= 0)
		vs_op_save(t, x);
	if (x.node >= 0)
		vs_op_save(t, y);
	return vs_op_end(t, count, size);
}

struct vs_var vs_op_mul(struct vs_ops *o, struct vs_var x, struct vs_var y)
{
	return multiply(o, x, y, false);
}

struct vs_var vs_op_pointwise(struct vs_ops *o, struct vs_var x, uint8_t size)
{
	size = size > x.size ? size : x.size;
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, x.count * size, size > x.size ? bytes_of(x) : 0);
	return vs_op_end(o->tape, x.count, size);
}

struct vs_var vs_op_unary_input(struct vs_ops *o, struct vs_var x)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	vs_op_save(o->tape, x);
	return vs_op_end(o->tape, x.count, x.size);
}

struct vs_var vs_op_unary_output(struct vs_ops *o, struct vs_var x)
{
	struct vs_var y;

	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	y = vs_op_end(o->tape, x.count, x.size);
	vs_op_save_output(o->tape, y);
	return y;
}

/* pow(x, n): fp32 under autocast. Backward: grad * (n * x^(n-1)), one factor beside the result at a time. */
struct vs_var vs_op_power(struct vs_ops *o, struct vs_var x)
{
	struct vs_var cast = o->autocast ? vs_op_cast(o, x, 4) : vs_keep(o->tape, x), y;

	vs_op_begin(o->tape);
	vs_op_input(o->tape, cast, bytes_of(cast), 0);
	vs_op_save(o->tape, cast);
	vs_op_backward_workspace(o->tape, bytes_of(cast));
	y = vs_op_end(o->tape, cast.count, cast.size);
	vs_drop(o->tape, cast);
	return y;
}

/* 0.5 * x * (1.0 + tanh(c * (x + 0.044715 * pow(x, 3)))) */
struct vs_var vs_op_gelu_python(struct vs_ops *o, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var half = vs_op_pointwise(o, x, 0);
	struct vs_var a = vs_op_power(o, x), b = vs_op_pointwise(o, a, 0);

	vs_drop(t, a);
	a = vs_op_add(o, x, b);
	vs_drop(t, b);
	b = vs_op_pointwise(o, a, 0);
	vs_drop(t, a);
	a = vs_op_unary_output(o, b);
	vs_drop(t, b);
	b = vs_op_copy(o, a, a.count); /* 1 + y: a new tensor whose gradient is passed on */
	vs_drop(t, a);
	a = vs_op_mul(o, half, b);
	vs_drop(t, b);
	vs_drop(t, half);
	return a;
}

struct vs_var vs_op_dropout(struct vs_ops *o, struct vs_var x, double probability)
{
	struct vs_var y;

	if (!(probability > 0))
		return vs_keep(o->tape, x);
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	y = vs_op_end(o->tape, x.count, x.size);
	vs_op_save_bytes(o->tape, y, x.count); /* the mask, a byte an element */
	return y;
}

struct vs_var vs_op_softmax(struct vs_ops *o, struct vs_var x, uint8_t size)
{
	struct vs_var y, cast = x;

	/* softmax(dtype=float32) of fp16 is one kernel; of bf16, and under autocast, a cast and a kernel. */
	cast = o->autocast || (size == 4 && !o->fp16) ? vs_op_cast(o, x, 4) : vs_keep(o->tape, x);
	size = size > cast.size ? size : cast.size;
	vs_op_begin(o->tape);
	vs_op_input(o->tape, cast, bytes_of(cast), 0);
	/* softmax_backward_cuda_out: tmp = grad * output */
	vs_op_backward_workspace(o->tape, cast.count * size);
	y = vs_op_end(o->tape, cast.count, size);
	vs_op_save_output(o->tape, y);
	vs_drop(o->tape, cast);
	return y;
}

struct vs_var vs_op_layer_norm(struct vs_ops *o, int weight, int bias, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var cast = o->autocast ? vs_op_cast(o, x, 4) : vs_keep(t, x);
	struct vs_var w = vs_tape_param_var(t, weight), b = vs_tape_param_var(t, bias), y;
	uint64_t rows = cast.count / w.count;

	vs_op_begin(t);
	vs_op_input(t, cast, bytes_of(cast), 0);
	vs_op_input(t, w, bytes_of(w), 0);
	vs_op_input(t, b, bytes_of(b), 0);
	vs_op_save(t, cast);
	vs_op_save(t, w);
	y = vs_op_end(t, cast.count, cast.size);
	vs_op_save_bytes(t, y, rows * 4); /* mean and 1/std in fp32 */
	vs_op_save_bytes(t, y, rows * 4);
	vs_drop(t, w);
	vs_drop(t, b);
	vs_drop(t, cast);
	return y;
}

/* mean(pow(x, 2)) + eps, rsqrt: rows of fp32. */
static struct vs_var inverse_rms(struct vs_ops *o, struct vs_var x, uint64_t width)
{
	struct vs_tape *t = o->tape;
	struct vs_var square = vs_op_power(o, x), mean, y;

	vs_op_begin(t);
	vs_op_input(t, square, bytes_of(square), 0); /* grad / width, expanded */
	mean = vs_op_end(t, x.count / width, square.size);
	vs_drop(t, square);
	y = vs_op_pointwise(o, mean, 0);
	vs_drop(t, mean);
	mean = vs_op_unary_output(o, y);
	vs_drop(t, y);
	return mean;
}

struct vs_var vs_op_rms_norm(struct vs_ops *o, int weight, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var wide = vs_op_cast(o, x, 4), w, inverse, normal, narrow, y;

	inverse = inverse_rms(o, wide, vs_tape_param_spec(t, weight)->count);
	normal = vs_op_mul(o, wide, inverse);
	vs_drop(t, inverse);
	vs_drop(t, wide);
	narrow = vs_op_cast(o, normal, x.size);
	w = vs_tape_param_var(t, weight);
	y = multiply(o, w, narrow, true);
	vs_drop(t, narrow);
	vs_drop(t, normal);
	vs_drop(t, w);
	return y;
}

struct vs_var vs_op_rms_norm_gemma(struct vs_ops *o, int weight, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var wide = vs_op_cast(o, x, 4), w, one, inverse, normal, y;

	inverse = inverse_rms(o, wide, vs_tape_param_spec(t, weight)->count);
	normal = vs_op_mul(o, wide, inverse);
	vs_drop(t, inverse);
	vs_drop(t, wide);
	y = vs_tape_param_var(t, weight);
	w = vs_op_cast(o, y, 4);
	vs_drop(t, y);
	one = vs_op_pointwise(o, w, 0);
	vs_drop(t, w);
	y = multiply(o, one, normal, true);
	vs_drop(t, one);
	vs_drop(t, normal);
	w = vs_op_cast(o, y, x.size);
	vs_drop(t, y);
	return w;
}

/* T5's multiplies the 16-bit input by the fp32 inverse, which makes the product fp32. */
struct vs_var vs_op_rms_norm_t5(struct vs_ops *o, int weight, struct vs_var x)
{
	struct vs_tape *t = o->tape;
	struct vs_var wide = vs_op_cast(o, x, 4), w, inverse, normal, narrow, y;

	inverse = inverse_rms(o, wide, vs_tape_param_spec(t, weight)->count);
	vs_drop(t, wide);
	normal = vs_op_mul(o, x, inverse);
	vs_drop(t, inverse);
	w = vs_tape_param_var(t, weight);
	narrow = vs_op_cast(o, normal, w.size);
	vs_drop(t, normal);
	y = multiply(o, w, narrow, true);
	vs_drop(t, narrow);
	vs_drop(t, w);
	return y;
}

struct vs_var vs_op_gather(struct vs_ops *o, struct vs_var x, uint32_t ranks)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	vs_op_workspace(o->tape, ranks * bytes_of(x));
	vs_op_backward_workspace(o->tape, ranks * bytes_of(x));
	return vs_op_end(o->tape, ranks * x.count, x.size);
}

struct vs_var vs_op_scatter(struct vs_ops *o, struct vs_var x, uint32_t ranks)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, bytes_of(x), 0);
	vs_op_workspace(o->tape, bytes_of(x));
	vs_op_backward_workspace(o->tape, bytes_of(x));
	return vs_op_end(o->tape, x.count / ranks, x.size);
}

struct vs_var vs_op_embedding(struct vs_ops *o, int weight, uint64_t rows, uint64_t width)
{
	struct vs_var w = vs_tape_param_var(o->tape, weight), y;

	vs_op_begin(o->tape);
	vs_op_input(o->tape, w, bytes_of(w), 0);
	/* embedding_dense_backward sorts the indices: four int64 arrays of them. */
	vs_op_backward_workspace(o->tape, rows * 8 * 4);
	y = vs_op_end(o->tape, rows * width, w.size);
	vs_drop(o->tape, w);
	return y;
}

struct vs_var vs_op_copy(struct vs_ops *o, struct vs_var x, uint64_t count)
{
	vs_op_begin(o->tape);
	vs_op_input(o->tape, x, 0, x.count < count ? bytes_of(x) : 0);
	return vs_op_end(o->tape, count, x.size);
}

struct vs_var vs_op_bmm(struct vs_ops *o, struct vs_var a, struct vs_var b, uint64_t count)
{
	struct vs_tape *t = o->tape;
	struct vs_var ca = to_compute(o, a), cb = to_compute(o, b), y;

	vs_op_begin(t);
	vs_op_input(t, ca, bytes_of(ca), 0);
	vs_op_input(t, cb, bytes_of(cb), 0);
	if (cb.node >= 0)
		vs_op_save(t, ca);
	if (ca.node >= 0)
		vs_op_save(t, cb);
	vs_op_workspace(t, o->gemm_workspace);
	vs_op_backward_workspace(t, o->gemm_workspace);
	y = vs_op_end(t, count, ca.size);
	vs_drop(t, ca);
	vs_drop(t, cb);
	return y;
}

/* x * cos + rotate_half(x) * sin; the tables need no gradient, so x is not kept. */
struct vs_var vs_op_rotary(struct vs_ops *o, struct vs_var x, uint8_t table_size)
{
	struct vs_tape *t = o->tape;
	struct vs_var straight = vs_op_pointwise(o, x, table_size), negated, turned, y;

	vs_op_begin(t); /* -x2: half of x; its gradient becomes a whole one with zeros */
	vs_op_input(t, x, bytes_of(x), 0);
	vs_op_backward_workspace(t, bytes_of(x) / 2);
	negated = vs_op_end(t, x.count / 2, x.size);
	vs_op_begin(t); /* cat(-x2, x1) */
	vs_op_input(t, negated, 0, 0);
	vs_op_input(t, x, bytes_of(x), 0);
	turned = vs_op_end(t, x.count, x.size);
	vs_drop(t, negated);
	negated = vs_op_pointwise(o, turned, table_size);
	vs_drop(t, turned);
	y = vs_op_add(o, straight, negated);
	vs_drop(t, straight);
	vs_drop(t, negated);
	return y;
}

struct vs_var vs_op_fused_loss(struct vs_ops *o, const struct vs_linear *head, struct vs_var x, uint32_t chunks)
{
	struct vs_tape *t = o->tape;
	uint64_t tokens = x.count / head->in, rows = (tokens + chunks - 1) / chunks;
	struct vs_var cast = to_compute(o, x), w = parameter(o, head->weight), loss;

	vs_op_begin(t);
	vs_op_input(t, cast, bytes_of(cast), 0);
	vs_op_input(t, w, w.count * w.size, 0);
	loss = vs_op_end(t, 1, 4);
	vs_op_save_gradient(t, loss, cast, bytes_of(cast));
	vs_op_save_gradient(t, loss, w, w.count * w.size);
	/* Beside those gradients: every token's loss, and the logits of a piece, which become their own gradient. */
	vs_touch(t, tokens * 4 + rows * head->out * cast.size + o->gemm_workspace, VS_TAG_TEMPORARIES);
	vs_drop(t, w);
	vs_drop(t, cast);
	return loss;
}

struct vs_var vs_op_cross_entropy(struct vs_ops *o, struct vs_var logits, bool upcast, bool sharded)
{
	struct vs_tape *t = o->tape;
	struct vs_var wide = vs_op_cast(o, logits, upcast ? 4 : logits.size), log, picked, loss;

	vs_op_begin(t);
	vs_op_input(t, wide, bytes_of(wide), 0);
	/* torch/distributed/tensor/parallel/loss.py: (gradient + exp(x)) * factor, each a tensor of its own. */
	vs_op_backward_workspace(t, sharded ? bytes_of(wide) : 0);
	log = vs_op_end(t, wide.count, wide.size);
	vs_op_save_output(t, log);
	picked = o->autocast ? vs_op_cast(o, log, 4) : vs_keep(t, log);
	vs_op_begin(t); /* nll_loss: one element of a row, but its gradient is the whole matrix */
	vs_op_input(t, picked, bytes_of(picked), 0);
	vs_op_save(t, picked);
	loss = vs_op_end(t, 1, picked.size);
	vs_drop(t, picked);
	vs_drop(t, log);
	vs_drop(t, wide);
	return loss;
}
