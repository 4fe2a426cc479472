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
	    [VS_ROLE_SAVED] = "saved by a graph",
	    [VS_ROLE_NODE] = "held by a graph",
	};

	return names[role];
}

/* Of what stands right of the labels. */
#define INDENT 15

static void label(const char *name)
{
	printf("  %-11s", name);
}

static void add(char *text, size_t size, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? ", " : "", more);
}

/* What a frame adds to what is said of the stack. */
static void meaning(const struct vs_rule *rule, char *text, size_t size)
{
	static const struct {
		uint16_t flag;
		const char *name;
	} signs[] = {
	    {VS_SITE_ENGINE, "autograd's engine"},         {VS_SITE_CAST, "autocast's copy"},
	    {VS_SITE_COPY, "a copy to the GPU"},           {VS_SITE_INTEGERS, "integers at random"},
	    {VS_SITE_FRESH, "made from nothing"},          {VS_SITE_LIKE, "in the shape of another tensor"},
	    {VS_SITE_CLONE, "the copy of another tensor"}, {VS_SITE_OPERATOR, "an operator that forwards consist of"},
	    {VS_SITE_CHECKPOINT, "a checkpointed part"},   {VS_SITE_CONSTRUCTOR, "a constructor"},
	    {VS_SITE_RETURNED, "returned to the caller"},
	};

	text[0] = '\0';
	if (rule->role)
		add(text, size, role_name((enum vs_role)rule->role));
	if (rule->context)
		add(text, size, context_name((enum vs_context)rule->context));
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (rule->flags & signs[i].flag)
			add(text, size, signs[i].name);
	}
	if (!*text)
		add(text, size, "no sign of its own, and what is further out does not count");
}

/* All frames that a rule knows, innermost first, each rule once: where they disagree, this shows it. */
static void rules(const struct vs_screen *screen, const struct vs_subject *subject, const struct vs_block *block)
{
	const struct vs_frame *frames;
	uint16_t seen[64];
	size_t count, seen_count = 0;
	char text[256];

	if (vs_symbol_stack(subject->symbols, block->stack, &frames, &count) < 0)
		count = 0;
	for (size_t i = 0; i < count && seen_count < 64; i++) {
		uint16_t number = frames[i].kind == VS_FRAME_NATIVE
		                      ? vs_rule_native(frames[i].function)
		                      : vs_rule_python(frames[i].file, frames[i].function);
		const struct vs_rule *rule = vs_rule(number);
		bool again = false;

		for (size_t j = 0; j < seen_count; j++)
			again |= seen[j] == number;
		if (!rule || again)
			continue;
		seen[seen_count++] = number;
		meaning(rule, text, sizeof(text));
		label(seen_count == 1 ? "stack rules" : "");
		vs_screen_text(screen, INDENT, "  %s: %s (rule %u, %s since %s)%s", frames[i].function, text, number,
		               rule->library, rule->since, number == block->rule ? ": this one counts" : "");
	}
	if (!seen_count)
		puts("  stack rules  none: no frame that the rules know");
}

static void life(const struct vs_screen *screen, const struct vs_block *block)
{
	char end[128];

	if (!block->freed_at)
		snprintf(end, sizeof(end), "never freed; the trace ended in %s", vs_phase_name(block->phase_freed));
	else
		snprintf(end, sizeof(end), "freed in %s by %s, event %" PRIu64, vs_phase_name(block->phase_freed),
		         context_name(block->freed_by), block->freed_at);
	label("life");
	vs_screen_text(screen, INDENT,
	               "  allocated in %s of step %" PRIu32 ", event %" PRIu64
	               "; %s; forwards begun in between: %" PRIu32 ", backwards: %" PRIu32,
	               vs_phase_name(block->phase), block->step, block->allocated_at, end, block->forwards,
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
	rules(screen, subject, block);
	life(screen, block);
	label("verdict");
	vs_screen_text(screen, INDENT, "  %s%s",
	               block->by_history ? "its end is not known, so as earlier blocks of this stack: " : "",
	               block->why);
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
