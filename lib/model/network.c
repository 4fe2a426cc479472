/* SPDX-License-Identifier: MIT */
#include "model/network.h"

#include "model/layer.h"
#include "model/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct vs_network {
	const struct vs_job *job;
	struct vs_ops *ops;
	struct vs_layer *layers;
	size_t layer_count;
	struct vs_unit *units; /* one a layer */
	struct vs_unit root;
	struct vs_var memory, zeros, held_bias[2]; /* T5: what the backward's checkpoints need again */
	int embedding, positions, types, class_token;
	int embedding_norm[2], final_norm[2], decoder_norm[2];
	int relative[2]; /* T5: position biases of the two stacks */
	struct vs_linear patch, pooler, head, transform;
	int transform_norm[2];
};

static int matrix(struct vs_network *n, uint64_t rows, uint64_t cols)
{
	struct vs_param_spec spec = {
	    .count = rows * cols, .rows = rows, .size = vs_job_param_size(n->job), .trainable = !n->job->lora_rank};

	if (vs_shards_parameters(n->job))
		spec.stored_bytes = vs_shard_share(n->job, spec.count) * vs_shard_stored_size(n->job);
	spec.on_host = vs_shards_on_host(n->job);
	/* prepare_model_for_kbit_training: whatever is not quantised becomes fp32. */
	if (n->job->quantization)
		spec.size = 4;
	return vs_tape_param(n->ops->tape, &spec);
}

static int param(struct vs_network *n, uint64_t count)
{
	return matrix(n, 1, count);
}

static struct vs_linear dense(struct vs_network *n, uint64_t out, uint64_t in, bool bias)
{
	struct vs_linear l = VS_NO_LINEAR;

	l.in = in;
	l.out = out;
	l.weight = matrix(n, out, in);
	if (bias)
		l.bias = param(n, out);
	return l;
}

static void norm(struct vs_network *n, int pair[2])
{
	pair[0] = param(n, n->job->shape.hidden);
	if (n->job->shape.norm == VS_NORM_LAYER)
		pair[1] = param(n, n->job->shape.hidden);
}

static void build_ends(struct vs_network *n)
{
	const struct vs_shape *s = &n->job->shape;
	uint64_t tp = n->job->tensor_parallel, vocab = (s->vocab + tp - 1) / tp;

	bool first = n->job->stage == 0, last = n->job->stage + 1 == n->job->pipeline_parallel;

	n->head = n->pooler = n->transform = n->patch = VS_NO_LINEAR;
	n->embedding = n->positions = n->types = n->class_token = -1;
	if (!first) {
		if (last && s->head == VS_HEAD_LM && s->tied)
			n->embedding = matrix(n, vocab, s->hidden); /* the output projection's copy of it */
	} else if (s->family == VS_FAMILY_VIT) {
		n->class_token = param(n, s->hidden);
		n->positions = param(n, vs_shape_sequence(s, 0) * s->hidden);
		n->patch = dense(n, s->hidden, s->channels * s->patch * s->patch, true);
	} else {
		n->embedding = matrix(n, vocab, s->hidden);
		if (s->positions)
			n->positions = matrix(n, s->positions, s->hidden);
		if (s->token_types)
			n->types = matrix(n, s->token_types, s->hidden);
	}
	if (s->family == VS_FAMILY_BERT && first)
		norm(n, n->embedding_norm);
	if (!last)
		return;
	if (s->family != VS_FAMILY_BERT)
		norm(n, n->final_norm);
	if (s->decoder_layers) {
		norm(n, n->decoder_norm);
		n->relative[0] = matrix(n, s->relative_buckets, s->heads);
		n->relative[1] = matrix(n, s->relative_buckets, s->heads);
	}
	if (s->head == VS_HEAD_LM && s->family == VS_FAMILY_BERT) {
		n->transform = dense(n, s->hidden, s->hidden, true);
		norm(n, n->transform_norm);
	} else if ((s->family == VS_FAMILY_BERT) || (s->family == VS_FAMILY_VIT && s->head == VS_HEAD_NONE)) {
		n->pooler = dense(n, s->hidden, s->hidden, true);
	}
	if (s->head == VS_HEAD_LABELS) {
		n->head = dense(n, s->labels, s->hidden, true);
	} else if (s->head == VS_HEAD_LM) {
		n->head = VS_NO_LINEAR;
		n->head.in = s->hidden;
		n->head.out = vocab;
		n->head.weight = s->tied ? n->embedding : matrix(n, vocab, s->hidden);
		if (s->family == VS_FAMILY_BERT)
			n->head.bias = param(n, vocab);
	}
}

int vs_network_new(const struct vs_job *job, struct vs_ops *ops, struct vs_network **ret_network)
{
	struct vs_network *n = calloc(1, sizeof(*n));
	size_t count =
	    (job->shape.layers + job->shape.decoder_layers + job->pipeline_parallel - 1) / job->pipeline_parallel;

	if (!n)
		return -ENOMEM;
	n->job = job;
	n->ops = ops;
	n->layer_count = count;
	n->memory.storage = n->zeros.storage = n->held_bias[0].storage = n->held_bias[1].storage = -1;
	n->layers = calloc(count, sizeof(*n->layers));
	n->units = calloc(count, sizeof(*n->units));
	if (!n->layers || !n->units) {
		vs_network_free(n);
		return -ENOMEM;
	}
	build_ends(n);
	vs_unit_init(&n->root, job, &n->root, 0, (int)vs_tape_param_count(ops->tape));
	n->root.keeps = true;
	n->root.previous = &n->units[count - 1];
	for (size_t i = 0; i < count; i++) {
		int first = (int)vs_tape_param_count(ops->tape);

		vs_layer_build(&n->layers[i], job, ops, (uint32_t)i);
		vs_unit_init(&n->units[i], job, &n->root, first, (int)vs_tape_param_count(ops->tape));
		n->units[i].previous = i ? &n->units[i - 1] : NULL;
	}
	vs_units_keep(ops->tape, job, n->units, count);
	if (vs_tape_error(ops->tape)) {
		int error = vs_tape_error(ops->tape);

		vs_network_free(n);
		return error;
	}
	*ret_network = n;
	return 0;
}

void vs_network_free(struct vs_network *n)
{
	if (!n)
		return;
	free(n->layers);
	free(n->units);
	free(n);
}

static struct vs_var embed_image(struct vs_network *n, uint64_t tokens)
{
	struct vs_tape *t = n->ops->tape;
	const struct vs_shape *s = &n->job->shape;
	/* The pixels are cast to the parameters' type; the convolution keeps them, for its weight. */
	struct vs_var pixels =
	    vs_new(t, n->job->batch * s->channels * s->image * s->image,
	           n->ops->autocast ? n->ops->autocast : vs_job_param_size(n->job), VS_TAG_TEMPORARIES);
	struct vs_var x = vs_op_linear(n->ops, &n->patch, pixels), w, y;

	vs_drop(t, pixels);
	w = vs_tape_param_var(t, n->class_token);
	vs_op_begin(t); /* cat((class, patches)) */
	vs_op_input(t, w, 0, w.count * w.size);
	vs_op_input(t, x, 0, 0);
	y = vs_op_end(t, tokens * s->hidden, w.size > x.size ? w.size : x.size);
	vs_drop(t, w);
	vs_drop(t, x);
	w = vs_tape_param_var(t, n->positions);
	x = vs_op_add(n->ops, y, w);
	vs_drop(t, w);
	vs_drop(t, y);
	return x;
}

static struct vs_var plus_rows(struct vs_network *n, struct vs_var x, int weight, uint64_t rows)
{
	struct vs_tape *t = n->ops->tape;
	struct vs_var p = vs_op_embedding(n->ops, weight, rows, n->job->shape.hidden);
	struct vs_var y = vs_op_add(n->ops, x, p);

	vs_drop(t, p);
	vs_drop(t, x);
	return y;
}

static struct vs_var embed(struct vs_network *n, uint64_t tokens)
{
	struct vs_tape *t = n->ops->tape;
	const struct vs_shape *s = &n->job->shape;
	struct vs_var x, y;

	if (s->family == VS_FAMILY_VIT) {
		x = embed_image(n, tokens);
	} else {
		x = vs_op_embedding(n->ops, n->embedding, tokens, s->hidden);
		if (n->types >= 0)
			x = plus_rows(n, x, n->types, tokens);
		if (n->positions >= 0)
			x = plus_rows(n, x, n->positions, tokens / n->job->batch);
	}
	if (s->norm == VS_NORM_RMS_GEMMA) {
		y = vs_op_pointwise(n->ops, x, 0); /* times sqrt(hidden) */
		vs_drop(t, x);
		x = y;
	}
	if (s->family == VS_FAMILY_BERT) {
		y = vs_op_layer_norm(n->ops, n->embedding_norm[0], n->embedding_norm[1], x);
		vs_drop(t, x);
		x = y;
	}
	y = vs_op_dropout(n->ops, x, s->dropout_embedding);
	vs_drop(t, x);
	if (n->job->lora_rank && n->job->input_grads) {
		x = vs_leaf(t, y, true);
		vs_drop(t, y);
		y = x;
	}
	return y;
}

static struct vs_var run_layer(struct vs_tape *t, void *context, const struct vs_var *inputs)
{
	struct vs_layer *layer = context;

	(void)t;
	return vs_layer_forward(layer, inputs[0]);
}

static struct vs_var final_norm(struct vs_network *n, struct vs_var x)
{
	return vs_norm_forward(n->ops, n->job->shape.norm, n->final_norm, x);
}

/* The mask that eager attention adds: 0 or the smallest number, the same for every sequence, from a boolean one. */
static struct vs_var causal_mask(struct vs_network *n, uint8_t size)
{
	const struct vs_job *j = n->job;
	bool windowed = j->shape.window && j->seq > j->shape.window;
	struct vs_var mask = {.storage = -1}, flags;
	uint64_t count = j->seq * j->seq;

	if (!vs_shape_causal(&j->shape))
		return mask;
	if (vs_job_attention(j) == VS_ATTENTION_EAGER) {
		flags = vs_new(n->ops->tape, count, 1, VS_TAG_TEMPORARIES);
		mask = vs_new(n->ops->tape, count, size, VS_TAG_TEMPORARIES);
		vs_drop(n->ops->tape, flags);
	} else if (windowed) {
		mask = vs_new(n->ops->tape, count, 1, VS_TAG_TEMPORARIES);
	}
	return mask;
}

static struct vs_var logits_of(struct vs_network *n, struct vs_var x)
{
	struct vs_tape *t = n->ops->tape;
	const struct vs_shape *s = &n->job->shape;
	struct vs_var y = vs_keep(t, x), z;

	if (n->transform.weight >= 0) {
		z = vs_op_linear(n->ops, &n->transform, y);
		vs_drop(t, y);
		y = vs_op_unary_input(n->ops, z);
		vs_drop(t, z);
		z = vs_op_layer_norm(n->ops, n->transform_norm[0], n->transform_norm[1], y);
		vs_drop(t, y);
		y = z;
	}
	if (s->head == VS_HEAD_LABELS || n->pooler.weight >= 0) {
		/* The first token alone: its gradient is a whole tensor of zeros but for it. */
		vs_op_begin(t);
		vs_op_input(t, y, y.count * y.size, 0);
		z = vs_op_end(t, n->job->batch * s->hidden, y.size);
		vs_drop(t, y);
		y = z;
	}
	if (n->pooler.weight >= 0) {
		z = vs_op_linear(n->ops, &n->pooler, y);
		vs_drop(t, y);
		y = vs_op_unary_output(n->ops, z);
		vs_drop(t, z);
	}
	if (n->head.weight < 0)
		return y;
	if (n->job->sequence_parallel) {
		z = vs_op_gather(n->ops, y, n->job->tensor_parallel);
		vs_drop(t, y);
		y = z;
	}
	z = vs_op_linear(n->ops, &n->head, y);
	vs_drop(t, y);
	if (!s->softcap)
		return z;
	y = vs_op_pointwise(n->ops, z, 0); /* tanh(logits / c) * c */
	vs_drop(t, z);
	z = vs_op_unary_output(n->ops, y);
	vs_drop(t, y);
	y = vs_op_pointwise(n->ops, z, 0);
	vs_drop(t, z);
	return y;
}

/* Layers [from, to); x is given up. */
static struct vs_var run_stack(struct vs_network *n, struct vs_var x, size_t from, size_t to)
{
	struct vs_tape *t = n->ops->tape;
	struct vs_var y, bias = {.storage = -1, .node = -1};
	uint64_t seq = n->job->seq / n->job->context_parallel;

	if (n->job->shape.relative_buckets)
		bias = vs_op_embedding(n->ops, n->relative[from > 0], seq * seq, n->job->shape.heads);
	for (size_t i = from; i < to; i++) {
		vs_tape_layer(t, (uint32_t)i);
		n->layers[i].bias = bias;
		vs_unit_before_forward(t, &n->units[i]);
		y = vs_op_hook(t, x, vs_unit_after_backward, &n->units[i]);
		vs_drop(t, x);
		x = y;
		if (n->job->checkpointing == VS_CHECKPOINTING_FULL)
			y = vs_tape_checkpoint(t, run_layer, &n->layers[i], &x, 1);
		else
			y = vs_layer_forward(&n->layers[i], x);
		vs_drop(t, x);
		x = vs_op_hook(t, y, vs_unit_before_backward, &n->units[i]);
		vs_drop(t, y);
		vs_unit_after_forward(t, &n->units[i]);
	}
	/* A checkpoint runs its layer again with the same bias. */
	if (n->job->checkpointing != VS_CHECKPOINTING_NONE)
		n->held_bias[from > 0] = bias;
	else
		vs_drop(t, bias);
	return x;
}

/* The decoder: its own tokens through the same embedding, attending to the encoder's output. x is given up. */
static struct vs_var decode(struct vs_network *n, struct vs_var x, uint64_t tokens)
{
	struct vs_tape *t = n->ops->tape;
	const struct vs_shape *s = &n->job->shape;
	struct vs_var y = vs_norm_forward(n->ops, s->norm, n->final_norm, x), z, zeros;

	vs_drop(t, x);
	x = vs_op_dropout(n->ops, y, s->dropout_hidden);
	vs_drop(t, y);
	y = embed(n, tokens);
	zeros = vs_new(t, s->heads / n->job->tensor_parallel * n->job->seq * n->job->seq, y.size, VS_TAG_TEMPORARIES);
	zeros.node = -1;
	for (size_t i = s->layers; i < n->layer_count; i++) {
		n->layers[i].memory = x;
		n->layers[i].zeros = zeros;
	}
	y = run_stack(n, y, s->layers, n->layer_count);
	n->zeros = zeros;
	n->memory = x; /* part of the output object, and of every checkpoint's arguments */
	z = vs_norm_forward(n->ops, s->norm, n->decoder_norm, y);
	vs_drop(t, y);
	y = vs_op_dropout(n->ops, z, s->dropout_hidden);
	vs_drop(t, z);
	if (!s->tied)
		return y;
	z = vs_op_pointwise(n->ops, y, 0); /* times hidden^-1/2 */
	vs_drop(t, y);
	return z;
}

/* What the stage before sent. */
static struct vs_var received(struct vs_network *n, uint64_t tokens)
{
	struct vs_var x =
	    vs_new(n->ops->tape, tokens * n->job->shape.hidden, vs_job_compute_size(n->job), VS_TAG_ACTIVATIONS);
	struct vs_var leaf = vs_leaf(n->ops->tape, x, true);

	vs_drop(n->ops->tape, x);
	return leaf;
}

struct vs_forward vs_network_forward(struct vs_network *n)
{
	struct vs_tape *t = n->ops->tape;
	const struct vs_shape *s = &n->job->shape;
	uint64_t tokens = n->job->batch * vs_shape_sequence(s, n->job->seq / n->job->context_parallel);
	/* Sequence parallel: outside of the products, a rank keeps its share of the tokens. */
	uint64_t share = n->job->sequence_parallel ? tokens / n->job->tensor_parallel : tokens;
	struct vs_forward out = {.held.storage = -1};
	bool causal_lm = s->head == VS_HEAD_LM && s->family != VS_FAMILY_BERT && s->family != VS_FAMILY_T5;
	bool decoders = s->decoder_layers > 0;
	struct vs_var x, y, mask;

	vs_tape_instant(t, VS_INSTANT_SETUP);
	vs_tape_layer(t, UINT32_MAX);
	vs_unit_before_forward(t, &n->root);
	x = n->job->stage ? received(n, share) : embed(n, share);
	mask = causal_mask(n, x.size);
	vs_tape_instant(t, VS_INSTANT_FORWARD);
	x = run_stack(n, x, 0, decoders ? s->layers : n->layer_count);
	if (decoders)
		x = decode(n, x, tokens);
	if (n->job->stage + 1 < n->job->pipeline_parallel) { /* sent to the next stage, whose gradient comes back */
		out.logits.storage = -1;
		out.held = mask;
		out.loss = x;
		vs_tape_uncache(t);
		return out;
	}
	vs_tape_layer(t, UINT32_MAX);
	if (s->family != VS_FAMILY_BERT && !decoders) {
		y = final_norm(n, x);
		vs_drop(t, x);
		x = y;
	}
	/* Checkpoints keep their arguments, the mask among them, until they have run again. */
	if (n->job->checkpointing == VS_CHECKPOINTING_FULL)
		out.held = mask;
	else
		vs_drop(t, mask);
	vs_tape_instant(t, VS_INSTANT_LOSS_FORWARD);
	if (n->job->loss_chunks > 1 && causal_lm) {
		out.logits.storage = -1;
		out.loss = vs_op_fused_loss(n->ops, &n->head, x, n->job->loss_chunks);
		vs_drop(t, x);
		vs_tape_uncache(t);
		return out;
	}
	out.logits = logits_of(n, x);
	out.loss = vs_op_cross_entropy(n->ops, out.logits, causal_lm, n->job->tensor_parallel > 1);
	vs_drop(t, x);
	vs_tape_uncache(t);
	return out;
}

void vs_network_after_backward(struct vs_network *n)
{
	vs_drop(n->ops->tape, n->memory);
	vs_drop(n->ops->tape, n->zeros);
	vs_drop(n->ops->tape, n->held_bias[0]);
	vs_drop(n->ops->tape, n->held_bias[1]);
	n->memory.storage = n->zeros.storage = n->held_bias[0].storage = n->held_bias[1].storage = -1;
	vs_unit_after_backward(n->ops->tape, &n->root);
	vs_unit_settle(n->ops->tape, &n->root);
}
