/* SPDX-License-Identifier: MIT */
#include "tag/verdict.h"

/* Bytes of cuBLAS's workspace ":4096:2:16:8": what PyTorch gives each handle before Hopper, where
 * CUBLAS_WORKSPACE_CONFIG says nothing else (ATen/cuda/CublasHandlePool.cpp). */
#define CUBLAS_WORKSPACE ((UINT64_C(4096) * 2 + 16 * 8) << 10)

static struct vs_verdict sure(enum vs_tag tag)
{
	return (struct vs_verdict){.tag = tag, .detail = VS_DETAIL_NONE, .settled = true};
}

static struct vs_verdict sure_detail(enum vs_detail detail)
{
	return (struct vs_verdict){.tag = vs_detail_tag(detail), .detail = detail, .settled = true};
}

static struct vs_verdict guess(struct vs_verdict verdict)
{
	verdict.settled = false;
	return verdict;
}

static bool by_backward(enum vs_context context)
{
	return context == VS_CONTEXT_BACKWARD || context == VS_CONTEXT_RECOMPUTE;
}

/* Before the training: freed again before any of it began. */
static bool only_in_setup(const struct vs_life *life)
{
	return life->phase == VS_PHASE_SETUP && life->freed && !life->forwards && !life->backwards;
}

static struct vs_verdict activation(const struct vs_life *life)
{
	return life->site->flags & VS_SITE_CAST ? sure_detail(VS_DETAIL_ACTIVATIONS_CAST) : sure(VS_TAG_ACTIVATIONS);
}

/* Held after the backward that used it; over two forwards it is a cache rather than the last result. */
static struct vs_verdict output(const struct vs_life *life)
{
	return life->forwards >= 2 ? sure_detail(VS_DETAIL_OUTPUTS_CARRIED) : sure(VS_TAG_OUTPUTS);
}

static struct vs_verdict made_in_forward(const struct vs_life *life)
{
	bool in_backward = life->backwards == 1 && life->phase_now == VS_PHASE_BACKWARD;

	if (life->freed && by_backward(life->freed_by)) /* the engine let go of what it had saved */
		return activation(life);
	if (in_backward)
		return activation(life);
	if (life->backwards)
		return output(life);
	if (life->freed) {
		if (life->forwards || life->phase_now != VS_PHASE_FORWARD)
			return output(life);
		return sure_detail(VS_DETAIL_TEMPORARIES_FORWARD);
	}
	if (life->forwards)
		return guess(output(life));
	return guess(life->short_lived ? sure_detail(VS_DETAIL_TEMPORARIES_FORWARD) : activation(life));
}

/* Did it live on when the backward that made it was over? */
static bool outlives_backward(const struct vs_life *life)
{
	if (!life->same_epoch)
		return true;
	/* No phase began since, but whoever freed it was not the backward: its frames say so or, where no stacks are
	 * recorded, its thread (an empty stack on autograd's thread would have been BACKWARD). */
	if (life->freed && life->freed_by == VS_CONTEXT_EMPTY)
		return life->site->context == VS_CONTEXT_EMPTY;
	return life->freed && !by_backward(life->freed_by);
}

static struct vs_verdict made_in_backward(const struct vs_life *life, struct vs_verdict otherwise)
{
	if (outlives_backward(life))
		return sure(VS_TAG_GRADIENTS);
	if (life->freed)
		return otherwise;
	if (life->site->role != VS_ROLE_ACCUMULATED && life->short_lived)
		return guess(otherwise);
	return guess(sure(VS_TAG_GRADIENTS));
}

static struct vs_verdict made_in_optimizer(const struct vs_life *life)
{
	if (only_in_setup(life))
		return sure_detail(VS_DETAIL_TEMPORARIES_SETUP);
	if (life->forwards || life->phase == VS_PHASE_SETUP)
		return sure(VS_TAG_OPTIMIZER);
	if (life->freed) {
		bool within = life->freed_by == VS_CONTEXT_OPTIMIZER ||
		              (life->freed_by == VS_CONTEXT_EMPTY && life->same_epoch);

		return within ? sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER) : sure(VS_TAG_OPTIMIZER);
	}
	if (life->site->role == VS_ROLE_STATE || !life->short_lived)
		return guess(sure(VS_TAG_OPTIMIZER));
	return guess(sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER));
}

/* The job's own code, before any training. */
static struct vs_verdict made_by_job_in_setup(const struct vs_life *life)
{
	uint16_t flags = life->site->flags;
	bool brought = flags & (VS_SITE_COPY | VS_SITE_FRESH | VS_SITE_INTEGERS);

	if (only_in_setup(life))
		return sure_detail(VS_DETAIL_TEMPORARIES_SETUP);
	if (flags & VS_SITE_CAST || (life->freed && by_backward(life->freed_by) && !brought))
		return activation(life); /* a hand-written forward */
	if (flags & VS_SITE_INTEGERS)
		return sure(VS_TAG_INPUTS);
	if (flags & VS_SITE_CONSTRUCTOR)
		return sure(VS_TAG_WEIGHTS);
	if (life->modules) /* the weights are made by modules, which we recognise: this is data */
		return sure(VS_TAG_INPUTS);
	if (life->freed && life->backwards <= 2) /* the first batch, or the first result, replaced by the second */
		return sure(brought ? VS_TAG_INPUTS : VS_TAG_OUTPUTS);
	return sure(VS_TAG_WEIGHTS);
}

/* The job's own code, outside of every module, optimizer and backward. */
static struct vs_verdict made_by_job(const struct vs_life *life)
{
	bool brought = life->site->flags & (VS_SITE_COPY | VS_SITE_FRESH | VS_SITE_INTEGERS);
	bool used = life->forwards || life->backwards;

	if (life->phase == VS_PHASE_SETUP)
		return made_by_job_in_setup(life);
	if (life->phase == VS_PHASE_FORWARD && life->site->flags & (VS_SITE_COPY | VS_SITE_INTEGERS))
		return sure(VS_TAG_INPUTS);
	if (life->phase == VS_PHASE_FORWARD)
		return made_in_forward(life);
	if (life->freed && by_backward(life->freed_by))
		return brought ? sure(VS_TAG_INPUTS) : activation(life);
	if (life->forwards >= 2 || life->backwards >= 2) { /* over more than one step */
		if (brought && life->steps < 2)
			return sure(VS_TAG_INPUTS);
		return life->optimizers ? sure_detail(VS_DETAIL_OUTPUTS_CARRIED) : sure(VS_TAG_OPTIMIZER);
	}
	if (brought && (used || !life->freed))
		return sure(VS_TAG_INPUTS);
	if (used) /* by hand: alive at the next forward of modules means it went in, else it came out */
		return sure(life->forwards ? VS_TAG_INPUTS : VS_TAG_OUTPUTS);
	if (life->freed)
		return sure_detail(VS_DETAIL_TEMPORARIES_OTHER);
	return guess(sure_detail(VS_DETAIL_TEMPORARIES_OTHER));
}

static struct vs_verdict by_context(const struct vs_life *life)
{
	switch (life->context) {
	case VS_CONTEXT_LOAD:
		if (only_in_setup(life) && life->site->role != VS_ROLE_CONVERTED)
			return sure_detail(VS_DETAIL_TEMPORARIES_SETUP);
		return sure(VS_TAG_WEIGHTS);
	case VS_CONTEXT_FORWARD:
		return made_in_forward(life);
	case VS_CONTEXT_RECOMPUTE:
		if (life->freed && life->freed_by == VS_CONTEXT_RECOMPUTE && life->same_epoch)
			return sure_detail(VS_DETAIL_TEMPORARIES_RECOMPUTE);
		return sure_detail(VS_DETAIL_ACTIVATIONS_RECOMPUTED);
	case VS_CONTEXT_BACKWARD:
		return made_in_backward(life, sure_detail(VS_DETAIL_TEMPORARIES_BACKWARD));
	case VS_CONTEXT_OPTIMIZER:
		return made_in_optimizer(life);
	case VS_CONTEXT_ZERO_GRAD:
	case VS_CONTEXT_EXIT:
		return sure_detail(VS_DETAIL_TEMPORARIES_OTHER);
	case VS_CONTEXT_NONE:
	case VS_CONTEXT_EMPTY:
		break;
	}
	return made_by_job(life);
}

/* Where native frames are not recorded, the workspace looks like an output of the operator that was the first to need
 * it; but it is never freed, and its size is an odd one. */
static bool is_workspace(const struct vs_life *life)
{
	if (life->size != CUBLAS_WORKSPACE || life->freed || life->site->role != VS_ROLE_NONE)
		return false;
	if (life->site->context == VS_CONTEXT_EMPTY)
		return life->phase == VS_PHASE_SETUP || life->forwards;
	return life->context == VS_CONTEXT_FORWARD && life->forwards && life->backwards;
}

struct vs_verdict vs_verdict(const struct vs_life *life)
{
	struct vs_verdict verdict;

	if (is_workspace(life)) {
		verdict = sure_detail(VS_DETAIL_WORKSPACE_CUBLAS);
		verdict.alone = true;
		return verdict;
	}

	switch ((enum vs_role)life->site->role) {
	case VS_ROLE_CUBLAS:
		return sure_detail(VS_DETAIL_WORKSPACE_CUBLAS);
	case VS_ROLE_CUBLASLT:
		return sure_detail(VS_DETAIL_WORKSPACE_CUBLASLT);
	case VS_ROLE_CUDNN:
		return sure_detail(VS_DETAIL_WORKSPACE_CUDNN);
	case VS_ROLE_GATHERED:
		return sure_detail(VS_DETAIL_WEIGHTS_GATHERED);
	case VS_ROLE_GATHER_STAGING:
		return sure_detail(VS_DETAIL_COMMUNICATION_GATHER);
	case VS_ROLE_COLLECTIVE:
		return sure(VS_TAG_COMMUNICATION);
	case VS_ROLE_BUCKETS:
		return sure_detail(VS_DETAIL_GRADIENTS_BUCKETS);
	case VS_ROLE_MASTER:
		return sure_detail(VS_DETAIL_OPTIMIZER_MASTER);
	case VS_ROLE_CLIPPING:
		return sure_detail(VS_DETAIL_TEMPORARIES_CLIPPING);
	case VS_ROLE_WARMUP:
		return sure_detail(VS_DETAIL_TEMPORARIES_WARMUP);
	case VS_ROLE_REDUCE:
		return made_in_backward(life, sure_detail(VS_DETAIL_COMMUNICATION_REDUCE));
	case VS_ROLE_QUANTIZED:
		return sure_detail(only_in_setup(life) ? VS_DETAIL_TEMPORARIES_SETUP : VS_DETAIL_WEIGHTS_QUANTIZED);
	case VS_ROLE_SCALER:
		if (!life->freed || life->forwards)
			return sure_detail(VS_DETAIL_OPTIMIZER_SCALER);
		return life->phase == VS_PHASE_FORWARD ? made_in_forward(life)
		                                       : sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER);
	case VS_ROLE_DEQUANTIZED:
		verdict = by_context(life);
		if (verdict.tag == VS_TAG_TEMPORARIES)
			verdict.detail = VS_DETAIL_TEMPORARIES_DEQUANTIZED;
		return verdict;
	default:
		return by_context(life);
	}
}
