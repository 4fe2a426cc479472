/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include "model/shard.h"

static const char *const qualities[VS_TAG_COUNT] = {
    [VS_TAG_WEIGHTS] = "exact",        [VS_TAG_GRADIENTS] = "exact",        [VS_TAG_OPTIMIZER] = "exact",
    [VS_TAG_ACTIVATIONS] = "modelled", [VS_TAG_OUTPUTS] = "modelled",       [VS_TAG_TEMPORARIES] = "modelled",
    [VS_TAG_INPUTS] = "exact",         [VS_TAG_COMMUNICATION] = "modelled", [VS_TAG_WORKSPACE] = "assumed",
    [VS_TAG_UNKNOWN] = "assumed",
};

static const char *state_reason(const struct vs_job *j)
{
	if (j->offload)
		return "regime: the states are in host memory";
	if (vs_shards_states(j))
		return "regime: a rank keeps its share of the states";
	if (j->lora_rank)
		return "regime: only the adapters have states";
	switch (j->optimizer) {
	case VS_OPTIMIZER_SGD:
		return "regime: SGD keeps no state";
	case VS_OPTIMIZER_MOMENTUM:
	case VS_OPTIMIZER_LION:
	case VS_OPTIMIZER_MUON:
		return "regime: one moment, not two";
	case VS_OPTIMIZER_ADAFACTOR:
		return "regime: rows and columns of variances instead of moments";
	case VS_OPTIMIZER_ADAMW_8BIT:
	case VS_OPTIMIZER_ADAMW_8BIT_PAGED:
	case VS_OPTIMIZER_ADAMW_4BIT:
		return "regime: quantised moments, and no fp32 master";
	default:
		break;
	}
	if (j->precision == VS_PRECISION_PURE16)
		return "regime: states are bf16, and there is no fp32 master";
	return "regime";
}

static const char *activation_reason(const struct vs_job *j)
{
	enum vs_attention kind = vs_job_attention(j);

	if (j->checkpointing == VS_CHECKPOINTING_FULL)
		return "op saved differently: every layer's input is kept, paper counts one layer alone";
	if (kind == VS_ATTENTION_FLASH || kind == VS_ATTENTION_EFFICIENT)
		return "op saved differently: the attention kernel keeps no S x S scores";
	return "op saved differently: norms keep fp32 copies, softmax its fp32 result";
}

static const char *reason_of(const struct vs_job *j, const struct vs_row *row, enum vs_instant instant)
{
	switch (row->tag) {
	case VS_TAG_WEIGHTS:
		if (vs_shards_states(j))
			return "regime: a rank keeps its share, and what it gathers";
		return j->lora_rank || j->quantization ? "regime: frozen base and adapters"
		                                       : "regime: bytes a parameter";
	case VS_TAG_GRADIENTS:
		if (instant == VS_INSTANT_LOSS_BACKWARD || instant == VS_INSTANT_FORWARD ||
		    instant == VS_INSTANT_LOSS_FORWARD)
			return "instant: the peak comes before gradients exist";
		return j->lora_rank ? "regime: only the adapters have gradients" : "regime: bytes a parameter";
	case VS_TAG_OPTIMIZER:
		return state_reason(j);
	case VS_TAG_ACTIVATIONS:
		return instant == VS_INSTANT_OPTIMIZER || instant == VS_INSTANT_BACKWARD_END
		           ? "instant: the peak comes after activations are gone"
		           : activation_reason(j);
	case VS_TAG_TEMPORARIES:
		return instant == VS_INSTANT_OPTIMIZER ? "not on paper: the optimizer's own list"
		       : instant == VS_INSTANT_LOSS_BACKWARD || instant == VS_INSTANT_LOSS_FORWARD
		           ? "not on paper: logits and loss over the vocabulary"
		           : "not on paper: gradients of activations, workspaces";
	case VS_TAG_OUTPUTS:
		return "held output: the step keeps the logits";
	case VS_TAG_COMMUNICATION:
		return "not on paper: buffers that ranks gather and reduce through";
	default:
		return "not on paper";
	}
}

size_t vs_rows_make(const struct vs_job *j, const struct vs_article_estimate *paper, const struct vs_forecast *f,
                    struct vs_row rows[VS_TAG_COUNT])
{
	const uint64_t on_paper[VS_TAG_COUNT] = {
	    [VS_TAG_WEIGHTS] = paper->weights,
	    [VS_TAG_GRADIENTS] = paper->gradients,
	    [VS_TAG_OPTIMIZER] = paper->master + paper->states,
	    [VS_TAG_ACTIVATIONS] = paper->activations,
	};
	size_t count = 0;

	for (int tag = 0; tag < VS_TAG_COUNT; tag++) {
		struct vs_row row = {.tag = tag, .paper = on_paper[tag], .refined = f->instants[f->winner].live[tag]};

		if (!row.paper && !row.refined)
			continue;
		row.reason = row.paper == row.refined ? "" : reason_of(j, &row, f->winner);
		row.quality = qualities[tag];
		rows[count++] = row;
	}
	return count;
}
