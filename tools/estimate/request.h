/* SPDX-License-Identifier: MIT
 *
 * The flags that describe a model and a job, shared by the subcommands that estimate one.
 */
#ifndef VS_ESTIMATE_REQUEST_H
#define VS_ESTIMATE_REQUEST_H

#include "model/article.h"
#include "model/plan.h"
#include "option.h"

struct vs_request {
	/* As given. */
	const char *config, *preset, *gpu_name, *family_name, *lora_targets;
	uint64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, parameters, experts, experts_per_token,
	    expert_ffn;
	bool tied;
	uint64_t batch, seq, accumulation, ranks, tensor, pipeline, context, expert, lora_rank, loss_chunks;
	int precision, optimizer, checkpointing, attention, sharding, quantization;
	bool fp16, offload, ema, l2_decay, sequence_parallel, outputs_held;
	uint64_t memory;

	/* What they come to. */
	char name[64];
	struct vs_job job;
	bool shaped; /* a whole model is known, not a number of parameters alone */
	struct vs_gpu_memory gpu;
	struct vs_room room;
};

#define VS_REQUEST_OPTIONS 35

void vs_request_init(struct vs_request *request);
/* Fills the first VS_REQUEST_OPTIONS rows of a table of options. */
void vs_request_options(struct vs_request *request, struct vs_option options[VS_REQUEST_OPTIONS]);
/* From flags to a job. On failure one line on stderr, and -EINVAL. */
int vs_request_resolve(struct vs_request *request, const struct vs_option *options, size_t count);
extern const char vs_request_usage[];

enum vs_article_regime vs_request_regime(const struct vs_job *job);
struct vs_article_model vs_request_article(const struct vs_request *request);

#endif
