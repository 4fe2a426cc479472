/* SPDX-License-Identifier: MIT
 *
 * Two published ways to estimate training memory by hand, as their authors compute them. Both count a fixed number of
 * bytes a parameter; they differ in the activations. What they print as "GB" for the fixed part is 10^9 bytes,
 * although one of them writes a division by 1024^3.
 */
#ifndef VS_MODEL_ARTICLE_H
#define VS_MODEL_ARTICLE_H

#include <stdbool.h>
#include <stdint.h>

enum vs_article {
	VS_ARTICLE_SCORES, /* 2 (19 B S H + 3 B A S^2) bytes a layer; one layer with checkpointing */
	VS_ARTICLE_TWELVE, /* 2 x 12 B S H bytes a layer: no scores, no checkpointing */
	VS_ARTICLE_COUNT,
};

/* The articles' bytes a parameter. */
enum vs_article_regime {
	VS_REGIME_INFERENCE, /* 16-bit weights alone: 2 */
	VS_REGIME_FP32,      /* 4 + 4 + 8: 16 */
	VS_REGIME_MIXED,     /* 2 + 2 + 4 + 8: 16 */
	VS_REGIME_MOMENTUM,  /* 2 + 2 + 4 + 4: 12 */
	VS_REGIME_8BIT,      /* 2 + 2 + 6: the master and two moments of a byte */
	VS_REGIME_LORA,      /* frozen 16-bit weights: 2, the adapter counts as nothing */
	VS_REGIME_COUNT,
};

struct vs_article_bytes { /* a parameter */
	double weights, gradients, master, states;
};

struct vs_article_model {
	uint64_t parameters, layers, hidden, heads;
	uint64_t batch, seq;
	bool checkpointing;
};

struct vs_article_estimate {
	uint64_t weights, gradients, master, states; /* bytes */
	uint64_t activations_layer, activations;
	uint64_t total;
};

struct vs_article_bytes vs_article_regime(enum vs_article_regime regime);
const char *vs_article_regime_name(enum vs_article_regime regime);
/* -ERANGE beyond 64 bits, -EINVAL: a size is 0. */
int vs_article_estimate(enum vs_article article, enum vs_article_regime regime, const struct vs_article_model *model,
                        struct vs_article_estimate *ret_estimate);
/* Cards of `card` bytes that hold `total`, were it divided evenly: the articles' division. */
uint64_t vs_article_cards(uint64_t total, uint64_t card);
/* The largest model whose fixed part fits a card ("24 / 16 = 1.5 billion"). */
uint64_t vs_article_largest(uint64_t card, enum vs_article_regime regime);

#endif
