/* SPDX-License-Identifier: MIT */
#include "tag/site.h"

#include "tag/rules.h"

#include <stdbool.h>

/* Innermost first: the first context that a frame gives, the first role up to there, flags of all. */
static void gather(const uint16_t *frames, size_t count, struct vs_site *site, bool *recompute, uint16_t *engine)
{
	for (size_t i = 0; i < count; i++) {
		const struct vs_rule *rule = vs_rule(frames[i]);

		if (!rule)
			continue;
		site->flags |= rule->flags;
		*recompute |= rule->context == VS_CONTEXT_RECOMPUTE;
		if (rule->flags & VS_SITE_ENGINE && !*engine)
			*engine = frames[i];
		/* A role belongs to the activity that it is met in: what an optimizer makes inside GradScaler.step()
		 * is not the scaler's. */
		if (!site->role && !site->context && rule->role) {
			site->role = rule->role;
			site->rule = frames[i];
		}
		if (!site->context && rule->context) {
			site->context = rule->context;
			if (!site->role)
				site->rule = frames[i];
		}
	}
}

struct vs_site vs_site_evaluate(const uint16_t *native, size_t native_count, const uint16_t *python,
                                size_t python_count)
{
	struct vs_site inner = {0}, site = {0};
	bool recompute = false;
	uint16_t engine = 0;

	gather(native, native_count, &inner, &recompute, &engine);
	gather(python, python_count, &site, &recompute, &engine);
	if (!native_count && !python_count) {
		site.context = VS_CONTEXT_EMPTY;
		return site;
	}
	site.flags |= inner.flags;
	if (inner.role) { /* an allocation's native frames are inside its Python frames */
		site.role = inner.role;
		site.rule = inner.rule;
	}
	/* A module called from within a backward: a checkpointed part runs again, or a custom function's backward
	 * uses a module. On autograd's own threads all Python frames are inside the engine; on the caller's thread
	 * the engine is inside torch/autograd/graph.py, which is then the innermost context. */
	if (site.context == VS_CONTEXT_FORWARD && recompute)
		site.context = VS_CONTEXT_RECOMPUTE;
	else if (site.flags & VS_SITE_ENGINE && (!site.context || site.context == VS_CONTEXT_FORWARD)) {
		site.context = VS_CONTEXT_BACKWARD;
		if (!site.role)
			site.rule = engine;
	}
	if (!site.context)
		site.context = inner.context;
	return site;
}
