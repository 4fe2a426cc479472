/* SPDX-License-Identifier: MIT */
#include "request.h"

#include "common/message.h"
#include "config.h"
#include "model/optimizer.h"
#include "model/preset.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char vs_request_usage[] =
    "The model, one of:\n"
    "  --config FILE            a Hugging Face config.json\n"
    "  --preset NAME            a published model (--list-presets)\n"
    "  --layers L --hidden H --heads A --ffn F --vocab V [--kv-heads K] [--head-dim D]\n"
    "                           [--tied] [--family NAME]\n"
    "  --parameters P           their number alone, 7e9 or 7B (with --formula article)\n"
    "  Sizes given beside --config or --preset take the place of theirs.\n"
    "The job:\n"
    "  --batch B --seq S        of one GPU's micro-batch (1, 2048)\n"
    "  --precision P            fp32, amp, bf16, bf16-master, megatron (bf16);\n"
    "                           --fp16: the 16-bit type is fp16\n"
    "  --optimizer O            adamw, adamw-fused, adamw-loop, sgd, sgd-momentum, adafactor,\n"
    "                           lion, muon, adamw-8bit, adamw-8bit-paged, adamw-4bit\n"
    "  --l2-decay               weight decay within the gradients, as in SGD and Adam, not AdamW\n"
    "  --checkpointing C        none, selective, full\n"
    "  --attention A            sdpa, eager, flash, efficient, math\n"
    "  --accumulate N           micro-batches a step\n"
    "  --loss-chunks N          a fused loss in N pieces\n"
    "  --lora-rank R            train adapters; --lora-targets q,k,v,o,gate,up,down or all (q,v)\n"
    "  --quantize Q             nf4, nf4-double: 4-bit base weights under the adapters\n"
    "  --offload                optimizer states on the CPU; with fsdp, shares and gradients too\n"
    "  --ema, --hold-outputs    an averaged copy of the weights; logits kept to the step's end\n"
    "  --sharding S --gpus N    ddp, zero1, zero2, zero3, fsdp over N GPUs\n"
    "  --tensor-parallel N, --sequence-parallel, --pipeline-parallel N\n"
    "                           as torch.distributed runs them\n"
    "  --context-parallel N, --expert-parallel N\n"
    "  --gpu NAME               a card of vramrun --list-gpus;\n"
    "                           --gpu-memory SIZE: with so much memory\n";

void vs_request_init(struct vs_request *r)
{
	*r = (struct vs_request){.batch = 1,
	                         .seq = 2048,
	                         .accumulation = 1,
	                         .ranks = 1,
	                         .tensor = 1,
	                         .pipeline = 1,
	                         .context = 1,
	                         .expert = 1,
	                         .precision = VS_PRECISION_PURE16};
}

void vs_request_options(struct vs_request *r, struct vs_option options[VS_REQUEST_OPTIONS])
{
	const struct vs_option rows[VS_REQUEST_OPTIONS] = {
	    {"--config", VS_OPTION_TEXT, &r->config},
	    {"--preset", VS_OPTION_TEXT, &r->preset},
	    {"--family", VS_OPTION_TEXT, &r->family_name},
	    {"--layers", VS_OPTION_COUNT, &r->layers, 100000},
	    {"--hidden", VS_OPTION_COUNT, &r->hidden, 1 << 24},
	    {"--heads", VS_OPTION_COUNT, &r->heads, 1 << 20},
	    {"--kv-heads", VS_OPTION_COUNT, &r->kv_heads, 1 << 20},
	    {"--head-dim", VS_OPTION_COUNT, &r->head_dim, 1 << 20},
	    {"--ffn", VS_OPTION_COUNT, &r->ffn, 1 << 28},
	    {"--vocab", VS_OPTION_COUNT, &r->vocab, 1 << 28},
	    {"--tied", VS_OPTION_FLAG, &r->tied},
	    {"--parameters", VS_OPTION_COUNT, &r->parameters},
	    {"--batch", VS_OPTION_COUNT, &r->batch, 1 << 24},
	    {"--seq", VS_OPTION_COUNT, &r->seq, 1 << 28},
	    {"--accumulate", VS_OPTION_COUNT, &r->accumulation, 1 << 20},
	    {"--precision", VS_OPTION_CHOICE, &r->precision, .choices = vs_precision_names},
	    {"--fp16", VS_OPTION_FLAG, &r->fp16},
	    {"--optimizer", VS_OPTION_CHOICE, &r->optimizer, .choices = vs_optimizer_names},
	    {"--checkpointing", VS_OPTION_CHOICE, &r->checkpointing, .choices = vs_checkpointing_names},
	    {"--attention", VS_OPTION_CHOICE, &r->attention, .choices = vs_attention_names},
	    {"--loss-chunks", VS_OPTION_COUNT, &r->loss_chunks, 1 << 20},
	    {"--lora-rank", VS_OPTION_COUNT, &r->lora_rank, 1 << 20},
	    {"--lora-targets", VS_OPTION_TEXT, &r->lora_targets},
	    {"--quantize", VS_OPTION_CHOICE, &r->quantization, .choices = vs_quantization_names},
	    {"--offload", VS_OPTION_FLAG, &r->offload},
	    {"--l2-decay", VS_OPTION_FLAG, &r->l2_decay},
	    {"--ema", VS_OPTION_FLAG, &r->ema},
	    {"--hold-outputs", VS_OPTION_FLAG, &r->outputs_held},
	    {"--sharding", VS_OPTION_CHOICE, &r->sharding, .choices = vs_sharding_names},
	    {"--gpus", VS_OPTION_COUNT, &r->ranks, 1 << 20},
	    {"--tensor-parallel", VS_OPTION_COUNT, &r->tensor, 1 << 16},
	    {"--pipeline-parallel", VS_OPTION_COUNT, &r->pipeline, 1 << 16},
	    {"--context-parallel", VS_OPTION_COUNT, &r->context, 1 << 16},
	    {"--expert-parallel", VS_OPTION_COUNT, &r->expert, 1 << 16},
	    {"--sequence-parallel", VS_OPTION_FLAG, &r->sequence_parallel},
	};

	memcpy(options, rows, sizeof(rows));
}

static int parse_targets(const char *text, uint32_t *ret)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} names[] = {
	    {"q", VS_LORA_Q},       {"k", VS_LORA_K},   {"v", VS_LORA_V},       {"o", VS_LORA_O},
	    {"gate", VS_LORA_GATE}, {"up", VS_LORA_UP}, {"down", VS_LORA_DOWN}, {"attention", VS_LORA_ATTENTION},
	    {"all", VS_LORA_ALL}};
	uint32_t bits = 0;

	while (*text) {
		size_t length = strcspn(text, ",+"), core = length;
		bool found = false;

		if (core > 5 && !strncmp(text + core - 5, "_proj", 5))
			core -= 5; /* Hugging Face's names: q_proj */
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strlen(names[i].name) == core && !strncmp(names[i].name, text, core)) {
				bits |= names[i].bits;
				found = true;
			}
		}
		if (!found) {
			vs_complain("unknown LoRA target: %.*s: use q, k, v, o, gate, up, down, attention or all",
			            (int)(length < 40 ? length : 40), text);
			return -EINVAL;
		}
		text += length;
		text += *text != '\0';
	}
	*ret = bits;
	return 0;
}

static int base_shape(struct vs_request *r, struct vs_shape *s)
{
	enum vs_family family = VS_FAMILY_LLAMA;

	if (r->config && r->preset) {
		vs_complain("both --config and --preset: %s: give one of them", r->preset);
		return -EINVAL;
	}
	if (r->config) {
		struct vs_config config;

		if (vs_config_read(r->config, &config))
			return -EINVAL;
		*s = config.shape;
		snprintf(r->name, sizeof(r->name), "%.60s", r->config);
		return 0;
	}
	if (r->preset) {
		if (vs_preset_find(r->preset, s)) {
			vs_complain("unknown preset: %s: see --list-presets, or give --config or sizes", r->preset);
			return -EINVAL;
		}
		snprintf(r->name, sizeof(r->name), "%.60s", r->preset);
		return 0;
	}
	if (r->family_name && vs_family_find(r->family_name, &family)) {
		vs_complain(
		    "unknown model family: %s: use llama, mistral, qwen2, qwen3, gemma, gemma2, gpt2, bert, ...",
		    r->family_name);
		return -EINVAL;
	}
	*s = vs_shape_default(family);
	snprintf(r->name, sizeof(r->name), "%s", vs_family_name(family));
	return 0;
}

static void override(struct vs_request *r, struct vs_shape *s)
{
	const struct {
		uint64_t given;
		uint64_t *field;
	} sizes[] = {{r->layers, &s->layers},     {r->hidden, &s->hidden},     {r->heads, &s->heads},
	             {r->kv_heads, &s->kv_heads}, {r->head_dim, &s->head_dim}, {r->ffn, &s->ffn},
	             {r->vocab, &s->vocab}};

	/* Heads of another number or width have another size each, unless that is given too. */
	if ((r->hidden || r->heads) && !r->head_dim && !s->kv_lora)
		s->head_dim = 0;
	if (r->heads && !r->kv_heads)
		s->kv_heads = 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i].given)
			*sizes[i].field = sizes[i].given;
	}
	s->tied |= r->tied;
	vs_shape_complete(s);
}

static int resolve_shape(struct vs_request *r, struct vs_shape *s)
{
	const char *why;
	bool sizes;

	if (base_shape(r, s))
		return -EINVAL;
	sizes = r->config || r->preset || r->layers || r->hidden || r->heads || r->ffn;
	override(r, s);
	if (r->config || r->preset || sizes) {
		if (vs_shape_check(s, &why)) {
			vs_complain("impossible model: %s: %s", r->name, why);
			return -EINVAL;
		}
		r->shaped = true;
	} else if (!r->parameters) {
		vs_complain("no model: plan: give --config, --preset, or --layers --hidden --heads --ffn --vocab");
		return -EINVAL;
	}
	return 0;
}

static int resolve_gpu(struct vs_request *r)
{
	if (r->gpu_name) {
		if (vs_gpu_memory_find(r->gpu_name, &r->gpu)) {
			vs_complain("unknown GPU: %s: see vramrun --list-gpus, or give --gpu-memory", r->gpu_name);
			return -EINVAL;
		}
		r->room = vs_room_on(&r->gpu);
		vs_job_on(&r->job, &r->gpu);
	}
	if (r->memory)
		r->room.total = r->memory;
	return 0;
}

/* Flags that say two things, or one about nothing. */
static const char *contradiction(const struct vs_request *r, const struct vs_option *options, size_t count)
{
	const char *model = r->config ? "--config" : r->preset ? "--preset" : NULL;
	bool sharding = vs_option_given(options, count, "--sharding");

	if (model && vs_option_given(options, count, "--parameters"))
		return "--parameters beside a model, which has its own: give one of them";
	if (model && vs_option_given(options, count, "--family"))
		return "--family beside a model, which has its own: leave it out";
	if (sharding && r->sharding == VS_SHARDING_NONE && r->ranks > 1)
		return "--sharding none over several --gpus: say how they share the work, or leave it out for ddp";
	if (sharding && r->sharding != VS_SHARDING_NONE && vs_option_given(options, count, "--gpus") && r->ranks == 1)
		return "--sharding over one GPU: give --gpus 2 or more";
	if (r->fp16 && r->precision == VS_PRECISION_FP32)
		return "both --fp16 and --precision fp32: give one of them";
	if (r->lora_targets && !r->lora_rank)
		return "--lora-targets without --lora-rank: give the rank, such as 16";
	if (r->offload && r->optimizer == VS_OPTIMIZER_ADAMW_8BIT_PAGED)
		return "--offload of paged states, which are in host memory: give one of them";
	if (r->l2_decay && !vs_optimizer_takes_l2(r->optimizer))
		return "--l2-decay with an optimizer that has none: it is SGD's, SGD with momentum's and Adam's";
	if (r->outputs_held && r->loss_chunks > 1)
		return "--hold-outputs with --loss-chunks: a fused loss has no logits to hold";
	return NULL;
}

int vs_request_resolve(struct vs_request *r, const struct vs_option *options, size_t count)
{
	struct vs_shape shape;
	const char *why = contradiction(r, options, count);

	if (why) {
		vs_complain("flags that do not go together: %s", why);
		return -EINVAL;
	}
	if (resolve_shape(r, &shape))
		return -EINVAL;
	if (shape.family == VS_FAMILY_VIT && vs_option_given(options, count, "--seq")) {
		vs_complain("an image has no --seq: %s: its patches are counted, leave it out", r->name);
		return -EINVAL;
	}
	r->job = vs_job_default(&shape);
	r->job.batch = r->batch;
	r->job.seq = r->seq;
	/* What a model cannot take is no default of ours. */
	if (shape.positions && r->job.seq > shape.positions && !vs_option_given(options, count, "--seq"))
		r->job.seq = shape.positions;
	r->job.accumulation = (uint32_t)r->accumulation;
	r->job.precision = r->precision;
	r->job.fp16 = r->fp16;
	r->job.optimizer = r->optimizer;
	r->job.checkpointing = r->checkpointing;
	r->job.attention = r->attention;
	r->job.loss_chunks = (uint32_t)r->loss_chunks;
	r->job.lora_rank = (uint32_t)r->lora_rank;
	r->job.input_grads = r->lora_rank > 0;
	r->job.quantization = r->quantization;
	r->job.offload = r->offload;
	r->job.l2_decay = r->l2_decay;
	r->job.ema = r->ema;
	r->job.outputs_held = r->outputs_held;
	r->job.sharding = r->sharding;
	r->job.ranks = (uint32_t)r->ranks;
	r->job.tensor_parallel = (uint32_t)r->tensor;
	r->job.pipeline_parallel = (uint32_t)r->pipeline;
	r->job.context_parallel = (uint32_t)r->context;
	r->job.expert_parallel = (uint32_t)r->expert;
	r->job.sequence_parallel = r->sequence_parallel;
	if (r->lora_targets && parse_targets(r->lora_targets, &r->job.lora_targets))
		return -EINVAL;
	if (r->ranks > 1 && r->sharding == VS_SHARDING_NONE)
		r->job.sharding = VS_SHARDING_DDP;
	if (resolve_gpu(r))
		return -EINVAL;
	if (r->shaped && vs_job_check(&r->job, &why)) {
		vs_complain("impossible job: %s: %s", r->name, why);
		return -EINVAL;
	}
	return 0;
}

enum vs_article_regime vs_request_regime(const struct vs_job *j)
{
	if (j->lora_rank)
		return VS_REGIME_LORA;
	if (j->optimizer >= VS_OPTIMIZER_ADAMW_8BIT && j->optimizer <= VS_OPTIMIZER_ADAMW_4BIT)
		return VS_REGIME_8BIT;
	if (j->optimizer == VS_OPTIMIZER_MOMENTUM)
		return VS_REGIME_MOMENTUM;
	return j->precision == VS_PRECISION_FP32 || j->precision == VS_PRECISION_AMP ? VS_REGIME_FP32
	                                                                             : VS_REGIME_MIXED;
}

struct vs_article_model vs_request_article(const struct vs_request *r)
{
	const struct vs_shape *s = &r->job.shape;

	return (struct vs_article_model){
	    .parameters = r->parameters ? r->parameters : vs_shape_count(s),
	    .layers = s->layers,
	    .hidden = s->hidden,
	    .heads = s->heads,
	    .batch = r->job.batch,
	    .seq = vs_shape_sequence(s, r->job.seq),
	    .checkpointing = r->job.checkpointing == VS_CHECKPOINTING_FULL,
	};
}
