/* SPDX-License-Identifier: MIT */
#include "model/layer.h"

#include "model/shard.h"

bool vs_shape_causal(const struct vs_shape *s)
{
	return s->family != VS_FAMILY_BERT && s->family != VS_FAMILY_VIT;
}

static int matrix(struct vs_layer *l, uint64_t rows, uint64_t cols)
{
	bool sharded = vs_shards_parameters(l->job);
	struct vs_param_spec spec = {.count = rows * cols,
	                             .rows = rows,
	                             .size = sharded ? vs_job_compute_size(l->job) : vs_job_param_size(l->job),
	                             .trainable = !l->job->lora_rank};

	if (sharded)
		spec.stored_bytes = vs_shard_share(l->job, spec.count) * vs_shard_stored_size(l->job);
	spec.on_host = vs_shards_on_host(l->job);
	if (l->job->quantization)
		spec.size = 4;
	return vs_tape_param(l->ops->tape, &spec);
}

int vs_layer_param(struct vs_layer *l, uint64_t count)
{
	return matrix(l, 1, count);
}

/* NF4: half a byte an element, an fp32 constant for 64 of them and a code book of 16; double quantisation: a byte for
 * 64 elements and an fp32 constant for 256 of those. */
static int param_4bit(struct vs_layer *l, uint64_t count)
{
	uint64_t constants = (count + 63) / 64;
	struct vs_param_spec spec = {.count = count, .size = 2, .stored_bytes = (count + 1) / 2};

	if (l->job->quantization == VS_QUANTIZATION_NF4_DOUBLE)
		spec.extra_bytes = constants + (constants + 255) / 256 * 4 + 1024;
	else
		spec.extra_bytes = constants * 4;
	return vs_tape_param(l->ops->tape, &spec);
}

struct vs_linear vs_layer_linear(struct vs_layer *l, uint32_t target, uint64_t out, uint64_t in, bool bias)
{
	struct vs_linear x = VS_NO_LINEAR;
	/* peft keeps adapters of 16-bit and 4-bit bases in fp32. */
	struct vs_param_spec a = {.size = 4, .trainable = true};
	uint32_t rank = l->job->lora_rank;

	x.in = in;
	x.out = out;
	x.quantized = l->job->quantization != VS_QUANTIZATION_NONE;
	x.weight = x.quantized ? param_4bit(l, in * out) : matrix(l, out, in);
	if (bias)
		x.bias = vs_layer_param(l, out);
	if (rank && l->job->lora_targets & target) {
		x.rank = rank;
		a.count = rank * in;
		a.rows = rank;
		x.lora_a = vs_tape_param(l->ops->tape, &a);
		a.count = rank * out;
		a.rows = out;
		x.lora_b = vs_tape_param(l->ops->tape, &a);
	}
	return x;
}

static void build_attention(struct vs_layer *l)
{
	const struct vs_shape *s = &l->job->shape;
	uint64_t tp = l->job->tensor_parallel, heads = s->heads / tp;
	uint64_t kv_heads = s->kv_heads >= tp ? s->kv_heads / tp : 1;
	uint64_t q = heads * s->head_dim, kv = kv_heads * s->head_dim;

	if (s->kv_lora) {
		uint64_t qk = s->nope_dim + s->rope_dim;

		l->q = vs_layer_linear(l, VS_LORA_Q, s->q_lora ? s->q_lora : heads * qk, s->hidden,
		                       s->q_lora && s->out_bias);
		if (s->q_lora) {
			l->q_norm = vs_layer_param(l, s->q_lora);
			l->q_b = vs_layer_linear(l, VS_LORA_Q, heads * qk, s->q_lora, false);
		}
		l->k = vs_layer_linear(l, VS_LORA_K, s->kv_lora + s->rope_dim, s->hidden, s->out_bias);
		l->k_norm = vs_layer_param(l, s->kv_lora);
		l->kv_b = vs_layer_linear(l, VS_LORA_V, heads * (s->nope_dim + s->v_dim), s->kv_lora, false);
		l->o = vs_layer_linear(l, VS_LORA_O, s->hidden, heads * s->v_dim, s->out_bias);
		return;
	}
	if (s->family == VS_FAMILY_GPT2) {
		l->q = vs_layer_linear(l, VS_LORA_Q | VS_LORA_K | VS_LORA_V, q + 2 * kv, s->hidden, true);
	} else {
		l->q = vs_layer_linear(l, VS_LORA_Q, q, s->hidden, s->qkv_bias);
		l->k = vs_layer_linear(l, VS_LORA_K, kv, s->hidden, s->qkv_bias);
		l->v = vs_layer_linear(l, VS_LORA_V, kv, s->hidden, s->qkv_bias);
	}
	l->o = vs_layer_linear(l, VS_LORA_O, s->hidden, q, s->out_bias);
	if (s->qk_norm) {
		l->q_norm = vs_layer_param(l, s->head_dim);
		l->k_norm = vs_layer_param(l, s->head_dim);
	}
}

static void build_mlp(struct vs_layer *l)
{
	const struct vs_shape *s = &l->job->shape;
	uint64_t tp = l->job->tensor_parallel, experts = s->experts / l->job->expert_parallel;

	if (!l->moe) {
		if (s->gated)
			l->gate = vs_layer_linear(l, VS_LORA_GATE, s->ffn / tp, s->hidden, s->mlp_bias);
		l->up = vs_layer_linear(l, VS_LORA_UP, s->ffn / tp, s->hidden, s->mlp_bias);
		l->down = vs_layer_linear(l, VS_LORA_DOWN, s->hidden, s->ffn / tp, s->mlp_bias);
		return;
	}
	l->router = vs_layer_linear(l, 0, s->experts, s->hidden, false);
	l->experts_up = matrix(l, 2 * experts * s->expert_ffn, s->hidden);
	l->experts_down = matrix(l, experts * s->hidden, s->expert_ffn);
	if (s->shared_ffn) {
		l->shared_gate = vs_layer_linear(l, VS_LORA_GATE, s->shared_ffn / tp, s->hidden, false);
		l->shared_up = vs_layer_linear(l, VS_LORA_UP, s->shared_ffn / tp, s->hidden, false);
		l->shared_down = vs_layer_linear(l, VS_LORA_DOWN, s->hidden, s->shared_ffn / tp, false);
	}
}

void vs_layer_build(struct vs_layer *l, const struct vs_job *job, struct vs_ops *ops, uint32_t index)
{
	const struct vs_shape *s = &job->shape;

	*l = (struct vs_layer){.job = job, .ops = ops, .index = index, .q_norm = -1, .k_norm = -1};
	l->moe = s->experts && index >= s->first_dense && (index + 1) % s->moe_every == 0;
	l->q = l->k = l->v = l->o = l->q_b = l->kv_b = l->gate = l->up = l->down = VS_NO_LINEAR;
	l->shared_gate = l->shared_up = l->shared_down = VS_NO_LINEAR;
	l->cross_q = l->cross_k = l->cross_v = l->cross_o = VS_NO_LINEAR;
	l->decoder = s->decoder_layers && index >= s->layers;
	l->memory.storage = l->bias.storage = l->zeros.storage = -1;
	build_attention(l);
	build_mlp(l);
	for (uint64_t i = 0; i < s->layer_norms; i++) {
		l->norms[i][0] = vs_layer_param(l, s->hidden);
		if (s->norm == VS_NORM_LAYER)
			l->norms[i][1] = vs_layer_param(l, s->hidden);
	}
	if (l->decoder)
		vs_t5_build(l);
}

struct vs_var vs_norm_forward(struct vs_ops *o, enum vs_norm kind, const int params[2], struct vs_var x)
{
	switch (kind) {
	case VS_NORM_RMS:
		return vs_op_rms_norm(o, params[0], x);
	case VS_NORM_RMS_GEMMA:
		return vs_op_rms_norm_gemma(o, params[0], x);
	case VS_NORM_RMS_T5:
		return vs_op_rms_norm_t5(o, params[0], x);
	case VS_NORM_LAYER:
		break;
	}
	return vs_op_layer_norm(o, params[0], params[1], x);
}

struct vs_heads vs_layer_heads(const struct vs_layer *l)
{
	const struct vs_job *j = l->job;
	const struct vs_shape *s = &j->shape;
	uint64_t tp = j->tensor_parallel, seq = vs_shape_sequence(s, j->seq);

	return (struct vs_heads){
	    .batch = j->batch,
	    .seq = seq / j->context_parallel,
	    .keys = seq,
	    .heads = s->heads / tp,
	    .kv_heads = s->kv_lora          ? s->heads / tp
	                : s->kv_heads >= tp ? s->kv_heads / tp
	                                    : 1,
	    .dim = s->kv_lora ? s->nope_dim + s->rope_dim : s->head_dim,
	    .v_dim = s->kv_lora ? s->v_dim : s->head_dim,
	    .dropout = s->dropout_attention,
	    .causal = vs_shape_causal(s),
	    .fp32_softmax = s->family != VS_FAMILY_GPT2 && s->family != VS_FAMILY_BERT && s->family != VS_FAMILY_T5,
	    .softcap = s->softcap,
	    .repeat = j->repeat_kv,
	};
}

static struct vs_var run_core(struct vs_tape *t, void *context, const struct vs_var *inputs)
{
	const struct vs_layer *l = context;
	struct vs_heads h = vs_layer_heads(l);

	(void)t;
	return vs_op_attention(l->ops, &h, vs_job_attention(l->job), inputs[0], inputs[1], inputs[2]);
}

/* Selective checkpointing runs this part, which grows with the square of the sequence, again in the backward. */
struct vs_var vs_layer_core(struct vs_layer *l, struct vs_var q, struct vs_var k, struct vs_var v)
{
	const struct vs_var inputs[] = {q, k, v};

	if (l->job->checkpointing == VS_CHECKPOINTING_SELECTIVE)
		return vs_tape_checkpoint(l->ops->tape, run_core, l, inputs, 3);
	return run_core(l->ops->tape, l, inputs);
}

/* GPT-2: one projection seen as three. */
static struct vs_var attend_fused(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var qkv = vs_op_linear(l->ops, &l->q, x), q, k, v, y;

	vs_op_begin(t);
	vs_op_input(t, qkv, qkv.count * qkv.size, 0); /* split's backward concatenates */
	q = vs_op_end_view(t, qkv);
	q.count /= 3;
	k = vs_op_more_view(t, q, 1);
	v = vs_op_more_view(t, q, 2);
	y = vs_layer_core(l, q, k, v);
	vs_drop(t, q);
	vs_drop(t, k);
	vs_drop(t, v);
	vs_drop(t, qkv);
	x = vs_op_linear(l->ops, &l->o, y);
	vs_drop(t, y);
	return x;
}

/* Each position's head is normalised before the rotation. */
static struct vs_var head_norm(struct vs_layer *l, int weight, struct vs_var x)
{
	struct vs_var y = vs_op_rms_norm(l->ops, weight, x);

	vs_drop(l->ops->tape, x);
	return y;
}

static struct vs_var attend(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	const struct vs_shape *s = &l->job->shape;
	struct vs_var q, k, v, y, z;

	if (s->kv_lora)
		return vs_latent_attention(l, x);
	if (s->family == VS_FAMILY_GPT2)
		return attend_fused(l, x);
	q = vs_op_linear(l->ops, &l->q, x);
	if (l->q_norm >= 0)
		q = head_norm(l, l->q_norm, q);
	k = vs_op_linear(l->ops, &l->k, x);
	if (l->k_norm >= 0)
		k = head_norm(l, l->k_norm, k);
	v = vs_op_linear(l->ops, &l->v, x);
	if (s->gated) { /* rotary positions; the tables have the hidden state's type */
		y = vs_op_rotary(l->ops, q, x.size);
		z = vs_op_rotary(l->ops, k, x.size);
		vs_drop(t, q);
		vs_drop(t, k);
		q = y;
		k = z;
	}
	y = vs_layer_core(l, q, k, v);
	vs_drop(t, q);
	vs_drop(t, k);
	vs_drop(t, v);
	z = vs_op_linear(l->ops, &l->o, y);
	vs_drop(t, y);
	return z;
}

static struct vs_var activate(struct vs_layer *l, struct vs_var x)
{
	switch (l->job->shape.activation) {
	case VS_ACTIVATION_GELU_NEW:
	case VS_ACTIVATION_GELU_FAST:
		return vs_op_gelu_python(l->ops, x);
	case VS_ACTIVATION_RELU:
		return vs_op_unary_output(l->ops, x);
	case VS_ACTIVATION_SILU:
	case VS_ACTIVATION_GELU:
		break;
	}
	return vs_op_unary_input(l->ops, x);
}

static struct vs_var feed_forward(struct vs_layer *l, const struct vs_linear *gate, const struct vs_linear *up,
                                  const struct vs_linear *down, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var a, b, y;

	if (gate->weight < 0) {
		a = vs_op_linear(l->ops, up, x);
		y = activate(l, a);
		vs_drop(t, a);
	} else {
		a = vs_op_linear(l->ops, gate, x);
		b = activate(l, a);
		vs_drop(t, a);
		a = vs_op_linear(l->ops, up, x);
		y = vs_op_mul(l->ops, b, a);
		vs_drop(t, a);
		vs_drop(t, b);
	}
	if (l->job->shape.family == VS_FAMILY_T5) {
		a = vs_op_dropout(l->ops, y, l->job->shape.dropout_hidden);
		vs_drop(t, y);
		y = a;
	}
	a = vs_op_linear(l->ops, down, y);
	vs_drop(t, y);
	return a;
}

struct vs_var vs_layer_mlp(struct vs_layer *l, struct vs_var x)
{
	struct vs_var routed, shared, y;

	if (l->moe) {
		routed = vs_moe_forward(l, x);
		if (l->shared_up.weight < 0)
			return routed;
		shared = feed_forward(l, &l->shared_gate, &l->shared_up, &l->shared_down, x);
		y = vs_op_add(l->ops, routed, shared);
		vs_drop(l->ops->tape, shared);
		vs_drop(l->ops->tape, routed);
		return y;
	}
	return feed_forward(l, &l->gate, &l->up, &l->down, x);
}

/* Sequence parallel: attention and feed-forward see all tokens, the rest of the layer this rank's share of them. */
static struct vs_var over_all_tokens(struct vs_layer *l, struct vs_var x,
                                     struct vs_var (*run)(struct vs_layer *, struct vs_var))
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var all, y, share;

	if (!l->job->sequence_parallel)
		return run(l, x);
	all = vs_op_gather(l->ops, x, l->job->tensor_parallel);
	y = run(l, all);
	vs_drop(t, all);
	share = vs_op_scatter(l->ops, y, l->job->tensor_parallel);
	vs_drop(t, y);
	return share;
}

static struct vs_var normed(struct vs_layer *l, int which, struct vs_var x)
{
	return vs_norm_forward(l->ops, l->job->shape.norm, l->norms[which], x);
}

static struct vs_var plus(struct vs_layer *l, struct vs_var x, struct vs_var y)
{
	struct vs_var sum = vs_op_add(l->ops, x, y);

	vs_drop(l->ops->tape, y);
	return sum;
}

static struct vs_var dropped(struct vs_layer *l, struct vs_var x)
{
	struct vs_var y = vs_op_dropout(l->ops, x, l->job->shape.dropout_hidden);

	vs_drop(l->ops->tape, x);
	return y;
}

/* Norms after the residual sum (BERT). */
static struct vs_var forward_post(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	struct vs_var a = dropped(l, over_all_tokens(l, x, attend)), y, z;

	y = plus(l, x, a);
	z = normed(l, 0, y);
	vs_drop(t, y);
	a = dropped(l, over_all_tokens(l, z, vs_layer_mlp));
	y = plus(l, z, a);
	vs_drop(t, z);
	z = normed(l, 1, y);
	vs_drop(t, y);
	return z;
}

/* Norms before attention and feed-forward; Gemma 2 normalises their results too. */
static struct vs_var forward_pre(struct vs_layer *l, struct vs_var x)
{
	struct vs_tape *t = l->ops->tape;
	const struct vs_shape *s = &l->job->shape;
	bool four = s->layer_norms == 4;
	struct vs_var a = normed(l, 0, x), y, h;

	y = over_all_tokens(l, a, attend);
	vs_drop(t, a);
	if (four) {
		a = normed(l, 1, y);
		vs_drop(t, y);
		y = a;
	}
	h = plus(l, x, dropped(l, y));
	a = normed(l, four ? 2 : 1, h);
	y = over_all_tokens(l, a, vs_layer_mlp);
	vs_drop(t, a);
	if (four) {
		a = normed(l, 3, y);
		vs_drop(t, y);
		y = a;
	}
	a = plus(l, h, dropped(l, y));
	vs_drop(t, h);
	return a;
}

struct vs_var vs_layer_forward(struct vs_layer *l, struct vs_var x)
{
	if (l->job->shape.family == VS_FAMILY_T5)
		return vs_t5_forward(l, x);
	return l->job->shape.family == VS_FAMILY_BERT ? forward_post(l, x) : forward_pre(l, x);
}
