/* SPDX-License-Identifier: MIT */
#include "explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/screen.h"
#include "common/size.h"
#include "stack_text.h"
#include "tag/rules.h"

static const char *context_name(enum vs_context context)
{
	static const char *const names[] = {
	    [VS_CONTEXT_NONE] = "the job's own code",
	    [VS_CONTEXT_EMPTY] = "code without a stack",
	    [VS_CONTEXT_LOAD] = "building or loading a model",
	    [VS_CONTEXT_FORWARD] = "a forward",
	    [VS_CONTEXT_BACKWARD] = "a backward",
	    [VS_CONTEXT_RECOMPUTE] = "a recomputation",
	    [VS_CONTEXT_OPTIMIZER] = "an optimizer",
	    [VS_CONTEXT_ZERO_GRAD] = "zero_grad",
	    [VS_CONTEXT_EXIT] = "the end of the interpreter",
	};

	return names[context];
}

static const char *role_name(enum vs_role role)
{
	static const char *const names[] = {
	    [VS_ROLE_NONE] = "",
	    [VS_ROLE_CUBLAS] = "cuBLAS's workspace",
	    [VS_ROLE_CUBLASLT] = "cuBLASLt's workspace",
	    [VS_ROLE_CUDNN] = "cuDNN's workspace",
	    [VS_ROLE_GATHERED] = "gathered weights",
	    [VS_ROLE_GATHER_STAGING] = "an all-gather's buffer",
	    [VS_ROLE_REDUCE] = "a reduction's buffer, or its result",
	    [VS_ROLE_COLLECTIVE] = "communication",
	    [VS_ROLE_BUCKETS] = "buckets of gradients",
	    [VS_ROLE_GRADIENTS] = "reduced or partitioned gradients",
	    [VS_ROLE_MASTER] = "master weights",
	    [VS_ROLE_STATE] = "an optimizer's state",
	    [VS_ROLE_SCALER] = "the loss scaler",
	    [VS_ROLE_CLIPPING] = "gradient clipping",
	    [VS_ROLE_CONVERTED] = "moved or converted weights",
	    [VS_ROLE_QUANTIZED] = "quantized weights",
	    [VS_ROLE_DEQUANTIZED] = "unpacked weights",
	    [VS_ROLE_WARMUP] = "a loader's trial allocation",
	    [VS_ROLE_KV_CACHE] = "a cache of keys and values",
	    [VS_ROLE_ACCUMULATED] = "an accumulated gradient",
	};

	return names[role];
}

static void rule(uint16_t number)
{
	const struct vs_rule *rule = vs_rule(number);

	if (!rule) {
		printf("  stack rule  none: no frame that the rules know\n");
		return;
	}
	printf("  stack rule  %u: %s%s%.100s means ", number, rule->where, *rule->where && *rule->what ? ": " : "",
	       rule->what);
	if (rule->role)
		printf("%s%s", role_name((enum vs_role)rule->role), rule->context ? ", in " : "");
	if (rule->context)
		printf("%s", context_name((enum vs_context)rule->context));
	putchar('\n');
}

static void life(const struct vs_block *block)
{
	printf("  life        allocated in %s of step %" PRIu32 ", event %" PRIu64 "; ", vs_phase_name(block->phase),
	       block->step, block->allocated_at);
	if (!block->freed_at)
		printf("never freed; the trace ended in %s", vs_phase_name(block->phase_freed));
	else
		printf("freed in %s by %s, event %" PRIu64, vs_phase_name(block->phase_freed),
		       context_name(block->freed_by), block->freed_at);
	printf("; forwards begun in between: %" PRIu32 ", backwards: %" PRIu32 "\n", block->forwards,
	       block->backwards);
}

static void explain(const struct vs_screen *screen, const struct vs_subject *subject, const struct vs_block *block,
                    const char *at)
{
	char size[VS_SIZE_MAX];

	printf("%spid %" PRIu32 ", GPU %d, at %s: 0x%" PRIx64 ", %s: %s%s\n", vs_screen_style(screen, VS_BOLD),
	       subject->summary->pid, block->device, at, block->address, vs_size_format(block->size, size),
	       block->detail ? vs_detail_path(block->detail) : vs_tag_name(block->tag),
	       vs_screen_style(screen, VS_PLAIN));
	rule(block->rule);
	life(block);
	printf("  verdict     %s%s\n",
	       block->by_history ? "its end is not known, so as earlier blocks of this stack: " : "", block->why);
	printf("  stack %" PRIu32 "\n", block->stack);
	vs_stack_text(screen, subject, block->stack);
}

bool vs_explain(const struct vs_subjects *subjects, uint64_t address, const char *at)
{
	struct vs_screen screen = vs_screen_on(stdout);
	bool found = false;

	for (size_t i = 0; i < subjects->count; i++) {
		const struct vs_subject *subject = &subjects->list[i];
		for (size_t j = 0; j < subject->summary->device_count; j++) {
			const struct vs_device_summary *device = &subject->summary->devices[j];
			for (size_t k = 0; k < device->block_count; k++) {
				const struct vs_block *block = &device->blocks[k];
				if (address - block->address >= block->size)
					continue;
				explain(&screen, subject, block, at);
				found = true;
			}
		}
	}
	return found;
}
