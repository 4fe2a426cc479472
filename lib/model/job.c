/* SPDX-License-Identifier: MIT */
#include "model/job.h"

#include <errno.h>

const char *const vs_precision_names[] = {"fp32", "amp", "bf16", "bf16-master", "megatron", NULL};
const char *const vs_optimizer_names[] = {"adamw",        "adamw-fused",      "adamw-loop", "sgd",
                                          "sgd-momentum", "adafactor",        "lion",       "muon",
                                          "adamw-8bit",   "adamw-8bit-paged", "adamw-4bit", NULL};
const char *const vs_checkpointing_names[] = {"none", "selective", "full", NULL};
const char *const vs_sharding_names[] = {"none", "ddp", "zero1", "zero2", "zero3", "fsdp", NULL};
const char *const vs_attention_names[] = {"sdpa", "eager", "flash", "efficient", "math", NULL};
const char *const vs_quantization_names[] = {"none", "nf4", "nf4-double", NULL};

/* aten/src/ATen/cuda/CUDABlas: CUBLAS_WORKSPACE_CONFIG's default ":4096:2:16:8" is 2 x 4096 KiB + 8 x 16 KiB. */
#define GEMM_WORKSPACE 8519680

struct vs_job vs_job_default(const struct vs_shape *shape)
{
	return (struct vs_job){
	    .shape = *shape,
	    .batch = 1,
	    .seq = 2048,
	    .accumulation = 1,
	    .precision = VS_PRECISION_PURE16,
	    .lora_targets = VS_LORA_Q | VS_LORA_V,
	    .ranks = 1,
	    .tensor_parallel = 1,
	    .pipeline_parallel = 1,
	    .context_parallel = 1,
	    .expert_parallel = 1,
	    .compute_capability = 80,
	    .multiprocessors = 108, /* an A100's */
	    .threads_per_sm = 2048,
	    .gemm_workspace = GEMM_WORKSPACE,
	};
}

uint8_t vs_job_param_size(const struct vs_job *j)
{
	return j->precision == VS_PRECISION_FP32 || j->precision == VS_PRECISION_AMP ? 4 : 2;
}

uint8_t vs_job_compute_size(const struct vs_job *j)
{
	return j->precision == VS_PRECISION_FP32 ? 4 : 2;
}

/* The order of at::native's select_sdp_backend() on CUDA, for training: flash (16 bits, from sm_80, heads to 256, no
 * mask), memory-efficient, math. */
enum vs_attention vs_job_attention(const struct vs_job *j)
{
	uint64_t dim = j->shape.kv_lora ? j->shape.nope_dim + j->shape.rope_dim : j->shape.head_dim;
	bool masked = j->shape.window && j->seq > j->shape.window;

	if (j->attention != VS_ATTENTION_AUTO)
		return j->attention;
	if (j->shape.softcap)
		return VS_ATTENTION_EAGER;
	if (j->shape.kv_lora)
		return VS_ATTENTION_EFFICIENT; /* values are narrower than keys */
	if (j->shape.family == VS_FAMILY_T5)
		return VS_ATTENTION_EFFICIENT; /* a bias that needs a gradient */
	if (vs_job_compute_size(j) == 2 && j->compute_capability >= 80 && dim <= 256 && !masked)
		return VS_ATTENTION_FLASH;
	return VS_ATTENTION_EFFICIENT;
}

int vs_job_check(const struct vs_job *j, const char **ret_why)
{
	const struct vs_shape *s = &j->shape;
	const char *why = NULL;
	uint64_t tokens;

	if (vs_shape_check(s, ret_why))
		return -EINVAL;
	if (!j->batch || j->batch > 1 << 24 || !j->seq || j->seq > 1 << 28)
		why = "batch 1 to 16777216, sequence 1 to 268435456";
	else if (__builtin_mul_overflow(j->batch, j->seq, &tokens) || tokens > UINT64_C(1) << 36)
		why = "batch times sequence: up to 2^36 tokens";
	else if (s->layers + s->decoder_layers > 4000)
		why = "more than 4000 layers";
	else if (!j->ranks || !j->tensor_parallel || !j->pipeline_parallel || !j->context_parallel ||
	         !j->expert_parallel || !j->accumulation)
		why = "degrees of parallelism and accumulation start at 1";
	else if (s->heads % j->tensor_parallel || s->ffn % j->tensor_parallel)
		why = "tensor parallel must divide the attention heads and the feed-forward size";
	else if (j->pipeline_parallel > s->layers || j->pipeline_parallel > 256)
		why = "more pipeline stages than layers, or than 256";
	else if (s->decoder_layers && j->pipeline_parallel > 1)
		why = "a pipeline over two stacks is not modelled";
	else if (s->decoder_layers && j->sequence_parallel)
		why = "sequence parallel over two stacks is not modelled";
	else if (j->sequence_parallel && (j->tensor_parallel < 2 || j->batch * j->seq % j->tensor_parallel))
		why = "sequence parallel needs tensor parallel, dividing the tokens";
	else if (j->seq % j->context_parallel)
		why = "context parallel must divide the sequence";
	else if (j->expert_parallel > 1 && (!s->experts || s->experts % j->expert_parallel))
		why = "expert parallel must divide the experts";
	else if (j->quantization && !j->lora_rank)
		why = "4-bit weights do not train: add an adapter (--lora-rank)";
	else if (s->positions && j->seq > s->positions)
		why = "the sequence is longer than the model's position table";
	else if (j->lora_rank > s->hidden)
		why = "LoRA rank: up to the hidden size";
	else if (j->loss_chunks > tokens)
		why = "a fused loss has at most as many pieces as there are tokens";
	if (!why)
		return 0;
	*ret_why = why;
	return -EINVAL;
}

static bool has_context(const struct vs_job *j)
{
	return j->context_parallel > 1;
}

static bool has_experts(const struct vs_job *j)
{
	return j->expert_parallel > 1;
}

static bool is_megatron(const struct vs_job *j)
{
	return j->precision == VS_PRECISION_MEGATRON;
}

static bool has_plain_master(const struct vs_job *j)
{
	return j->precision == VS_PRECISION_MASTER16 &&
	       (j->sharding < VS_SHARDING_ZERO1 || j->sharding > VS_SHARDING_ZERO3);
}

static bool has_paged(const struct vs_job *j)
{
	return j->optimizer == VS_OPTIMIZER_ADAMW_8BIT_PAGED;
}

static bool has_4bit_states(const struct vs_job *j)
{
	return j->optimizer == VS_OPTIMIZER_ADAMW_4BIT;
}

static bool has_double_quantization(const struct vs_job *j)
{
	return j->quantization == VS_QUANTIZATION_NF4_DOUBLE;
}

static bool has_plain_offload(const struct vs_job *j)
{
	return j->offload && j->sharding != VS_SHARDING_FSDP;
}

const char *vs_job_by_formula(const struct vs_job *job, size_t index)
{
	static const struct {
		const char *name;
		bool (*used)(const struct vs_job *);
	} features[] = {
	    {"context parallel", has_context},
	    {"expert parallel", has_experts},
	    {"Megatron's fp32 gradients", is_megatron},
	    {"an fp32 master outside of ZeRO", has_plain_master},
	    {"paged states", has_paged},
	    {"4-bit states", has_4bit_states},
	    {"double quantisation", has_double_quantization},
	    {"offload outside of FSDP", has_plain_offload},
	};

	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		if (features[i].used(job) && index-- == 0)
			return features[i].name;
	}
	return NULL;
}
