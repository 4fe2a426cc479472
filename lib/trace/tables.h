/* SPDX-License-Identifier: MIT
 *
 * The reader's tables, made from a trace's definitions.
 */
#ifndef VS_TRACE_TABLES_H
#define VS_TRACE_TABLES_H

#include <base/buffer.h>
#include <trace/source.h>

struct vs_module {
	struct vramshim_module module;
	size_t order; /* of definition */
};

struct vs_tables {
	struct vs_heap heap; /* texts and the stacks' entries */
	const char **strings;
	struct vramshim_code *codes;
	struct vramshim_python_frame *frames;
	struct vramshim_stack *stacks;
	struct vs_module *modules; /* by begin, then order */
	struct vramshim_fact *facts;
	size_t string_count, string_room;
	size_t code_count, code_room;
	size_t frame_count, frame_room;
	size_t stack_count, stack_room;
	size_t module_count, module_room;
	size_t fact_count, fact_room;
	uint64_t damaged; /* definitions that made no sense */
};

/* Read every definition. -ENOMEM; whatever is wrong with the bytes is counted and skipped. The caller frees in any
 * case. */
int vs_tables_read(struct vs_tables *tables, const struct vs_source *source);
void vs_tables_free(struct vs_tables *tables);

#endif
