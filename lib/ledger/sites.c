/* SPDX-License-Identifier: MIT */
#include "ledger/sites.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/u64map.h"
#include "symbol/symbol.h"
#include "tag/rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SITE_DONE = 1, OWNER_DONE = 2 };

struct stack_site {
	struct vs_site site;
	uint8_t done, owner;
};

struct vs_sites {
	const struct vramshim_trace *trace;
	struct vs_symbols *symbols;
	struct stack_site *stacks; /* by id */
	size_t stack_count, stack_capacity;
	struct vs_u64map native, python; /* rule by return address, by frame id */
	struct vs_u64map calls;          /* vs_site.call by the frames outside of the outermost module */
	uint16_t *rules;                 /* of the stack at hand */
	size_t rule_capacity;
	struct vs_evidence evidence;
	struct vs_owners owners;
};

/* In the map of native rules beside the rule: no name is known for the address. */
#define UNNAMED ((uint32_t)1 << 16)

int vs_sites_new(const struct vramshim_trace *trace, struct vs_symbols *symbols, struct vs_sites **ret_sites)
{
	struct vs_sites *sites = calloc(1, sizeof(*sites));

	if (!sites)
		return -ENOMEM;
	sites->trace = trace;
	sites->symbols = symbols;
	*ret_sites = sites;
	return 0;
}

void vs_sites_free(struct vs_sites *sites)
{
	if (!sites)
		return;
	vs_u64map_release(&sites->native);
	vs_u64map_release(&sites->python);
	vs_u64map_release(&sites->calls);
	free(sites->stacks);
	free(sites->rules);
	free(sites);
}

/* The rule of a native frame, with UNNAMED. */
static uint32_t native_rule(struct vs_sites *sites, uint64_t address)
{
	const struct vs_frame *frame;
	uint32_t rule = 0;

	if (vs_u64map_get(&sites->native, address, &rule))
		return rule;
	frame = vs_symbol_native(sites->symbols, address);
	if (!frame || strstr(frame->function, "+0x") || !strncmp(frame->function, "0x", 2))
		rule = UNNAMED;
	else
		rule = vs_rule_native(frame->function);
	vs_u64map_put(&sites->native, address, rule); /* without memory it is only worked out again */
	return rule;
}

static uint16_t python_rule(struct vs_sites *sites, uint32_t id)
{
	const struct vs_frame *frame;
	uint32_t rule = 0;

	if (vs_u64map_get(&sites->python, id, &rule))
		return (uint16_t)rule;
	frame = vs_symbol_python(sites->symbols, id);
	if (frame)
		rule = frame->kind == VS_FRAME_NATIVE /* of a snapshot */
		           ? vs_rule_native(frame->function)
		           : vs_rule_python(frame->file, frame->function);
	vs_u64map_put(&sites->python, id, rule);
	return (uint16_t)rule;
}

/* The vs_site.call of a stack: all stacks below the module that is called from the same place, the same way, have
 * one. */
static uint32_t call_of(struct vs_sites *sites, const struct vramshim_stack *stack, const uint16_t *rules)
{
	uint32_t outermost = stack->python_count, call = 0;
	uint64_t key;

	while (outermost && !(rules[outermost - 1] && vs_rule(rules[outermost - 1])->context == VS_CONTEXT_FORWARD))
		outermost--;
	if (!outermost || stack->truncated)
		return 0;
	key = vs_hash(stack->python + outermost, (stack->python_count - outermost) * sizeof(*stack->python), 0) | 1;
	if (!vs_u64map_get(&sites->calls, key, &call)) {
		call = (uint32_t)sites->calls.used + 1;
		if (vs_u64map_put(&sites->calls, key, call))
			return 0;
	}
	return call;
}

static struct stack_site *entry_of(struct vs_sites *sites, uint32_t id)
{
	/* A damaged trace may name any id: those beyond the table are all one, the empty stack 0. */
	if (id > vramshim_trace_stack_count(sites->trace))
		id = 0;
	if (vs_grow(&sites->stacks, &sites->stack_capacity, (size_t)id + 1, sizeof(*sites->stacks)))
		return NULL;
	while (sites->stack_count < sites->stack_capacity)
		sites->stacks[sites->stack_count++] = (struct stack_site){0};
	return &sites->stacks[id];
}

const struct vs_site *vs_sites_get(struct vs_sites *sites, uint32_t id)
{
	struct stack_site *entry = entry_of(sites, id);
	const struct vramshim_stack *stack;
	size_t count = 0;

	if (!entry)
		return NULL;
	if (entry->done & SITE_DONE)
		return &entry->site;
	stack = vramshim_trace_stack(sites->trace, id);
	if (stack) {
		count = (size_t)stack->native_count + stack->python_count;
		if (vs_grow(&sites->rules, &sites->rule_capacity, count + 1, sizeof(*sites->rules)))
			return NULL;
		bool unnamed = stack->native_count && native_rule(sites, stack->native[0]) & UNNAMED;

		for (uint32_t i = 0; i < stack->native_count; i++)
			sites->rules[i] = (uint16_t)native_rule(sites, stack->native[i]);
		for (uint32_t i = 0; i < stack->python_count; i++)
			sites->rules[stack->native_count + i] = python_rule(sites, stack->python[i]);
		entry->site = vs_site_evaluate(sites->rules, stack->native_count, sites->rules + stack->native_count,
		                               stack->python_count);
		entry->site.call = call_of(sites, stack, sites->rules + stack->native_count);
		/* Numbers say no more than no frames do; then the thread speaks (phases.h). */
		if (unnamed && !stack->python_count && !entry->site.context && !entry->site.role)
			entry->site.context = VS_CONTEXT_EMPTY;
		/* Of a snapshot's blocks without native frames, their sizes say it (import_shapes.h). */
		if (unnamed ||
		    (!stack->native_count && stack->python_count && !vramshim_trace_fact(sites->trace, "snapshot")))
			entry->site.flags |= VS_SITE_UNNAMED;
		if (stack->truncated && !entry->site.context && !entry->site.role) {
			entry->site.context = VS_CONTEXT_EMPTY;
			entry->site.flags |= VS_SITE_CUT;
			sites->evidence.cut++;
		}
		sites->evidence.stacks++;
		sites->evidence.with_python += stack->python_count > 0;
		sites->evidence.with_native += stack->native_count > 0;
		sites->evidence.unnamed += unnamed;
	} else {
		entry->site = vs_site_evaluate(NULL, 0, NULL, 0);
	}
	entry->done |= SITE_DONE;
	return &entry->site;
}

const struct vs_evidence *vs_sites_evidence(const struct vs_sites *sites)
{
	return &sites->evidence;
}

static const char *file_of(const struct vs_sites *sites, uint64_t address)
{
	const struct vramshim_module *module = vramshim_trace_module(sites->trace, address - 1);

	return module ? module->path : "";
}

/* Whether what asked, in frame `asker`, is an allocator of the job's that PyTorch's own has its segments from
 * (torch.cuda.MemPool): they are in its reserve. Others that it calls back, as NCCL, keep what they take. */
static bool asks_for_pytorch(struct vs_sites *sites, const struct vramshim_stack *stack, uint32_t asker)
{
	bool plugged = false;

	for (uint32_t i = asker + 1; i < stack->native_count; i++) {
		const struct vs_frame *frame;

		switch (vs_owner_known(file_of(sites, stack->native[i]))) {
		case VS_OWNER_NOBODY:
			break;
		case VS_OWNER_PYTORCH:
			return plugged;
		case VS_OWNER_TORCH:
			frame = vs_symbol_native(sites->symbols, stack->native[i]);
			plugged |= frame && strstr(frame->function, "PluggableAllocator");
			break;
		default:
			if (plugged)
				return false;
			break;
		}
	}
	return false;
}

uint8_t vs_sites_owner(struct vs_sites *sites, uint32_t id)
{
	struct stack_site *entry = entry_of(sites, id);
	const struct vramshim_stack *stack;

	if (!entry)
		return VS_OWNER_NOBODY;
	if (entry->done & OWNER_DONE)
		return entry->owner;
	entry->owner = VS_OWNER_NOBODY;
	stack = vramshim_trace_stack(sites->trace, id);
	for (uint32_t i = 0; stack && i < stack->native_count; i++) {
		if (!vs_owner_of_file(&sites->owners, file_of(sites, stack->native[i]), &entry->owner))
			continue;
		if (entry->owner != VS_OWNER_PYTORCH && asks_for_pytorch(sites, stack, i))
			entry->owner = VS_OWNER_PYTORCH;
		break;
	}
	entry->done |= OWNER_DONE;
	return entry->owner;
}

const char *vs_sites_owner_name(const struct vs_sites *sites, uint8_t owner)
{
	return vs_owner_name(&sites->owners, owner);
}
