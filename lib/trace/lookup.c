/* SPDX-License-Identifier: MIT
 *
 * The reader's look-ups.
 */
#include <string.h>
#include <trace/reader_state.h>

const struct vramshim_trace_info *vramshim_trace_info(const struct vramshim_trace *trace)
{
	return &trace->info;
}

const struct vramshim_device_totals *vramshim_trace_device(const struct vramshim_trace *trace, int device)
{
	const struct vramshim_device_totals *totals;

	if (device < 0 || device >= VS_DEVICES)
		return NULL;
	totals = &trace->header.devices[device];
	return totals->allocations || totals->frees || totals->ooms ? totals : NULL;
}

const char *vramshim_trace_string(const struct vramshim_trace *trace, uint32_t id)
{
	return id && id <= trace->tables.string_count ? trace->tables.strings[id - 1] : NULL;
}

const struct vramshim_stack *vramshim_trace_stack(const struct vramshim_trace *trace, uint32_t id)
{
	return id && id <= trace->tables.stack_count ? &trace->tables.stacks[id - 1] : NULL;
}

uint32_t vramshim_trace_stack_count(const struct vramshim_trace *trace)
{
	return (uint32_t)trace->tables.stack_count;
}

const struct vramshim_code *vramshim_trace_code(const struct vramshim_trace *trace, uint32_t id)
{
	return id && id <= trace->tables.code_count ? &trace->tables.codes[id - 1] : NULL;
}

bool vramshim_trace_python_frame(const struct vramshim_trace *trace, uint32_t id,
                                 struct vramshim_python_frame *ret_frame)
{
	if (!id || id > trace->tables.frame_count)
		return false;
	*ret_frame = trace->tables.frames[id - 1];
	return true;
}

const struct vramshim_module *vramshim_trace_module(const struct vramshim_trace *trace, uint64_t address)
{
	const struct vs_module *modules = trace->tables.modules;
	size_t low = 0, high = trace->tables.module_count;
	/* Ranges do not overlap, except where a library took the place of one that was unloaded: a few steps back
	 * find it. */
	enum { STEPS = 8 };

	while (low < high) { /* the first that begins beyond the address */
		size_t middle = low + (high - low) / 2;

		if (modules[middle].module.begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (int i = 0; i < STEPS && low > 0; i++) {
		const struct vramshim_module *module = &modules[--low].module;

		if (address < module->end)
			return module;
	}
	return NULL;
}

const struct vramshim_fact *vramshim_trace_facts(const struct vramshim_trace *trace, size_t *ret_count)
{
	*ret_count = trace->tables.fact_count;
	return trace->tables.facts;
}

const char *vramshim_trace_fact(const struct vramshim_trace *trace, const char *key)
{
	for (size_t i = trace->tables.fact_count; i-- > 0;)
		if (strcmp(trace->tables.facts[i].key, key) == 0)
			return trace->tables.facts[i].value;
	return NULL;
}
