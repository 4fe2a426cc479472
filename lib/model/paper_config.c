/* SPDX-License-Identifier: MIT */
#include "model/paper_config.h"

#include <errno.h>
#include <stddef.h>

#define SPELLINGS 5

/* Llama, Mistral, Qwen, BERT, ViT; GPT-2, GPT-J, BLOOM; OPT, T5, MPT, Whisper; DistilBERT; Falcon. */
static const struct {
	size_t offset;
	const char *keys[SPELLINGS];
	uint64_t most; /* beyond this it is a typing error, not a model */
} sizes[] = {
    {offsetof(struct vs_paper_shape, layers), {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 1 << 16},
    {offsetof(struct vs_paper_shape, hidden), {"hidden_size", "n_embd", "d_model", "dim", "n_embed"}, 1 << 24},
    {offsetof(struct vs_paper_shape, heads),
     {"num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"},
     1 << 20},
};

int vs_paper_shape_read(vs_paper_number *number, void *config, struct vs_paper_shape *shape, const char **ret_missing)
{
	struct vs_paper_shape result = *shape;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t *size = (uint64_t *)((char *)&result + sizes[i].offset);
		for (size_t j = 0; j < SPELLINGS && sizes[i].keys[j] && !*size; j++) {
			uint64_t value;
			if (number(config, sizes[i].keys[j], &value) && value <= sizes[i].most)
				*size = value;
		}
		if (!*size) {
			*ret_missing = sizes[i].keys[0];
			return -ENOENT;
		}
	}
	*shape = result;
	return 0;
}
