/* SPDX-License-Identifier: MIT */
#include "model/shape.h"

#include <errno.h>
#include <string.h>

/* What the configuration classes of transformers 5 take where a config.json is silent. An absent
 * tie_word_embeddings means the class's default, which differs: Llama false, Gemma true. */
static const struct {
	const char *name;
	enum vs_norm norm;
	enum vs_activation activation;
	bool tied, qkv_bias, out_bias, mlp_bias, qk_norm, gated;
	uint8_t layer_norms;
	double dropout; /* attention, hidden and embedding alike */
} families[VS_FAMILY_COUNT] = {
    [VS_FAMILY_LLAMA] = {"llama", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, false, true, 2, 0},
    [VS_FAMILY_MISTRAL] = {"mistral", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, false, true, 2, 0},
    [VS_FAMILY_QWEN2] = {"qwen2", VS_NORM_RMS, VS_ACTIVATION_SILU, false, true, false, false, false, true, 2, 0},
    [VS_FAMILY_QWEN3] = {"qwen3", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, true, true, 2, 0},
    [VS_FAMILY_GEMMA] = {"gemma", VS_NORM_RMS_GEMMA, VS_ACTIVATION_GELU, true, false, false, false, false, true, 2,
                         0},
    [VS_FAMILY_GEMMA2] = {"gemma2", VS_NORM_RMS_GEMMA, VS_ACTIVATION_GELU, true, false, false, false, false, true, 4,
                          0},
    [VS_FAMILY_GPT2] = {"gpt2", VS_NORM_LAYER, VS_ACTIVATION_GELU_NEW, true, true, true, true, false, false, 2, 0.1},
    [VS_FAMILY_BERT] = {"bert", VS_NORM_LAYER, VS_ACTIVATION_GELU, true, true, true, true, false, false, 2, 0.1},
    [VS_FAMILY_VIT] = {"vit", VS_NORM_LAYER, VS_ACTIVATION_GELU, false, true, true, true, false, false, 2, 0},
    [VS_FAMILY_T5] = {"t5", VS_NORM_RMS_T5, VS_ACTIVATION_RELU, true, false, false, false, false, false, 2, 0.1},
    [VS_FAMILY_MIXTRAL] = {"mixtral", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, false, true, 2, 0},
    [VS_FAMILY_QWEN3_MOE] = {"qwen3_moe", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, true, true, 2,
                             0},
    [VS_FAMILY_DEEPSEEK_V2] = {"deepseek_v2", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, false,
                               true, 2, 0},
    [VS_FAMILY_DEEPSEEK_V3] = {"deepseek_v3", VS_NORM_RMS, VS_ACTIVATION_SILU, false, false, false, false, false,
                               true, 2, 0},
};

static const struct {
	const char *name;
	enum vs_activation activation;
} activations[] = {
    {"silu", VS_ACTIVATION_SILU},
    {"swish", VS_ACTIVATION_SILU},
    {"relu", VS_ACTIVATION_RELU},
    {"gelu", VS_ACTIVATION_GELU},
    {"gelu_pytorch_tanh", VS_ACTIVATION_GELU},
    {"gelu_new", VS_ACTIVATION_GELU_NEW},
    {"gelu_fast", VS_ACTIVATION_GELU_FAST},
};

const char *vs_family_name(enum vs_family family)
{
	return families[family].name;
}

int vs_family_find(const char *name, enum vs_family *ret)
{
	for (int i = 0; i < VS_FAMILY_COUNT; i++) {
		if (!strcmp(families[i].name, name)) {
			*ret = (enum vs_family)i;
			return 0;
		}
	}
	return -ENOENT;
}

int vs_activation_find(const char *name, enum vs_activation *ret)
{
	for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
		if (!strcmp(activations[i].name, name)) {
			*ret = activations[i].activation;
			return 0;
		}
	}
	return -ENOENT;
}

struct vs_shape vs_shape_default(enum vs_family family)
{
	return (struct vs_shape){
	    .family = family,
	    .norm = families[family].norm,
	    .activation = families[family].activation,
	    .head = family == VS_FAMILY_BERT  ? VS_HEAD_NONE
	            : family == VS_FAMILY_VIT ? VS_HEAD_LABELS
	                                      : VS_HEAD_LM,
	    .tied = families[family].tied,
	    .qkv_bias = families[family].qkv_bias,
	    .out_bias = families[family].out_bias,
	    .mlp_bias = families[family].mlp_bias,
	    .qk_norm = families[family].qk_norm,
	    .gated = families[family].gated,
	    .layer_norms = families[family].layer_norms,
	    .softcap = family == VS_FAMILY_GEMMA2,
	    .dropout_attention = families[family].dropout,
	    .dropout_hidden = families[family].dropout,
	    .dropout_embedding = families[family].dropout,
	    .token_types = family == VS_FAMILY_BERT ? 2 : 0,
	    .labels = 2,
	    .channels = 3,
	    .moe_every = 1,
	    .relative_buckets = family == VS_FAMILY_T5 ? 32 : 0,
	};
}

void vs_shape_complete(struct vs_shape *s)
{
	if (!s->kv_heads)
		s->kv_heads = s->heads;
	if (!s->head_dim && s->heads)
		s->head_dim = s->hidden / s->heads;
	if (!s->ffn && (s->family == VS_FAMILY_GPT2 || !s->gated))
		s->ffn = 4 * s->hidden;
	if (!s->decoder_layers && s->family == VS_FAMILY_T5)
		s->decoder_layers = s->layers;
	if (!s->moe_every)
		s->moe_every = 1;
}

int vs_shape_check(const struct vs_shape *s, const char **ret_why)
{
	const char *why = NULL;
	const struct {
		uint64_t value, limit;
		const char *text;
	} sizes[] = {
	    /* Beyond any model there is, and small enough that no product of two overflows 64 bits. */
	    {s->layers, 100000, "layers: 1 to 100000"},
	    {s->hidden, 1 << 24, "hidden size: 1 to 16777216"},
	    {s->heads, 1 << 20, "attention heads: 1 to 1048576"},
	    {s->kv_heads, 1 << 20, "key/value heads: 1 to 1048576"},
	    {s->head_dim, 1 << 20, "head size: 1 to 1048576"},
	    {s->ffn, 1 << 28, "feed-forward size: 1 to 268435456"},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !why; i++) {
		if (!sizes[i].value || sizes[i].value > sizes[i].limit)
			why = sizes[i].text;
	}
	if (!why && s->family != VS_FAMILY_VIT && (!s->vocab || s->vocab > 1 << 28))
		why = "vocabulary: 1 to 268435456";
	if (!why && s->heads % s->kv_heads)
		why = "attention heads must be a multiple of the key/value heads";
	if (!why && s->family != VS_FAMILY_T5 && !s->kv_lora && s->layer_norms &&
	    s->head_dim * s->heads < s->hidden && s->head_dim == s->hidden / s->heads)
		why = "the hidden size must be a multiple of the attention heads";
	if (!why && s->family == VS_FAMILY_VIT &&
	    (!s->image || !s->patch || s->image > 1 << 16 || s->image % s->patch || !s->channels ||
	     s->channels > 4096))
		why = "the image size must be a multiple of the patch size";
	if (!why && s->experts &&
	    (s->experts > 1 << 20 || !s->experts_per_token || s->experts_per_token > s->experts))
		why = "experts per token: 1 to the number of experts";
	if (!why && s->experts && (!s->expert_ffn || s->expert_ffn > 1 << 28))
		why = "expert feed-forward size: 1 to 268435456";
	if (!why && s->kv_lora && (!s->rope_dim || !s->nope_dim || !s->v_dim))
		why = "latent attention needs qk_rope_head_dim, qk_nope_head_dim and v_head_dim";
	if (!why && (s->kv_lora | s->q_lora | s->rope_dim | s->nope_dim | s->v_dim) > 1 << 24)
		why = "latent attention sizes: up to 16777216";
	if (!why && (s->positions > 1 << 28 || s->token_types > 1 << 28 || s->labels > 1 << 28 ||
	             s->shared_ffn > 1 << 28 || s->decoder_layers > 100000 || s->relative_buckets > 1 << 20))
		why = "a size is beyond anything that could be meant";
	if (!why)
		return 0;
	*ret_why = why;
	return -EINVAL;
}

struct vs_layer_kinds vs_shape_layer_kinds(const struct vs_shape *s)
{
	struct vs_layer_kinds kinds = {.dense = s->layers};

	if (!s->experts)
		return kinds;
	for (uint64_t i = s->first_dense; i < s->layers; i++)
		kinds.moe += (i + 1) % s->moe_every == 0;
	kinds.moe -= s->more_dense < kinds.moe ? s->more_dense : kinds.moe;
	kinds.dense = s->layers - kinds.moe;
	return kinds;
}

uint64_t vs_shape_sequence(const struct vs_shape *s, uint64_t seq)
{
	uint64_t side = s->family == VS_FAMILY_VIT && s->patch ? s->image / s->patch : 0;

	return side ? side * side + 1 : seq;
}

struct list {
	struct vs_params *out;
	bool in_layer;
	uint64_t repeat; /* of what is added next */
	bool overflow;
};

static void add(struct list *l, const char *name, enum vs_param_role role, uint64_t rows, uint64_t cols)
{
	unsigned __int128 total = (unsigned __int128)rows * cols * l->repeat + l->out->total;

	if (!l->repeat || !rows || !cols)
		return;
	if (total > (UINT64_C(1) << 53) || l->out->count == VS_PARAMS_MAX) {
		l->overflow = true;
		return;
	}
	l->out->total = (uint64_t)total;
	l->out->items[l->out->count++] = (struct vs_param){
	    .name = name, .role = role, .rows = rows, .cols = cols, .repeat = l->repeat, .in_layer = l->in_layer};
}

static void add_linear(struct list *l, const char *name, uint64_t out, uint64_t in, bool bias)
{
	add(l, name, VS_PARAM_LINEAR, out, in);
	if (bias)
		add(l, name, VS_PARAM_BIAS, out, 1);
}

static void add_norm(struct list *l, const struct vs_shape *s, const char *name, uint64_t width)
{
	add(l, name, VS_PARAM_NORM, width, 1);
	if (s->norm == VS_NORM_LAYER)
		add(l, name, VS_PARAM_NORM, width, 1);
}

static void add_latent_attention(struct list *l, const struct vs_shape *s)
{
	uint64_t qk = s->nope_dim + s->rope_dim;

	if (s->q_lora) {
		add_linear(l, "q_a_proj", s->q_lora, s->hidden, s->out_bias);
		add(l, "q_a_layernorm", VS_PARAM_NORM, s->q_lora, 1);
		add_linear(l, "q_b_proj", s->heads * qk, s->q_lora, false);
	} else {
		add_linear(l, "q_proj", s->heads * qk, s->hidden, false);
	}
	add_linear(l, "kv_a_proj_with_mqa", s->kv_lora + s->rope_dim, s->hidden, s->out_bias);
	add(l, "kv_a_layernorm", VS_PARAM_NORM, s->kv_lora, 1);
	add_linear(l, "kv_b_proj", s->heads * (s->nope_dim + s->v_dim), s->kv_lora, false);
	add_linear(l, "o_proj", s->hidden, s->heads * s->v_dim, s->out_bias);
}

static void add_attention(struct list *l, const struct vs_shape *s)
{
	uint64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;

	if (s->kv_lora) {
		add_latent_attention(l, s);
		return;
	}
	if (s->family == VS_FAMILY_GPT2) {
		add_linear(l, "c_attn", q + 2 * kv, s->hidden, s->qkv_bias);
		add_linear(l, "c_proj", s->hidden, q, s->out_bias);
		return;
	}
	if (s->family == VS_FAMILY_BERT) {
		add_linear(l, "query", q, s->hidden, true);
		add_linear(l, "key", q, s->hidden, true);
		add_linear(l, "value", q, s->hidden, true);
		add_linear(l, "dense", s->hidden, q, true);
		return;
	}
	if (s->family == VS_FAMILY_T5) {
		add_linear(l, "q", q, s->hidden, false);
		add_linear(l, "k", q, s->hidden, false);
		add_linear(l, "v", q, s->hidden, false);
		add_linear(l, "o", s->hidden, q, false);
		return;
	}
	add_linear(l, "q_proj", q, s->hidden, s->qkv_bias);
	add_linear(l, "k_proj", kv, s->hidden, s->qkv_bias);
	add_linear(l, "v_proj", kv, s->hidden, s->qkv_bias);
	add_linear(l, "o_proj", s->hidden, q, s->out_bias);
	if (s->qk_norm) {
		add(l, "q_norm", VS_PARAM_NORM, s->head_dim, 1);
		add(l, "k_norm", VS_PARAM_NORM, s->head_dim, 1);
	}
}

static void add_mlp(struct list *l, const struct vs_shape *s, uint64_t ffn)
{
	static const char *const up_names[VS_FAMILY_COUNT] = {
	    [VS_FAMILY_GPT2] = "c_fc", [VS_FAMILY_BERT] = "dense", [VS_FAMILY_VIT] = "fc1", [VS_FAMILY_T5] = "wi"};
	static const char *const down_names[VS_FAMILY_COUNT] = {
	    [VS_FAMILY_GPT2] = "c_proj", [VS_FAMILY_BERT] = "dense", [VS_FAMILY_VIT] = "fc2", [VS_FAMILY_T5] = "wo"};
	const char *up = up_names[s->family], *down = down_names[s->family];

	if (s->gated)
		add_linear(l, up ? "wi_0" : "gate_proj", ffn, s->hidden, s->mlp_bias);
	add_linear(l, up ? (s->gated ? "wi_1" : up) : "up_proj", ffn, s->hidden, s->mlp_bias);
	add_linear(l, down ? down : "down_proj", s->hidden, ffn, s->mlp_bias);
}

/* transformers 5 keeps the experts of a layer in two tensors: gate and up together, and down. */
static void add_moe(struct list *l, const struct vs_shape *s)
{
	add(l, "gate", VS_PARAM_ROUTER, s->experts, s->hidden);
	add(l, "gate_up_proj", VS_PARAM_EXPERT, 2 * s->experts * s->expert_ffn, s->hidden);
	add(l, "down_proj", VS_PARAM_EXPERT, s->experts * s->hidden, s->expert_ffn);
	if (s->shared_ffn)
		add_mlp(l, s, s->shared_ffn);
}

static void add_embeddings(struct list *l, const struct vs_shape *s)
{
	uint64_t patches = vs_shape_sequence(s, 1) - 1;

	if (s->family == VS_FAMILY_VIT) {
		add(l, "cls_token", VS_PARAM_POSITION, s->hidden, 1);
		add(l, "projection", VS_PARAM_LINEAR, s->hidden, s->channels * s->patch * s->patch);
		add(l, "projection", VS_PARAM_BIAS, s->hidden, 1);
		add(l, "position_embeddings", VS_PARAM_POSITION, patches + 1, s->hidden);
		return;
	}
	add(l, "embed_tokens", VS_PARAM_EMBEDDING, s->vocab, s->hidden);
	if (s->positions)
		add(l, "position_embeddings", VS_PARAM_POSITION, s->positions, s->hidden);
	if (s->token_types)
		add(l, "token_type_embeddings", VS_PARAM_POSITION, s->token_types, s->hidden);
	if (s->family == VS_FAMILY_BERT)
		add_norm(l, s, "LayerNorm", s->hidden);
	if (s->relative_buckets) {
		add(l, "relative_attention_bias", VS_PARAM_POSITION, s->relative_buckets, s->heads);
		add(l, "relative_attention_bias", VS_PARAM_POSITION, s->relative_buckets, s->heads);
	}
}

static void add_layers(struct list *l, const struct vs_shape *s)
{
	struct vs_layer_kinds kinds = vs_shape_layer_kinds(s);

	l->in_layer = true;
	l->repeat = s->layers;
	add_attention(l, s);
	for (uint64_t i = 0; i < s->layer_norms; i++)
		add_norm(l, s, "layernorm", s->hidden);
	l->repeat = kinds.dense;
	add_mlp(l, s, s->ffn);
	l->repeat = kinds.moe;
	add_moe(l, s);
	l->repeat = s->decoder_layers;
	if (s->decoder_layers) {
		add_attention(l, s);
		add_attention(l, s);
		add_mlp(l, s, s->ffn);
		for (int i = 0; i < 3; i++)
			add_norm(l, s, "layer_norm", s->hidden);
	}
	l->in_layer = false;
	l->repeat = 1;
}

static void add_end(struct list *l, const struct vs_shape *s)
{
	bool pooler = s->family == VS_FAMILY_BERT && s->head != VS_HEAD_LM;

	if (s->family != VS_FAMILY_BERT)
		add_norm(l, s, "norm", s->hidden);
	if (s->decoder_layers)
		add_norm(l, s, "norm", s->hidden);
	if (pooler || (s->family == VS_FAMILY_VIT && s->head == VS_HEAD_NONE))
		add_linear(l, "pooler", s->hidden, s->hidden, true);
	if (s->head == VS_HEAD_LABELS) {
		add(l, "classifier", VS_PARAM_HEAD, s->labels, s->hidden);
		add(l, "classifier", VS_PARAM_BIAS, s->labels, 1);
	}
	if (s->head == VS_HEAD_LM && s->family == VS_FAMILY_BERT) {
		add_linear(l, "transform", s->hidden, s->hidden, true);
		add_norm(l, s, "LayerNorm", s->hidden);
		add(l, "decoder", VS_PARAM_BIAS, s->vocab, 1);
	}
	if (s->head == VS_HEAD_LM && !s->tied)
		add(l, "lm_head", VS_PARAM_HEAD, s->vocab, s->hidden);
}

int vs_shape_params(const struct vs_shape *s, struct vs_params *ret)
{
	struct vs_params params = {0};
	struct list list = {.out = &params, .repeat = 1};
	const char *why;

	if (vs_shape_check(s, &why))
		return -EINVAL;
	add_embeddings(&list, s);
	add_layers(&list, s);
	add_end(&list, s);
	if (list.overflow)
		return -ERANGE;
	*ret = params;
	return 0;
}

uint64_t vs_shape_count(const struct vs_shape *s)
{
	struct vs_params params;

	return vs_shape_params(s, &params) ? 0 : params.total;
}

uint64_t vs_shape_active(const struct vs_shape *s)
{
	struct vs_shape active = *s;

	if (!s->experts)
		return vs_shape_count(s);
	/* All experts but the ones a token visits, less; the router stays whole. */
	active.experts = s->experts_per_token;
	return vs_shape_count(&active) +
	       vs_shape_layer_kinds(s).moe * (s->experts - s->experts_per_token) * s->hidden;
}
