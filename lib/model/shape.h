/* SPDX-License-Identifier: MIT
 *
 * The shape of a transformer and, from it, every parameter tensor it has: exact to the unit. Pure functions.
 */
#ifndef VS_MODEL_SHAPE_H
#define VS_MODEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vs_family {
	VS_FAMILY_LLAMA,
	VS_FAMILY_MISTRAL,
	VS_FAMILY_QWEN2,
	VS_FAMILY_QWEN3,
	VS_FAMILY_GEMMA,
	VS_FAMILY_GEMMA2,
	VS_FAMILY_GPT2,
	VS_FAMILY_BERT,
	VS_FAMILY_VIT,
	VS_FAMILY_T5,
	VS_FAMILY_MIXTRAL,
	VS_FAMILY_QWEN3_MOE,
	VS_FAMILY_DEEPSEEK_V2,
	VS_FAMILY_DEEPSEEK_V3,
	VS_FAMILY_COUNT,
};

enum vs_norm {
	VS_NORM_RMS,       /* as Llama's: computed in fp32, cast back, then times the weight */
	VS_NORM_RMS_GEMMA, /* times (1 + weight) in fp32, then cast back */
	VS_NORM_RMS_T5,    /* the fp32 copy serves the variance alone */
	VS_NORM_LAYER,     /* torch's fused LayerNorm: weight and bias */
};

enum vs_activation {
	VS_ACTIVATION_SILU,
	VS_ACTIVATION_RELU,
	VS_ACTIVATION_GELU,      /* one fused kernel, exact or tanh */
	VS_ACTIVATION_GELU_NEW,  /* the tanh formula written out in Python: eight kernels */
	VS_ACTIVATION_GELU_FAST, /* as above, another spelling of the same formula */
};

enum vs_head {
	VS_HEAD_NONE,   /* the base model; BERT's and ViT's with their pooler */
	VS_HEAD_LM,     /* next or masked token over the vocabulary */
	VS_HEAD_LABELS, /* a classifier of `labels` classes */
};

struct vs_shape {
	enum vs_family family;
	enum vs_norm norm;
	enum vs_activation activation;
	enum vs_head head;

	uint64_t layers; /* of the encoder, where there are two stacks */
	uint64_t decoder_layers;
	uint64_t hidden, heads, kv_heads, head_dim, ffn, vocab;
	uint64_t positions;        /* rows of a learned position table; 0: none */
	uint64_t token_types;      /* BERT */
	uint64_t relative_buckets; /* T5 */
	uint64_t labels;
	uint64_t image, patch, channels; /* ViT */

	bool gated; /* gate and up projections instead of one */
	bool tied;  /* the output projection is the embedding */
	bool qkv_bias, out_bias, mlp_bias;
	bool qk_norm;
	uint64_t layer_norms; /* norms of width `hidden` in a layer */
	uint64_t window;      /* sliding attention window; 0: none */
	bool softcap;         /* Gemma 2: tanh on scores and on logits */

	double dropout_attention, dropout_hidden, dropout_embedding;

	/* Mixture of experts: layers from first_dense on, every moe_every-th of them, less those listed as dense. */
	uint64_t experts, experts_per_token, expert_ffn;
	uint64_t shared_ffn; /* intermediate width of all shared experts together */
	uint64_t first_dense, moe_every, more_dense;

	/* Latent attention (DeepSeek): 0 in kv_lora says there is none; 0 in q_lora, a plain query projection. */
	uint64_t q_lora, kv_lora, rope_dim, nope_dim, v_dim;
};

enum vs_param_role {
	VS_PARAM_EMBEDDING,
	VS_PARAM_POSITION, /* learned positions, token types, class token, relative biases */
	VS_PARAM_LINEAR,   /* a matrix that multiplies activations, in a layer */
	VS_PARAM_BIAS,
	VS_PARAM_NORM,
	VS_PARAM_ROUTER,
	VS_PARAM_EXPERT,
	VS_PARAM_HEAD, /* output projection or classifier that is its own tensor */
};

/* A parameter tensor of rows x cols elements (cols 1: a vector) that occurs `repeat` times. */
struct vs_param {
	const char *name; /* of the module as Hugging Face spells it: "q_proj" */
	enum vs_param_role role;
	uint64_t rows, cols;
	uint64_t repeat;
	bool in_layer;
};

#define VS_PARAMS_MAX 64

struct vs_params {
	struct vs_param items[VS_PARAMS_MAX];
	size_t count;
	uint64_t total; /* elements */
};

struct vs_layer_kinds {
	uint64_t dense, moe; /* how many layers have a plain and how many an expert feed-forward */
};

/* The shape a family's configuration class has where a file says nothing: norm, activation, tying, biases, dropout.
 * Sizes are 0. */
struct vs_shape vs_shape_default(enum vs_family family);
/* Fills what follows from other fields when it is 0: kv_heads, head_dim, ffn of GPT-2, decoder layers of T5. */
void vs_shape_complete(struct vs_shape *shape);
/* -EINVAL and what is wrong, in words, in ret_why: a size missing, absurd, or heads that do not divide. */
int vs_shape_check(const struct vs_shape *shape, const char **ret_why);

/* All parameters; -ERANGE above 2^53 elements, -EINVAL as vs_shape_check(). */
int vs_shape_params(const struct vs_shape *shape, struct vs_params *ret);
/* Their number alone, 0 on any error. */
uint64_t vs_shape_count(const struct vs_shape *shape);
struct vs_layer_kinds vs_shape_layer_kinds(const struct vs_shape *shape);
/* Parameters a token passes through: all of a dense model, experts_per_token of the experts otherwise. */
uint64_t vs_shape_active(const struct vs_shape *shape);
/* Positions in a sequence of the layers: `seq`, or patches + 1 for ViT. */
uint64_t vs_shape_sequence(const struct vs_shape *shape, uint64_t seq);

const char *vs_family_name(enum vs_family family);
/* By Hugging Face's model_type ("qwen3_moe") or our name; -ENOENT. */
int vs_family_find(const char *name, enum vs_family *ret);
int vs_activation_find(const char *name, enum vs_activation *ret);

#endif
