/* SPDX-License-Identifier: MIT
 *
 * A training job, as far as memory is concerned.
 */
#ifndef VS_MODEL_JOB_H
#define VS_MODEL_JOB_H

#include "model/ops.h"
#include "model/shape.h"

enum vs_precision {
	VS_PRECISION_FP32,
	VS_PRECISION_AMP,      /* fp32 parameters, autocast to 16 bits */
	VS_PRECISION_PURE16,   /* 16-bit parameters, gradients and optimizer states */
	VS_PRECISION_MASTER16, /* 16-bit parameters and gradients, fp32 copy and states in the optimizer */
	VS_PRECISION_MEGATRON, /* ... and gradients summed in fp32 buffers */
	VS_PRECISION_COUNT,
};

enum vs_optimizer {
	VS_OPTIMIZER_ADAMW,       /* torch's default on CUDA: foreach */
	VS_OPTIMIZER_ADAMW_FUSED, /* fused=True */
	VS_OPTIMIZER_ADAMW_LOOP,  /* foreach=False */
	VS_OPTIMIZER_SGD,
	VS_OPTIMIZER_MOMENTUM,
	VS_OPTIMIZER_ADAFACTOR,
	VS_OPTIMIZER_LION,
	VS_OPTIMIZER_MUON,
	VS_OPTIMIZER_ADAMW_8BIT,       /* bitsandbytes, blocks of 256 */
	VS_OPTIMIZER_ADAMW_8BIT_PAGED, /* ... its large states in host memory, paged in */
	VS_OPTIMIZER_ADAMW_4BIT,       /* torchao, blocks of 128 */
	VS_OPTIMIZER_COUNT,
};

enum vs_checkpointing {
	VS_CHECKPOINTING_NONE,
	VS_CHECKPOINTING_SELECTIVE, /* scores, softmax and values again, as Megatron's "selective" */
	VS_CHECKPOINTING_FULL,      /* every layer is */
	VS_CHECKPOINTING_COUNT,
};

enum vs_sharding {
	VS_SHARDING_NONE, /* one process, or data parallel by hand */
	VS_SHARDING_DDP,
	VS_SHARDING_ZERO1,
	VS_SHARDING_ZERO2,
	VS_SHARDING_ZERO3,
	VS_SHARDING_FSDP, /* fully_shard() (FSDP2), a unit a layer and one for the rest */
	VS_SHARDING_COUNT,
};

enum vs_quantization {
	VS_QUANTIZATION_NONE,
	VS_QUANTIZATION_NF4,
	VS_QUANTIZATION_NF4_DOUBLE, /* its constants quantised too */
	VS_QUANTIZATION_COUNT,
};

/* Adapted modules, a bit each. */
enum vs_lora_target {
	VS_LORA_Q = 1,
	VS_LORA_K = 2,
	VS_LORA_V = 4,
	VS_LORA_O = 8,
	VS_LORA_GATE = 16,
	VS_LORA_UP = 32,
	VS_LORA_DOWN = 64,
	VS_LORA_ATTENTION = 15,
	VS_LORA_ALL = 127,
};

struct vs_job {
	struct vs_shape shape;
	uint64_t batch, seq; /* of one rank's micro-batch */
	uint32_t accumulation;

	enum vs_precision precision;
	bool fp16; /* the 16-bit type is fp16, not bf16 */
	enum vs_optimizer optimizer;
	enum vs_checkpointing checkpointing;
	enum vs_attention attention;
	bool repeat_kv;       /* fused attention is given whole heads */
	bool outputs_held;    /* the step keeps the model's output object until its end */
	bool input_grads;     /* enable_input_require_grads() */
	bool offload;         /* optimizer states and step on the CPU */
	bool ema;             /* an averaged copy of the weights, in their type */
	bool l2_decay;        /* weight decay as SGD and Adam add it to their gradients, in a copy; AdamW does not */
	uint32_t loss_chunks; /* 0, 1: the logits are whole */

	uint32_t lora_rank; /* 0: all parameters train */
	uint32_t lora_targets;
	enum vs_quantization quantization;

	enum vs_sharding sharding;
	uint32_t ranks; /* data-parallel */
	uint32_t tensor_parallel, pipeline_parallel, context_parallel, expert_parallel;
	bool sequence_parallel;
	uint32_t
	    stage; /* of the pipeline, 0 to pipeline_parallel - 1: vs_forecast_job() tries the first and the last */

	/* Of the device and the libraries. */
	uint32_t compute_capability; /* 80: 8.0 */
	uint32_t multiprocessors, threads_per_sm;
	uint64_t gemm_workspace;  /* cuBLAS's own, from PyTorch's allocator */
	bool gemm_workspace_kept; /* older torch: kept per thread instead of given back */
};

/* One GPU, bf16-style defaults: nothing sharded, nothing checkpointed, AdamW. */
struct vs_job vs_job_default(const struct vs_shape *shape);
/* -EINVAL and why: options that exclude each other, sizes that do not divide. */
int vs_job_check(const struct vs_job *job, const char **ret_why);
/* The name of something in this job that rests on formulas alone: no run of this project's tests has it. `index` from
 * 0; NULL past the last. */
const char *vs_job_by_formula(const struct vs_job *job, size_t index);
/* Which kernel scaled_dot_product_attention takes for this job (never AUTO). */
enum vs_attention vs_job_attention(const struct vs_job *job);

/* Bytes an element: of the parameters as they are stored, and of what operators compute in. */
uint8_t vs_job_param_size(const struct vs_job *job);
uint8_t vs_job_compute_size(const struct vs_job *job);

extern const char *const vs_precision_names[];
extern const char *const vs_optimizer_names[];
extern const char *const vs_checkpointing_names[];
extern const char *const vs_sharding_names[];
extern const char *const vs_attention_names[];
extern const char *const vs_quantization_names[];

#endif
