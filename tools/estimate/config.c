/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/message.h"
#include "json_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need {
	OPTIONAL,
	NEEDED,
};

/* The keys of one field, the first one found wins: families spell the same size differently. */
struct size_key {
	const char *keys[4];
	size_t offset;
	enum need need;
};

#define FIELD(member) offsetof(struct vs_shape, member)

static const struct size_key size_keys[] = {
    {{"num_hidden_layers", "n_layer", "num_layers"}, FIELD(layers), NEEDED},
    {{"num_decoder_layers"}, FIELD(decoder_layers), OPTIONAL},
    {{"hidden_size", "n_embd", "d_model"}, FIELD(hidden), NEEDED},
    {{"num_attention_heads", "n_head", "num_heads"}, FIELD(heads), NEEDED},
    {{"num_key_value_heads"}, FIELD(kv_heads), OPTIONAL},
    {{"head_dim", "d_kv"}, FIELD(head_dim), OPTIONAL},
    {{"intermediate_size", "n_inner", "d_ff"}, FIELD(ffn), OPTIONAL},
    {{"vocab_size"}, FIELD(vocab), OPTIONAL},
    {{"num_labels"}, FIELD(labels), OPTIONAL},
    {{"image_size"}, FIELD(image), OPTIONAL},
    {{"patch_size"}, FIELD(patch), OPTIONAL},
    {{"num_channels"}, FIELD(channels), OPTIONAL},
    {{"relative_attention_num_buckets"}, FIELD(relative_buckets), OPTIONAL},
    {{"type_vocab_size"}, FIELD(token_types), OPTIONAL},
    {{"num_local_experts", "num_experts", "n_routed_experts"}, FIELD(experts), OPTIONAL},
    {{"num_experts_per_tok"}, FIELD(experts_per_token), OPTIONAL},
    {{"moe_intermediate_size"}, FIELD(expert_ffn), OPTIONAL},
    {{"first_k_dense_replace"}, FIELD(first_dense), OPTIONAL},
    {{"decoder_sparse_step"}, FIELD(moe_every), OPTIONAL},
    {{"q_lora_rank"}, FIELD(q_lora), OPTIONAL},
    {{"kv_lora_rank"}, FIELD(kv_lora), OPTIONAL},
    {{"qk_rope_head_dim"}, FIELD(rope_dim), OPTIONAL},
    {{"qk_nope_head_dim"}, FIELD(nope_dim), OPTIONAL},
    {{"v_head_dim"}, FIELD(v_dim), OPTIONAL},
};

static const struct {
	const char *keys[3];
	size_t offset;
} real_keys[] = {
    {{"attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"}, FIELD(dropout_attention)},
    {{"hidden_dropout_prob", "resid_pdrop", "dropout_rate"}, FIELD(dropout_hidden)},
    {{"embd_pdrop"}, FIELD(dropout_embedding)},
};

/* What a configuration class has for a size its file leaves out, where that is not derived from other sizes. */
static const struct {
	enum vs_family family;
	size_t offset;
	uint64_t value;
} class_sizes[] = {
    {VS_FAMILY_LLAMA, FIELD(vocab), 32000},
    {VS_FAMILY_MISTRAL, FIELD(vocab), 32000},
    {VS_FAMILY_MISTRAL, FIELD(kv_heads), 8},
    {VS_FAMILY_MIXTRAL, FIELD(vocab), 32000},
    {VS_FAMILY_MIXTRAL, FIELD(kv_heads), 8},
    {VS_FAMILY_MIXTRAL, FIELD(experts), 8},
    {VS_FAMILY_MIXTRAL, FIELD(experts_per_token), 2},
    {VS_FAMILY_QWEN2, FIELD(vocab), 151936},
    {VS_FAMILY_QWEN2, FIELD(kv_heads), 32},
    {VS_FAMILY_QWEN3, FIELD(vocab), 151936},
    {VS_FAMILY_QWEN3, FIELD(kv_heads), 32},
    {VS_FAMILY_QWEN3, FIELD(head_dim), 128},
    {VS_FAMILY_QWEN3_MOE, FIELD(vocab), 151936},
    {VS_FAMILY_QWEN3_MOE, FIELD(kv_heads), 4},
    {VS_FAMILY_QWEN3_MOE, FIELD(experts), 128},
    {VS_FAMILY_QWEN3_MOE, FIELD(experts_per_token), 8},
    {VS_FAMILY_QWEN3_MOE, FIELD(expert_ffn), 768},
    {VS_FAMILY_GEMMA, FIELD(vocab), 256000},
    {VS_FAMILY_GEMMA, FIELD(kv_heads), 16},
    {VS_FAMILY_GEMMA, FIELD(head_dim), 256},
    {VS_FAMILY_GEMMA2, FIELD(vocab), 256000},
    {VS_FAMILY_GEMMA2, FIELD(kv_heads), 4},
    {VS_FAMILY_GEMMA2, FIELD(head_dim), 256},
    {VS_FAMILY_GPT2, FIELD(vocab), 50257},
    {VS_FAMILY_GPT2, FIELD(positions), 1024},
    {VS_FAMILY_BERT, FIELD(vocab), 30522},
    {VS_FAMILY_BERT, FIELD(positions), 512},
    {VS_FAMILY_VIT, FIELD(image), 224},
    {VS_FAMILY_VIT, FIELD(patch), 16},
    {VS_FAMILY_T5, FIELD(vocab), 32128},
    {VS_FAMILY_T5, FIELD(head_dim), 64},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(vocab), 102400},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(experts), 64},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(expert_ffn), 1407},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(kv_lora), 512},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(rope_dim), 64},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(nope_dim), 128},
    {VS_FAMILY_DEEPSEEK_V2, FIELD(v_dim), 128},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(vocab), 129280},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(experts), 256},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(experts_per_token), 8},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(expert_ffn), 2048},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(first_dense), 3},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(kv_lora), 512},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(rope_dim), 64},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(nope_dim), 128},
    {VS_FAMILY_DEEPSEEK_V3, FIELD(v_dim), 128},
};

static uint64_t *field(struct vs_shape *s, size_t offset)
{
	return (uint64_t *)((char *)s + offset);
}

static const json_t *first_of(const json_t *root, const char *const *keys, size_t count, const char **ret_key)
{
	for (size_t i = 0; i < count && keys[i]; i++) {
		const json_t *value = json_object_get(root, keys[i]);

		if (value && !json_is_null(value)) {
			*ret_key = keys[i];
			return value;
		}
	}
	return NULL;
}

static int read_size(const json_t *value, const char *key, const char *name, uint64_t *ret)
{
	double real = json_number_value(value);

	if (json_is_array(value) && json_array_size(value) == 2 &&
	    json_equal(json_array_get(value, 0), json_array_get(value, 1)))
		return read_size(json_array_get(value, 0), key, name, ret); /* a square image as [224, 224] */
	if (!json_is_number(value) || real != floor(real)) {
		vs_complain("%s is not a whole number: %s: write it as one, without quotes", key, name);
		return -EINVAL;
	}
	if (real < 0 || real > 1e12) {
		vs_complain("%s is out of range: %s: %.17g cannot be a size of a model", key, name, real);
		return -EINVAL;
	}
	*ret = (uint64_t)real;
	return 0;
}

static int read_sizes(const json_t *root, const char *name, struct vs_shape *s)
{
	char missing[256] = "";

	for (size_t i = 0; i < sizeof(class_sizes) / sizeof(class_sizes[0]); i++) {
		if (class_sizes[i].family == s->family)
			*field(s, class_sizes[i].offset) = class_sizes[i].value;
	}
	for (size_t i = 0; i < sizeof(size_keys) / sizeof(size_keys[0]); i++) {
		const char *key = size_keys[i].keys[0];
		const json_t *value = first_of(root, size_keys[i].keys, 4, &key);

		if (value && read_size(value, key, name, field(s, size_keys[i].offset)))
			return -EINVAL;
		if (!value && size_keys[i].need == NEEDED) {
			strncat(missing, *missing ? ", " : "", sizeof(missing) - strlen(missing) - 1);
			strncat(missing, size_keys[i].keys[0], sizeof(missing) - strlen(missing) - 1);
		}
	}
	if (*missing) {
		vs_complain("keys are missing: %s: add %s, or give the sizes as flags", name, missing);
		return -EINVAL;
	}
	return 0;
}

static int read_reals(const json_t *root, const char *name, struct vs_shape *s)
{
	for (size_t i = 0; i < sizeof(real_keys) / sizeof(real_keys[0]); i++) {
		const char *key = real_keys[i].keys[0];
		const json_t *value = first_of(root, real_keys[i].keys, 3, &key);
		double real = json_number_value(value);

		if (!value)
			continue;
		if (!json_is_number(value) || real < 0 || real >= 1) {
			vs_complain("%s is no probability: %s: give a number from 0 to below 1", key, name);
			return -EINVAL;
		}
		*(double *)((char *)s + real_keys[i].offset) = real;
	}
	if (s->family == VS_FAMILY_BERT)
		s->dropout_embedding = s->dropout_hidden;
	if (s->family == VS_FAMILY_T5)
		s->dropout_attention = s->dropout_embedding = s->dropout_hidden;
	return 0;
}

static int read_flag(const json_t *root, const char *key, const char *name, bool *ret)
{
	const json_t *value = json_object_get(root, key);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_boolean(value)) {
		vs_complain("%s is not true or false: %s: write one of them", key, name);
		return -EINVAL;
	}
	*ret = json_is_true(value);
	return 0;
}

static int read_activation(const json_t *root, const char *name, struct vs_shape *s)
{
	static const char *const keys[] = {"hidden_activation", "hidden_act", "activation_function",
	                                   "feed_forward_proj"};
	const char *key = keys[0];
	const json_t *value = first_of(root, keys, 4, &key);
	const char *text = json_string_value(value);

	if (!value)
		return 0;
	if (!text) {
		vs_complain("%s is not a name: %s: write one such as \"silu\"", key, name);
		return -EINVAL;
	}
	if (!strncmp(text, "gated-", 6)) { /* T5 1.1: "gated-gelu" means the tanh formula written in Python */
		s->gated = true;
		text = !strcmp(text, "gated-gelu") ? "gelu_new" : text + 6;
	}
	/* Gemma's old files say "gelu" for what the class makes the tanh form: one kernel either way. */
	if (vs_activation_find(text, &s->activation)) {
		vs_complain("unknown activation: %s: %s is not one of silu, relu, gelu, gelu_new, gelu_pytorch_tanh",
		            name, text);
		return -EINVAL;
	}
	return 0;
}

/* "LlamaForSequenceClassification", "BertForMaskedLM", "BertModel": the part after the family says what the head is.
 */
static int read_head(const json_t *root, const char *name, struct vs_shape *s)
{
	const json_t *list = json_object_get(root, "architectures");
	const char *class = json_string_value(json_array_get(list, 0));

	if (!list || json_is_null(list) || (json_is_array(list) && !json_array_size(list)))
		return 0;
	if (!class) {
		vs_complain("architectures is not a list of names: %s: write one such as [\"LlamaForCausalLM\"]",
		            name);
		return -EINVAL;
	}
	if (strstr(class, "Classification"))
		s->head = VS_HEAD_LABELS;
	else if (strstr(class, "LM") || strstr(class, "ForConditionalGeneration") || strstr(class, "PreTraining"))
		s->head = VS_HEAD_LM;
	else if (strlen(class) > 5 && !strcmp(class + strlen(class) - 5, "Model"))
		s->head = VS_HEAD_NONE;
	return 0;
}

static int read_moe(const json_t *root, const char *name, struct vs_shape *s)
{
	const json_t *dense = json_object_get(root, "mlp_only_layers");
	const json_t *count = json_object_get(root, "n_shared_experts");
	uint64_t shared = 0;

	if (count && !json_is_null(count) && read_size(count, "n_shared_experts", name, &shared))
		return -EINVAL;

	if (s->family == VS_FAMILY_MIXTRAL)
		s->expert_ffn = s->ffn;
	if (s->family == VS_FAMILY_DEEPSEEK_V2 && !json_object_get(root, "n_shared_experts"))
		shared = 2;
	if (s->family == VS_FAMILY_DEEPSEEK_V3 && !json_object_get(root, "n_shared_experts"))
		shared = 1;
	if (shared > 1 << 16) {
		vs_complain("n_shared_experts is out of range: %s: 0 to 65536", name);
		return -EINVAL;
	}
	s->shared_ffn = shared * s->expert_ffn;
	s->more_dense = json_array_size(dense);
	return 0;
}

static int known_family(const json_t *root, const char *name, enum vs_family *ret)
{
	const char *type = json_string_value(json_object_get(root, "model_type"));

	if (!type) {
		vs_complain("no model_type: %s: add it (\"llama\", \"gpt2\", ...), or give the sizes as flags", name);
		return -EINVAL;
	}
	if (vs_family_find(type, ret)) {
		char missing[160] = "";

		for (size_t i = 0; i < sizeof(size_keys) / sizeof(size_keys[0]); i++) {
			const char *key;

			if (size_keys[i].need == NEEDED && !first_of(root, size_keys[i].keys, 4, &key)) {
				strncat(missing, *missing ? ", " : "", sizeof(missing) - strlen(missing) - 1);
				strncat(missing, size_keys[i].keys[0], sizeof(missing) - strlen(missing) - 1);
			}
		}
		vs_complain(
		    "unknown model_type %s: %s: %s%s%sgive --layers, --hidden, --heads, --ffn and --vocab as flags",
		    type, name, *missing ? "it also lacks " : "", missing, *missing ? "; " : "");
		return -EINVAL;
	}
	return 0;
}

static int convert(const json_t *root, const char *name, struct vs_config *c)
{
	struct vs_shape *s = &c->shape;
	const json_t *window = json_object_get(root, "sliding_window");
	enum vs_family family;
	bool window_used = true;
	const char *why;

	if (known_family(root, name, &family))
		return -EINVAL;
	*s = vs_shape_default(family);
	if (read_sizes(root, name, s) || read_reals(root, name, s) || read_activation(root, name, s) ||
	    read_flag(root, "tie_word_embeddings", name, &s->tied) || read_flag(root, "mlp_bias", name, &s->mlp_bias))
		return -EINVAL;
	if (family == VS_FAMILY_VIT ? read_flag(root, "qkv_bias", name, &s->qkv_bias)
	                            : read_flag(root, "attention_bias", name, &s->out_bias))
		return -EINVAL;
	if (s->out_bias)
		s->qkv_bias = true;
	if (family == VS_FAMILY_GPT2 || family == VS_FAMILY_BERT) {
		const char *key;
		static const char *const keys[] = {"n_positions", "max_position_embeddings", NULL};
		const json_t *value = first_of(root, keys, 2, &key);

		if (value && read_size(value, key, name, &s->positions))
			return -EINVAL;
	}
	window_used = family == VS_FAMILY_MISTRAL || family == VS_FAMILY_GEMMA2 || family == VS_FAMILY_MIXTRAL;
	if (read_flag(root, "use_sliding_window", name, &window_used))
		return -EINVAL;
	if (window_used && window && !json_is_null(window) && read_size(window, "sliding_window", name, &s->window))
		return -EINVAL;
	if (family == VS_FAMILY_GPT2)
		s->kv_heads = s->heads;
	if (json_is_object(json_object_get(root, "id2label")))
		s->labels = json_object_size(json_object_get(root, "id2label"));
	if (read_head(root, name, s) || read_moe(root, name, s))
		return -EINVAL;
	if (s->kv_lora)
		s->kv_heads = s->heads, s->head_dim = s->nope_dim + s->rope_dim;
	vs_shape_complete(s);
	if (vs_shape_check(s, &why)) {
		vs_complain("impossible model: %s: %s", name, why);
		return -EINVAL;
	}
	snprintf(c->attention, sizeof(c->attention), "%.31s",
	         json_string_value(json_object_get(root, "_attn_implementation")) ?: "");
	snprintf(c->dtype, sizeof(c->dtype), "%.15s",
	         json_string_value(json_object_get(root, "dtype") ?: json_object_get(root, "torch_dtype")) ?: "");
	return 0;
}

static int convert_and_release(json_t *root, const char *name, struct vs_config *ret)
{
	struct vs_config config = {0};
	int error = convert(root, name, &config);

	json_decref(root);
	if (!error)
		*ret = config;
	return error;
}

int vs_config_parse(const char *text, size_t size, const char *name, struct vs_config *ret)
{
	json_t *root;
	int error = vs_json_text_read(text, size, name, &root);

	return error ? error : convert_and_release(root, name, ret);
}

int vs_config_read(const char *path, struct vs_config *ret)
{
	json_t *root;
	int error = vs_json_file_read(path, &root);

	return error ? error : convert_and_release(root, path, ret);
}
