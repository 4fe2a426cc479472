/* SPDX-License-Identifier: MIT */
#include "model/article.h"

#include "model/paper.h"

#include <errno.h>

static const struct {
	const char *name;
	struct vs_article_bytes bytes;
} regimes[VS_REGIME_COUNT] = {
    [VS_REGIME_INFERENCE] = {"inference", {2, 0, 0, 0}},
    [VS_REGIME_FP32] = {"fp32 Adam", {4, 4, 0, 8}},
    [VS_REGIME_MIXED] = {"mixed-precision Adam", {2, 2, 4, 8}},
    [VS_REGIME_MOMENTUM] = {"SGD with momentum", {2, 2, 4, 4}},
    [VS_REGIME_8BIT] = {"8-bit Adam", {2, 2, 4, 2}},
    [VS_REGIME_LORA] = {"LoRA", {2, 0, 0, 0}},
};

/* The second article's activations: elements of 2 bytes, 12 of width H a token and layer. */
#define TWELVE 12

struct vs_article_bytes vs_article_regime(enum vs_article_regime regime)
{
	return regimes[regime].bytes;
}

const char *vs_article_regime_name(enum vs_article_regime regime)
{
	return regimes[regime].name;
}

static int times(uint64_t parameters, double bytes, uint64_t *ret)
{
	double product = (double)parameters * bytes;

	if (product > 9e18)
		return -ERANGE;
	*ret = (uint64_t)product;
	return 0;
}

static int activations(enum vs_article article, const struct vs_article_model *m, struct vs_article_estimate *e)
{
	struct vs_paper_shape shape = {
	    .layers = m->layers, .hidden = m->hidden, .heads = m->heads, .batch = m->batch, .sequence = m->seq};
	struct vs_paper_activations paper;
	int error = vs_paper_activations(&shape, m->checkpointing, &paper);

	if (error)
		return error;
	if (article == VS_ARTICLE_SCORES) {
		e->activations_layer = paper.layer_bytes;
		e->activations = paper.bytes;
		return 0;
	}
	if (__builtin_mul_overflow(m->batch * 2 * TWELVE, m->seq, &e->activations_layer) ||
	    __builtin_mul_overflow(e->activations_layer, m->hidden, &e->activations_layer) ||
	    __builtin_mul_overflow(e->activations_layer, m->layers, &e->activations))
		return -ERANGE;
	return 0;
}

int vs_article_estimate(enum vs_article article, enum vs_article_regime regime, const struct vs_article_model *m,
                        struct vs_article_estimate *ret)
{
	struct vs_article_bytes b = regimes[regime].bytes;
	struct vs_article_estimate e = {0};
	int error;

	if (!m->parameters)
		return -EINVAL;
	error = times(m->parameters, b.weights, &e.weights);
	if (!error)
		error = times(m->parameters, b.gradients, &e.gradients);
	if (!error)
		error = times(m->parameters, b.master, &e.master);
	if (!error)
		error = times(m->parameters, b.states, &e.states);
	if (!error && m->layers && regime != VS_REGIME_INFERENCE)
		error = activations(article, m, &e);
	if (error)
		return error;
	e.total = e.weights + e.gradients + e.master + e.states;
	if (__builtin_add_overflow(e.total, e.activations, &e.total))
		return -ERANGE;
	*ret = e;
	return 0;
}

uint64_t vs_article_cards(uint64_t total, uint64_t card)
{
	return card ? (total + card - 1) / card : 0;
}

uint64_t vs_article_largest(uint64_t card, enum vs_article_regime regime)
{
	struct vs_article_bytes b = regimes[regime].bytes;

	return (uint64_t)((double)card / (b.weights + b.gradients + b.master + b.states));
}
