/* SPDX-License-Identifier: MIT */
#include "tag/verdict.h"

/* Bytes of cuBLAS's workspace ":4096:2:16:8": what PyTorch gives each handle before Hopper, where
 * CUBLAS_WORKSPACE_CONFIG says nothing else (ATen/cuda/CublasHandlePool.cpp). */
#define CUBLAS_WORKSPACE ((UINT64_C(4096) * 2 + 16 * 8) << 10)

static struct vs_verdict sure(enum vs_tag tag, const char *why)
{
	return (struct vs_verdict){.tag = tag, .detail = VS_DETAIL_NONE, .settled = true, .why = why};
}

static struct vs_verdict sure_detail(enum vs_detail detail, const char *why)
{
	return (struct vs_verdict){.tag = vs_detail_tag(detail), .detail = detail, .settled = true, .why = why};
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

/* By a backward, or by a graph without one. */
static bool let_go(const struct vs_life *life)
{
	return life->freed && (by_backward(life->freed_by) || life->saved);
}

/* Before the training: freed again before any of it began. */
static bool only_in_setup(const struct vs_life *life)
{
	return life->phase == VS_PHASE_SETUP && life->freed && !life->forwards && !life->backwards;
}

static struct vs_verdict activation(const struct vs_life *life, const char *why)
{
	return life->site->flags & VS_SITE_CAST ? sure_detail(VS_DETAIL_ACTIVATIONS_CAST, why)
	                                        : sure(VS_TAG_ACTIVATIONS, why);
}

/* Held after the backward that used it; over two forwards it is a cache rather than the last result. */
static struct vs_verdict output(const struct vs_life *life)
{
	return life->forwards >= 2
	           ? sure_detail(VS_DETAIL_OUTPUTS_CARRIED, "made in a forward and held over two more")
	           : sure(VS_TAG_OUTPUTS, "made in a forward and held after it, and after the backward that used it");
}

static struct vs_verdict made_in_forward(const struct vs_life *life)
{
	bool in_backward = life->backwards == 1 && life->phase_now == VS_PHASE_BACKWARD;

	if (let_go(life))
		return activation(life, by_backward(life->freed_by)
		                            ? "made in a forward and let go by the backward, which had saved it"
		                            : "made in a forward and let go by its graph, which had saved it");
	if (life->awaits && !life->no_graph && life->backwards == 1 && !life->freed && !life->at_exit)
		return guess(activation(life, "made in a forward, and not reached or not let go by the backward that "
		                              "followed: another may come"));
	if (in_backward && life->freed && life->freed_by == VS_CONTEXT_NONE)
		return output(life); /* by the job's own code, when the backward was over */
	if (in_backward && life->freed)
		return activation(life, "made in a forward and freed while the backward ran");
	if (in_backward)
		return guess(life->overtaken || life->backward_over
		                 ? output(life)
		                 : activation(life, "made in a forward and alive while the backward runs"));
	if (life->backwards)
		return output(life);
	if (life->freed) {
		/* Evaluations follow each other in one phase: what a module made and the job's own code let go was a
		 * result. */
		bool returned = life->context == VS_CONTEXT_FORWARD && life->freed_by == VS_CONTEXT_NONE;

		if (life->forwards || life->phase_now != VS_PHASE_FORWARD || returned)
			return output(life);
		return sure_detail(VS_DETAIL_TEMPORARIES_FORWARD, "made and freed in one forward");
	}
	if (life->forwards || life->no_graph)
		return guess(output(life));
	return guess(life->short_lived ? sure_detail(VS_DETAIL_TEMPORARIES_FORWARD,
	                                             "made in a forward by a stack whose blocks do not outlive it")
	                               : activation(life, "made in a forward and still alive"));
}

/* Did it live on when the backward that made it was over? */
static bool outlives_backward(const struct vs_life *life)
{
	if (!life->same_epoch || (!life->freed && life->backward_over))
		return true;
	/* No phase began since, but whoever freed it was not the backward: its frames say so or, where no stacks are
	 * recorded, its thread (an empty stack on autograd's thread would have been BACKWARD). */
	if (life->freed && life->freed_by == VS_CONTEXT_EMPTY)
		return life->site->context == VS_CONTEXT_EMPTY;
	return life->freed && !by_backward(life->freed_by);
}

static struct vs_verdict made_in_backward(const struct vs_life *life, struct vs_verdict otherwise)
{
	if (outlives_backward(life) && life->freed && life->saved)
		return activation(life,
		                  "made in a backward and let go by a graph, which had saved it for another one");
	if (outlives_backward(life) && life->returned && !life->freed && !life->at_exit)
		return guess(activation(life, "made by autograd.grad(), whose graph was kept, and still alive"));
	if (outlives_backward(life))
		return sure(VS_TAG_GRADIENTS, "made in a backward and alive when it was over");
	if (life->freed)
		return otherwise;
	if (life->site->role != VS_ROLE_ACCUMULATED && life->short_lived)
		return guess(otherwise);
	return guess(sure(VS_TAG_GRADIENTS, "made in a backward and still alive"));
}

static struct vs_verdict made_in_optimizer(const struct vs_life *life)
{
	if (only_in_setup(life))
		return sure_detail(VS_DETAIL_TEMPORARIES_SETUP, "made by an optimizer and freed before the training");
	if (life->forwards || life->phase == VS_PHASE_SETUP)
		return sure(VS_TAG_OPTIMIZER, "made by an optimizer and kept");
	if (life->freed) {
		bool within = life->freed_by == VS_CONTEXT_OPTIMIZER ||
		              (life->freed_by == VS_CONTEXT_EMPTY && life->same_epoch);

		return within ? sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER, "made and freed by one optimizer step")
		              : sure(VS_TAG_OPTIMIZER, "made by an optimizer and freed outside of its step");
	}
	if (life->site->role == VS_ROLE_STATE || !life->short_lived)
		return guess(sure(VS_TAG_OPTIMIZER, "made by an optimizer and still alive"));
	return guess(sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER,
	                         "made by an optimizer's stack whose blocks do not outlive the step"));
}

/* The job's own code, before any training. */
static struct vs_verdict made_by_job_in_setup(const struct vs_life *life)
{
	uint16_t flags = life->site->flags;
	bool brought = flags & (VS_SITE_COPY | VS_SITE_FRESH | VS_SITE_INTEGERS);
	bool kept = !life->freed || life->backwards > 2;

	if (only_in_setup(life) && life->operators && !life->modules)
		return sure(VS_TAG_UNKNOWN,
		            "made by the job's own code and freed after a forward's first operator, before any "
		            "backward: a weight, data or a result");
	if (only_in_setup(life))
		return sure_detail(VS_DETAIL_TEMPORARIES_SETUP, "made and freed before the training");
	if (flags & VS_SITE_CAST)
		return activation(life, "autocast's copy, made before any module was called");
	/* The trace ends in the first forward, which no module shows, or after its backward. */
	if (life->after_operator && !life->modules && life->backwards == 1 && !life->freed && !life->at_exit &&
	    !brought)
		return guess(sure(VS_TAG_OUTPUTS, "made by the job's own code after the first operator that forwards "
		                                  "consist of, and held after the backward"));
	if (life->after_operator && !life->modules && !life->backwards && !life->freed && !life->at_exit)
		return guess(
		    brought ? sure(VS_TAG_INPUTS, "brought to the GPU by the job's own code in its first forward")
		            : sure(VS_TAG_ACTIVATIONS, "made by the job's own code after the first operator "
		                                       "that forwards consist of, and still alive"));
	if (let_go(life) && !brought) /* a hand-written forward */
		return activation(life, "made by the job's own code and let go by the backward, which had saved it");
	if (flags & VS_SITE_INTEGERS)
		return sure(VS_TAG_INPUTS, "integers made before the training");
	if (life->at_exit && !life->backwards && !life->modules)
		return sure(VS_TAG_UNKNOWN,
		            "the job ended without a backward and has no modules: nothing tells weights from data");
	if (!life->freed && !life->backwards && !life->modules && !life->operators)
		return guess(sure(VS_TAG_UNKNOWN, "made by the job's own code, and the trace ends before any module, "
		                                  "operator or backward: nothing tells weights from data"));
	/* Of the shape of something else, kept: momentum of an optimizer written by hand, where no other is seen;
	 * copies of the weights (averages). */
	if (kept && flags & VS_SITE_LIKE && !life->optimizers)
		return sure(VS_TAG_OPTIMIZER,
		            "made before the training in the shape of other tensors, and kept, where no "
		            "optimizer is recognised");
	if (kept && flags & VS_SITE_CLONE)
		return sure(VS_TAG_WEIGHTS, "cloned before the training, and kept");
	if (kept && flags & VS_SITE_UNNAMED && !life->modules)
		return sure(VS_TAG_UNKNOWN,
		            "made before the training by the job's own code, and kept; without the names of "
		            "native functions nothing tells weights from an optimizer's states");
	if (flags & VS_SITE_CONSTRUCTOR)
		return sure(VS_TAG_WEIGHTS, "made before the training by a constructor");
	if (life->modules)
		return sure(VS_TAG_INPUTS,
		            "made before the training by the job's own code, while the weights are made by "
		            "modules");
	if (!kept) /* the first batch, or the first result, replaced by the second */
		return sure(brought ? VS_TAG_INPUTS : VS_TAG_OUTPUTS,
		            "made before the first backward by the job's own code and replaced after it");
	return sure(VS_TAG_WEIGHTS, "made before the training by the job's own code, and kept");
}

/* The job's own code, outside of every module, optimizer and backward. */
static struct vs_verdict made_by_job(const struct vs_life *life)
{
	bool moved = life->site->flags & (VS_SITE_COPY | VS_SITE_INTEGERS);
	bool brought = moved || life->site->flags & VS_SITE_FRESH;
	bool used = life->forwards || life->backwards;

	if (life->site->flags & VS_SITE_CUT)
		return sure(VS_TAG_UNKNOWN,
		            "the stack is deeper than the recorder keeps, and nothing in what it kept is known");
	if (life->phase == VS_PHASE_SETUP)
		return made_by_job_in_setup(life);
	if (life->phase == VS_PHASE_FORWARD && moved)
		return sure(VS_TAG_INPUTS, "brought to the GPU by the job's own code during a forward");
	if (life->phase == VS_PHASE_FORWARD)
		return made_in_forward(life);
	if (let_go(life))
		return brought ? sure(VS_TAG_INPUTS, "brought to the GPU by the job's own code")
		               : activation(life, "made by the job's own code and let go by the backward, which had "
		                                  "saved it");
	if (!life->freed && life->site->flags & (VS_SITE_LIKE | VS_SITE_CLONE) && !life->optimizers)
		return guess(sure(VS_TAG_OPTIMIZER, "made after a backward in the shape of other tensors or as their "
		                                    "copy, and still alive, where no optimizer is recognised"));
	if (life->forwards >= 2 || life->backwards >= 2) { /* over more than one step */
		if (moved || (brought && life->steps < 3))
			return sure(VS_TAG_INPUTS, "brought to the GPU by the job's own code and used");
		return life->optimizers
		           ? sure_detail(VS_DETAIL_OUTPUTS_CARRIED, "made by the job's own code and held over steps")
		           : sure(VS_TAG_OPTIMIZER, "made by the job's own code between the backward and the next "
		                                    "forward, and held over steps, where no optimizer is recognised");
	}
	if (brought && (used || !life->freed))
		return sure(VS_TAG_INPUTS, "brought to the GPU by the job's own code");
	if (used) /* by hand: alive at the next forward of modules means it went in, else it came out */
		return life->forwards
		           ? sure(VS_TAG_INPUTS, "made by the job's own code before a forward, which used it")
		           : sure(VS_TAG_OUTPUTS, "made by the job's own code and held over a backward");
	if (life->freed)
		return sure_detail(VS_DETAIL_TEMPORARIES_OTHER,
		                   "made and freed by the job's own code between phases");
	return guess(sure_detail(VS_DETAIL_TEMPORARIES_OTHER, "made by the job's own code and still alive"));
}

static struct vs_verdict by_context(const struct vs_life *life)
{
	switch (life->context) {
	case VS_CONTEXT_LOAD:
		/* Whoever else lets go of it, a moment later or without any training, throws weights away. */
		if (only_in_setup(life) && life->freed_by == VS_CONTEXT_LOAD && !life->replaced &&
		    life->site->role != VS_ROLE_CONVERTED)
			return sure_detail(VS_DETAIL_TEMPORARIES_SETUP, "made and freed while a model was built");
		return sure(VS_TAG_WEIGHTS, "made where models are built, moved or converted");
	case VS_CONTEXT_FORWARD:
		return made_in_forward(life);
	case VS_CONTEXT_RECOMPUTE:
		if (life->freed && life->freed_by == VS_CONTEXT_RECOMPUTE && life->same_epoch)
			return sure_detail(VS_DETAIL_TEMPORARIES_RECOMPUTE, "made and freed in one recomputation");
		return sure_detail(VS_DETAIL_ACTIVATIONS_RECOMPUTED,
		                   "made by a recomputation in the backward, and used by it");
	case VS_CONTEXT_BACKWARD:
		return made_in_backward(
		    life, sure_detail(VS_DETAIL_TEMPORARIES_BACKWARD, "made and freed in one backward"));
	case VS_CONTEXT_OPTIMIZER:
		return made_in_optimizer(life);
	case VS_CONTEXT_ZERO_GRAD:
	case VS_CONTEXT_EXIT:
		return sure_detail(VS_DETAIL_TEMPORARIES_OTHER,
		                   "made while gradients were reset, or at the job's end");
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
	static const char alone[] = "the stack alone says it";
	struct vs_verdict verdict;

	if (is_workspace(life)) {
		verdict =
		    sure_detail(VS_DETAIL_WORKSPACE_CUBLAS, "of the size of cuBLAS's workspace, and never freed");
		verdict.alone = true;
		return verdict;
	}

	switch ((enum vs_role)life->site->role) {
	case VS_ROLE_CUBLAS:
		return sure_detail(VS_DETAIL_WORKSPACE_CUBLAS, alone);
	case VS_ROLE_CUBLASLT:
		return sure_detail(VS_DETAIL_WORKSPACE_CUBLASLT, alone);
	case VS_ROLE_CUDNN:
		return sure_detail(VS_DETAIL_WORKSPACE_CUDNN, alone);
	case VS_ROLE_GATHERED:
		return sure_detail(VS_DETAIL_WEIGHTS_GATHERED, alone);
	case VS_ROLE_GATHER_STAGING:
		return sure_detail(VS_DETAIL_COMMUNICATION_GATHER, alone);
	case VS_ROLE_COLLECTIVE:
		return sure(VS_TAG_COMMUNICATION, alone);
	case VS_ROLE_BUCKETS:
		return sure_detail(VS_DETAIL_GRADIENTS_BUCKETS, alone);
	case VS_ROLE_GRADIENTS:
		return sure(VS_TAG_GRADIENTS, alone);
	case VS_ROLE_MASTER:
		return sure_detail(VS_DETAIL_OPTIMIZER_MASTER, alone);
	case VS_ROLE_CLIPPING:
		return sure_detail(VS_DETAIL_TEMPORARIES_CLIPPING, alone);
	case VS_ROLE_WARMUP:
		return sure_detail(VS_DETAIL_TEMPORARIES_WARMUP, alone);
	case VS_ROLE_KV_CACHE:
		if (life->backwards || (life->freed && by_backward(life->freed_by)))
			return by_context(life); /* trained with the cache left on: saved for the backward */
		return sure_detail(VS_DETAIL_ACTIVATIONS_KV_CACHE, alone);
	case VS_ROLE_REDUCE:
		return made_in_backward(life, sure_detail(VS_DETAIL_COMMUNICATION_REDUCE,
		                                          "made around a reduction and freed in the same backward"));
	case VS_ROLE_QUANTIZED:
		return only_in_setup(life)
		           ? sure_detail(VS_DETAIL_TEMPORARIES_SETUP,
		                         "made by a quantization and freed before the training")
		           : sure_detail(VS_DETAIL_WEIGHTS_QUANTIZED, "made by a quantization, and kept");
	case VS_ROLE_SCALER:
		if (!life->freed || life->forwards)
			return sure_detail(VS_DETAIL_OPTIMIZER_SCALER, "made by the loss scaler, and kept");
		return life->phase == VS_PHASE_FORWARD
		           ? made_in_forward(life)
		           : sure_detail(VS_DETAIL_TEMPORARIES_OPTIMIZER, "made and freed by the loss scaler");
	case VS_ROLE_DEQUANTIZED:
		verdict = by_context(life);
		if (verdict.tag == VS_TAG_TEMPORARIES)
			verdict.detail = VS_DETAIL_TEMPORARIES_DEQUANTIZED;
		return verdict;
	default:
		return by_context(life);
	}
}
