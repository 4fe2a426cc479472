/* SPDX-License-Identifier: MIT */
#include "model/preset.h"

#include "base/alike.h"

#include <errno.h>

/* Layers, hidden size, heads, key/value heads, head size, feed-forward size, vocabulary; then what else a model has.
 */
static const struct row {
	const char *name;
	enum vs_family family;
	uint32_t sizes[7];
	bool tied;
	uint32_t window, positions, image, patch, labels;
	uint32_t experts, experts_per_token, expert_ffn, shared_ffn, first_dense;
	uint32_t q_lora, kv_lora, rope_dim, nope_dim, v_dim;
} rows[] = {
    {"llama-7b", VS_FAMILY_LLAMA, {32, 4096, 32, 32, 128, 11008, 32000}},
    {"llama-13b", VS_FAMILY_LLAMA, {40, 5120, 40, 40, 128, 13824, 32000}},
    {"llama-2-7b", VS_FAMILY_LLAMA, {32, 4096, 32, 32, 128, 11008, 32000}},
    {"llama-2-13b", VS_FAMILY_LLAMA, {40, 5120, 40, 40, 128, 13824, 32000}},
    {"llama-2-70b", VS_FAMILY_LLAMA, {80, 8192, 64, 8, 128, 28672, 32000}},
    {"tinyllama-1.1b", VS_FAMILY_LLAMA, {22, 2048, 32, 4, 64, 5632, 32000}},
    {"llama-3-8b", VS_FAMILY_LLAMA, {32, 4096, 32, 8, 128, 14336, 128256}},
    {"llama-3.1-8b", VS_FAMILY_LLAMA, {32, 4096, 32, 8, 128, 14336, 128256}},
    {"llama-3.1-70b", VS_FAMILY_LLAMA, {80, 8192, 64, 8, 128, 28672, 128256}},
    {"llama-3.1-405b", VS_FAMILY_LLAMA, {126, 16384, 128, 8, 128, 53248, 128256}},
    {"llama-3.2-1b", VS_FAMILY_LLAMA, {16, 2048, 32, 8, 64, 8192, 128256}, .tied = true},
    {"llama-3.2-3b", VS_FAMILY_LLAMA, {28, 3072, 24, 8, 128, 8192, 128256}, .tied = true},
    {"smollm2-135m", VS_FAMILY_LLAMA, {30, 576, 9, 3, 64, 1536, 49152}, .tied = true},
    {"smollm2-360m", VS_FAMILY_LLAMA, {32, 960, 15, 5, 64, 2560, 49152}, .tied = true},
    {"smollm2-1.7b", VS_FAMILY_LLAMA, {24, 2048, 32, 32, 64, 8192, 49152}, .tied = true},
    {"mistral-7b", VS_FAMILY_MISTRAL, {32, 4096, 32, 8, 128, 14336, 32000}, .window = 4096},
    {"qwen2.5-0.5b", VS_FAMILY_QWEN2, {24, 896, 14, 2, 64, 4864, 151936}, .tied = true},
    {"qwen2.5-1.5b", VS_FAMILY_QWEN2, {28, 1536, 12, 2, 128, 8960, 151936}, .tied = true},
    {"qwen2.5-3b", VS_FAMILY_QWEN2, {36, 2048, 16, 2, 128, 11008, 151936}, .tied = true},
    {"qwen2.5-7b", VS_FAMILY_QWEN2, {28, 3584, 28, 4, 128, 18944, 152064}},
    {"qwen2.5-14b", VS_FAMILY_QWEN2, {48, 5120, 40, 8, 128, 13824, 152064}},
    {"qwen2.5-32b", VS_FAMILY_QWEN2, {64, 5120, 40, 8, 128, 27648, 152064}},
    {"qwen2.5-72b", VS_FAMILY_QWEN2, {80, 8192, 64, 8, 128, 29568, 152064}},
    {"qwen3-0.6b", VS_FAMILY_QWEN3, {28, 1024, 16, 8, 128, 3072, 151936}, .tied = true},
    {"qwen3-1.7b", VS_FAMILY_QWEN3, {28, 2048, 16, 8, 128, 6144, 151936}, .tied = true},
    {"qwen3-4b", VS_FAMILY_QWEN3, {36, 2560, 32, 8, 128, 9728, 151936}, .tied = true},
    {"qwen3-8b", VS_FAMILY_QWEN3, {36, 4096, 32, 8, 128, 12288, 151936}},
    {"qwen3-14b", VS_FAMILY_QWEN3, {40, 5120, 40, 8, 128, 17408, 151936}},
    {"qwen3-32b", VS_FAMILY_QWEN3, {64, 5120, 64, 8, 128, 25600, 151936}},
    {"qwen3-30b-a3b",
     VS_FAMILY_QWEN3_MOE,
     {48, 2048, 32, 4, 128, 6144, 151936},
     .experts = 128,
     .experts_per_token = 8,
     .expert_ffn = 768},
    {"gemma-2b", VS_FAMILY_GEMMA, {18, 2048, 8, 1, 256, 16384, 256000}},
    {"gemma-7b", VS_FAMILY_GEMMA, {28, 3072, 16, 16, 256, 24576, 256000}},
    {"gemma-2-2b", VS_FAMILY_GEMMA2, {26, 2304, 8, 4, 256, 9216, 256000}, .window = 4096},
    {"gemma-2-9b", VS_FAMILY_GEMMA2, {42, 3584, 16, 8, 256, 14336, 256000}, .window = 4096},
    {"gemma-2-27b", VS_FAMILY_GEMMA2, {46, 4608, 32, 16, 128, 36864, 256000}, .window = 4096},
    {"gpt2", VS_FAMILY_GPT2, {12, 768, 12, 12, 64, 3072, 50257}, .positions = 1024},
    {"gpt2-medium", VS_FAMILY_GPT2, {24, 1024, 16, 16, 64, 4096, 50257}, .positions = 1024},
    {"gpt2-large", VS_FAMILY_GPT2, {36, 1280, 20, 20, 64, 5120, 50257}, .positions = 1024},
    {"gpt2-xl", VS_FAMILY_GPT2, {48, 1600, 25, 25, 64, 6400, 50257}, .positions = 1024},
    {"bert-base", VS_FAMILY_BERT, {12, 768, 12, 12, 64, 3072, 30522}, .positions = 512},
    {"bert-large", VS_FAMILY_BERT, {24, 1024, 16, 16, 64, 4096, 30522}, .positions = 512},
    {"vit-b-16", VS_FAMILY_VIT, {12, 768, 12, 12, 64, 3072, 0}, .image = 224, .patch = 16, .labels = 1000},
    {"vit-l-16", VS_FAMILY_VIT, {24, 1024, 16, 16, 64, 4096, 0}, .image = 224, .patch = 16, .labels = 1000},
    {"t5-small", VS_FAMILY_T5, {6, 512, 8, 8, 64, 2048, 32128}},
    {"t5-base", VS_FAMILY_T5, {12, 768, 12, 12, 64, 3072, 32128}},
    {"t5-large", VS_FAMILY_T5, {24, 1024, 16, 16, 64, 4096, 32128}},
    {"t5-3b", VS_FAMILY_T5, {24, 1024, 32, 32, 128, 16384, 32128}},
    {"mixtral-8x7b",
     VS_FAMILY_MIXTRAL,
     {32, 4096, 32, 8, 128, 14336, 32000},
     .experts = 8,
     .experts_per_token = 2,
     .expert_ffn = 14336},
    {"deepseek-v2-lite",
     VS_FAMILY_DEEPSEEK_V2,
     {27, 2048, 16, 16, 192, 10944, 102400},
     .experts = 64,
     .experts_per_token = 6,
     .expert_ffn = 1408,
     .shared_ffn = 2816,
     .first_dense = 1,
     .kv_lora = 512,
     .rope_dim = 64,
     .nope_dim = 128,
     .v_dim = 128},
    {"deepseek-v2",
     VS_FAMILY_DEEPSEEK_V2,
     {60, 5120, 128, 128, 192, 12288, 102400},
     .experts = 160,
     .experts_per_token = 6,
     .expert_ffn = 1536,
     .shared_ffn = 3072,
     .first_dense = 1,
     .q_lora = 1536,
     .kv_lora = 512,
     .rope_dim = 64,
     .nope_dim = 128,
     .v_dim = 128},
    {"deepseek-v3",
     VS_FAMILY_DEEPSEEK_V3,
     {61, 7168, 128, 128, 192, 18432, 129280},
     .experts = 256,
     .experts_per_token = 8,
     .expert_ffn = 2048,
     .shared_ffn = 2048,
     .first_dense = 3,
     .q_lora = 1536,
     .kv_lora = 512,
     .rope_dim = 64,
     .nope_dim = 128,
     .v_dim = 128},
};

const char *vs_preset_at(size_t index, struct vs_shape *ret_shape)
{
	const struct row *r = &rows[index];
	struct vs_shape s;

	if (index >= sizeof(rows) / sizeof(rows[0]))
		return NULL;
	s = vs_shape_default(r->family);
	s.layers = r->sizes[0];
	s.hidden = r->sizes[1];
	s.heads = r->sizes[2];
	s.kv_heads = r->sizes[3];
	s.head_dim = r->sizes[4];
	s.ffn = r->sizes[5];
	s.vocab = r->sizes[6];
	s.tied |= r->tied;
	s.window = r->window;
	s.positions = r->positions;
	s.image = r->image;
	s.patch = r->patch;
	s.labels = r->labels ? r->labels : s.labels;
	s.experts = r->experts;
	s.experts_per_token = r->experts_per_token;
	s.expert_ffn = r->expert_ffn;
	s.shared_ffn = r->shared_ffn;
	s.first_dense = r->first_dense;
	s.q_lora = r->q_lora;
	s.kv_lora = r->kv_lora;
	s.rope_dim = r->rope_dim;
	s.nope_dim = r->nope_dim;
	s.v_dim = r->v_dim;
	vs_shape_complete(&s);
	if (ret_shape)
		*ret_shape = s;
	return r->name;
}

int vs_preset_find(const char *name, struct vs_shape *ret_shape)
{
	for (size_t i = 0; vs_preset_at(i, NULL); i++) {
		if (vs_alike(rows[i].name, name)) {
			vs_preset_at(i, ret_shape);
			return 0;
		}
	}
	return -ENOENT;
}
