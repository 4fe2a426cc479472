/* SPDX-License-Identifier: MIT */
#include "oom/remedies.h"

#include <string.h>

enum vs_oom_answer vs_oom_enough(const struct vs_oom *oom, uint64_t saves)
{
	const uint64_t *n = oom->numbers;

	if (saves == VS_OOM_UNKNOWN || !vs_oom_knows(oom, VS_OOM_SHORTFALL))
		return VS_OOM_MAYBE;
	if (saves < n[VS_OOM_SHORTFALL])
		return VS_OOM_NO;
	/* In between it depends on how far what is reserved and unallocated is in pieces. */
	return saves + n[VS_OOM_FREE] >= n[VS_OOM_REQUEST] ? VS_OOM_YES : VS_OOM_MAYBE;
}

struct vs_oom_remedy *vs_oom_remedy_add(struct vs_oom_remedies *remedies, const char *name, const char *what)
{
	struct vs_oom_remedy *remedy = &remedies->list[remedies->count];

	if (remedies->count == VS_OOM_REMEDIES_MAX)
		return NULL;
	remedies->count++;
	*remedy = (struct vs_oom_remedy){name, what, VS_OOM_UNKNOWN, VS_OOM_MAYBE, VS_OOM_STATED};
	return remedy;
}

/* There is room for all below. */
static struct vs_oom_remedy *add(struct vs_oom_remedies *remedies, const char *name, const char *what)
{
	struct vs_oom_remedy *remedy = vs_oom_remedy_add(remedies, name, what);

	return remedy ? remedy : &remedies->list[VS_OOM_REMEDIES_MAX - 1];
}

static void saves(const struct vs_oom *oom, struct vs_oom_remedy *remedy, uint64_t bytes)
{
	remedy->saves = bytes;
	remedy->enough = vs_oom_enough(oom, bytes);
	remedy->evidence = VS_OOM_ESTIMATED;
}

static void take(const struct vs_oom *oom, struct vs_oom_remedy *remedy, enum vs_oom_number number)
{
	if (vs_oom_knows(oom, number))
		saves(oom, remedy, oom->numbers[number]);
}

/* What expandable segments can gain at most is what is reserved and not allocated. */
static void expandable(const struct vs_oom *oom, struct vs_oom_remedies *remedies)
{
	struct vs_oom_remedy *remedy;

	if (!vs_oom_knows(oom, VS_OOM_UNALLOCATED) || oom->source == VS_OOM_XLA || oom->source == VS_OOM_PLAIN)
		return;
	/* PyTorch gives back what it has cached for its own requests alone. */
	if (oom->source == VS_OOM_CUDA) {
		if (oom->numbers[VS_OOM_UNALLOCATED])
			take(oom,
			     add(remedies, "empty_cache",
			         "torch.cuda.empty_cache() before this call, or a memory fraction that leaves room "
			         "for it "
			         "(torch.cuda.set_per_process_memory_fraction)"),
			     VS_OOM_UNALLOCATED);
		return;
	}
	if (oom->expandable)
		return;
	remedy =
	    add(remedies, "expandable_segments",
	        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: makes use of what is reserved but not allocated");
	saves(oom, remedy, oom->numbers[VS_OOM_UNALLOCATED]);
	if (vs_oom_knows(oom, VS_OOM_SHORTFALL))
		remedy->enough = oom->numbers[VS_OOM_SHORTFALL] ? VS_OOM_NO : VS_OOM_YES;
}

/* The shares are those of the articles that teach this: checkpointing saves 70 % of the activations at 20 to 30 % of
 * the time; of LoRA 0.1 to 1 % of the parameters train. */
#define CHECKPOINTING_PERCENT 70
#define LORA_PERCENT          99
/* NF4: 4 bits a weight and a 4-byte scale for each 64 of them. */
#define NF4_SIXTEENTHS 9 /* of a byte */

static void gain(const struct vs_oom *oom, struct vs_oom_remedies *remedies, const char *name, const char *what,
                 uint64_t bytes)
{
	if (bytes)
		saves(oom, add(remedies, name, what), bytes);
}

static void in_job(const struct vs_oom *oom, const struct vs_oom_job *job, struct vs_oom_remedies *remedies)
{
	const uint64_t *tags = job->tags;
	uint64_t activations = tags[VS_TAG_ACTIVATIONS], trained = tags[VS_TAG_GRADIENTS] + tags[VS_TAG_OPTIMIZER];
	/* What grows with the batch; a model's own buffers for it are few. */
	uint64_t by_batch = activations + tags[VS_TAG_OUTPUTS] + tags[VS_TAG_INPUTS];
	uint64_t moments = tags[VS_TAG_OPTIMIZER] - job->details[VS_DETAIL_OPTIMIZER_MASTER];
	/* Where checkpointing is on already, the backward recomputes. */
	bool checkpointing = job->details[VS_DETAIL_ACTIVATIONS_RECOMPUTED];
	bool lora = trained < tags[VS_TAG_WEIGHTS] / 10;
	uint64_t quantized = job->parameters * NF4_SIXTEENTHS / 16;

	if (job->batch > 1)
		gain(oom, remedies, "batch_1", "batch 1 (accumulation makes up for it; by itself it saves nothing)",
		     by_batch / job->batch * (job->batch - 1));
	else if (!job->batch)
		gain(oom, remedies, "half_the_batch",
		     "half the batch (accumulation makes up for it; by itself it saves nothing); batch 1 saves more",
		     by_batch / 2);
	if (!checkpointing)
		gain(oom, remedies, "checkpointing",
		     "activation checkpointing, for 20 to 30 % of the time (model.gradient_checkpointing_enable())",
		     activations / 100 * CHECKPOINTING_PERCENT);
	if (job->world_size > 1)
		gain(oom, remedies, "zero",
		     "gradients and optimizer state spread over the GPUs of this job: ZeRO stage 2 or FSDP",
		     trained / (unsigned)job->world_size * (unsigned)(job->world_size - 1));
	gain(oom, remedies, "offload",
	     "optimizer state in host memory (DeepSpeed's offload_optimizer), slower by its traffic",
	     tags[VS_TAG_OPTIMIZER]);
	if (!lora) {
		gain(oom, remedies, "lora", "LoRA: gradients and optimizer state of 1 % of the parameters at most",
		     trained / 100 * LORA_PERCENT);
		if (job->parameters && tags[VS_TAG_WEIGHTS] > quantized)
			gain(oom, remedies, "qlora", "QLoRA: LoRA on weights frozen in 4 bits",
			     trained / 100 * LORA_PERCENT + tags[VS_TAG_WEIGHTS] - quantized);
	}
	/* Two moments of one byte each; where they are of 16 bits, that saves half, of 32 bits three quarters. */
	if (job->parameters && moments > 2 * job->parameters)
		gain(oom, remedies, "8bit_optimizer", "an 8-bit optimizer (bitsandbytes AdamW8bit)",
		     moments - 2 * job->parameters);
}

static void stated(struct vs_oom_remedies *remedies)
{
	add(remedies, "smaller_batch",
	    "a smaller batch, made up for by gradient accumulation (which by itself saves nothing)");
	add(remedies, "checkpointing",
	    "activation checkpointing: about 70 % of the activations, for 20 to 30 % of the time");
	add(remedies, "zero_or_offload",
	    "ZeRO, FSDP or offload: optimizer state and gradients spread over GPUs or in host memory");
	add(remedies, "lora",
	    "LoRA or QLoRA: hardly any gradients and optimizer state; with QLoRA weights in 4 bits");
	add(remedies, "8bit_optimizer", "an 8-bit optimizer: 2 bytes of moments a parameter instead of 8");
}

void vs_oom_remedies_sort(struct vs_oom_remedies *remedies)
{
	struct vs_oom_remedy *list = remedies->list;

	for (size_t i = 1; i < remedies->count; i++) {
		struct vs_oom_remedy remedy = list[i];
		size_t j = i;
		/* Unknown ones keep their place behind the known. */
		for (; j > 0 && list[j - 1].saves != remedy.saves &&
		       (list[j - 1].saves == VS_OOM_UNKNOWN ||
		        (remedy.saves != VS_OOM_UNKNOWN && list[j - 1].saves < remedy.saves));
		     j--)
			list[j] = list[j - 1];
		list[j] = remedy;
	}
}

void vs_oom_remedies(const struct vs_oom *oom, enum vs_oom_cause cause, const struct vs_oom_job *job,
                     struct vs_oom_remedies *ret_remedies)
{
	struct vs_oom_remedies remedies = {.count = 0};

	switch (cause) {
	case VS_OOM_CAUSE_REQUEST:
		add(&remedies, "smaller_request",
		    "find the tensor that is too large: a size is wrong, or it grows with the square "
		    "of the sequence (attention scores)");
		break;
	case VS_OOM_CAUSE_LIMIT:
		add(&remedies, "raise_limit",
		    oom->source == VS_OOM_PYTORCH_ADDRESSES
		        ? "reserve less address space: expandable_segments_reserve, fewer CUDA streams"
		        : "lift what limits the process: memory fraction, pool size, MIG slice, container or system "
		          "limit");
		break;
	case VS_OOM_CAUSE_OTHER_PROCESS:
		take(oom,
		     add(&remedies, "stop_other_processes",
		         "end the other processes on this GPU, or take another one (nvidia-smi)"),
		     VS_OOM_OTHERS);
		break;
	case VS_OOM_CAUSE_OUTSIDE:
		take(oom,
		     add(&remedies, "less_outside",
		         "find who holds what is outside PyTorch's allocator: NCCL communicators, CUDA "
		         "contexts of other processes, libraries"),
		     VS_OOM_OUTSIDE);
		break;
	default:
		break;
	}
	if (cause != VS_OOM_CAUSE_REQUEST && cause != VS_OOM_CAUSE_LIMIT)
		expandable(oom, &remedies);
	if (job && cause != VS_OOM_CAUSE_LIMIT)
		in_job(oom, job, &remedies);
	else if (oom->source == VS_OOM_PLAIN)
		add(&remedies, "ask_for_less",
		    "ask for less, give back earlier what is not needed, or take a larger card");
	else if (cause == VS_OOM_CAUSE_FULL || cause == VS_OOM_CAUSE_UNKNOWN)
		stated(&remedies);
	if (job)
		vs_oom_remedies_sort(&remedies);
	*ret_remedies = remedies;
}
