/* SPDX-License-Identifier: MIT */
#include "symbol/symbol.h"

#include "base/buffer.h"
#include "base/path.h"
#include "base/u64map.h"
#include "symbol/elf_file.h"
#include "symbol/merge.h"
#include "symbol/python_line.h"
#include "symbol/readable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module_file { /* one file, however many ranges of memory it covers */
	const char *path, *build_id;
	struct vs_elf_file *elf; /* NULL: names are not to be had */
};

struct native {
	struct vs_frame frame;
	enum vs_native_role role;
};

struct merged {
	struct vs_frame *frames;
	size_t count;
};

struct vs_symbols {
	const struct vramshim_trace *trace;
	unsigned python_minor; /* 3.minor */
	struct module_file *files;
	size_t file_count, file_capacity;
	/* Each map gives an index into the list of pointers beside it. */
	struct vs_u64map native_map, python_map, stack_map;
	struct native **natives;
	struct vs_frame **pythons;
	struct merged *stacks;
	size_t native_capacity, python_capacity, stack_capacity;
	size_t native_count, python_count, stack_count;
};

static unsigned minor_of(const char *version)
{
	unsigned major = 0, minor = 0;

	/* Without a version the newest table format is the best guess; 3.8 is the oldest that is recorded. */
	if (!version || sscanf(version, "%u.%u", &major, &minor) != 2 || major != 3 || minor < 8)
		return 11;
	return minor;
}

int vs_symbols_new(const struct vramshim_trace *trace, struct vs_symbols **ret_symbols)
{
	struct vs_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return -ENOMEM;
	symbols->trace = trace;
	symbols->python_minor = minor_of(vramshim_trace_fact(trace, "python"));
	*ret_symbols = symbols;
	return 0;
}

void vs_symbols_free(struct vs_symbols *symbols)
{
	if (!symbols)
		return;
	for (size_t i = 0; i < symbols->file_count; i++)
		vs_elf_file_close(symbols->files[i].elf);
	for (size_t i = 0; i < symbols->native_count; i++) {
		free((char *)symbols->natives[i]->frame.function);
		free(symbols->natives[i]);
	}
	for (size_t i = 0; i < symbols->python_count; i++)
		free(symbols->pythons[i]);
	for (size_t i = 0; i < symbols->stack_count; i++)
		free(symbols->stacks[i].frames);
	free(symbols->files);
	free(symbols->natives);
	free(symbols->pythons);
	free(symbols->stacks);
	vs_u64map_release(&symbols->native_map);
	vs_u64map_release(&symbols->python_map);
	vs_u64map_release(&symbols->stack_map);
	free(symbols);
}

static struct vs_elf_file *file_of(struct vs_symbols *symbols, const struct vramshim_module *module)
{
	struct module_file file = {.path = module->path, .build_id = module->build_id};

	for (size_t i = 0; i < symbols->file_count; i++)
		if (!strcmp(symbols->files[i].path, module->path) &&
		    !strcmp(symbols->files[i].build_id, module->build_id))
			return symbols->files[i].elf;
	if (vs_elf_file_open(module->path, module->build_id, &file.elf))
		file.elf = NULL;
	if (vs_grow(&symbols->files, &symbols->file_capacity, symbols->file_count + 1, sizeof(file))) {
		vs_elf_file_close(file.elf);
		return NULL;
	}
	symbols->files[symbols->file_count++] = file;
	return file.elf;
}

static char *native_name(struct vs_symbols *symbols, const struct vramshim_module *module, uint64_t address)
{
	char *name = NULL;

	if (module) {
		struct vs_elf_file *elf = file_of(symbols, module);
		/* The call is before the address that it returns to, and may be the function's last instruction. */
		const char *symbol = elf ? vs_elf_file_function(elf, address - 1 - module->base) : NULL;

		if (symbol)
			return vs_readable(symbol);
		if (asprintf(&name, "%s+0x%llx", vs_path_file(module->path),
		             (unsigned long long)(address - module->base)) < 0)
			return NULL;
	} else if (asprintf(&name, "0x%llx", (unsigned long long)address) < 0) {
		return NULL;
	}
	return name;
}

static struct native *native(struct vs_symbols *symbols, uint64_t address)
{
	const struct vramshim_module *module;
	struct native *entry;
	uint32_t index;

	if (!address)
		address = 1; /* key 0 is not a key; neither is in any module */
	if (vs_u64map_get(&symbols->native_map, address, &index))
		return symbols->natives[index];
	if (vs_grow(&symbols->natives, &symbols->native_capacity, symbols->native_count + 1, sizeof(entry)))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	module = vramshim_trace_module(symbols->trace, address - 1);
	entry->frame = (struct vs_frame){
	    .kind = VS_FRAME_NATIVE,
	    .function = native_name(symbols, module, address),
	    .file = "",
	    .module = module ? module->path : "",
	    .address = address,
	};
	if (!entry->frame.function || vs_u64map_put(&symbols->native_map, address, (uint32_t)symbols->native_count)) {
		free((char *)entry->frame.function);
		free(entry);
		return NULL;
	}
	entry->role = vs_native_role(entry->frame.function, entry->frame.module);
	symbols->natives[symbols->native_count++] = entry;
	return entry;
}

const struct vs_frame *vs_symbol_native(struct vs_symbols *symbols, uint64_t return_address)
{
	struct native *entry = native(symbols, return_address);

	return entry ? &entry->frame : NULL;
}

const struct vs_frame *vs_symbol_python(struct vs_symbols *symbols, uint32_t id)
{
	struct vramshim_python_frame python;
	const struct vramshim_code *code;
	struct vs_frame *frame;
	uint32_t index;

	if (vs_u64map_get(&symbols->python_map, id, &index))
		return symbols->pythons[index];
	if (!vramshim_trace_python_frame(symbols->trace, id, &python))
		return NULL;
	if (vs_grow(&symbols->pythons, &symbols->python_capacity, symbols->python_count + 1, sizeof(frame)))
		return NULL;
	frame = calloc(1, sizeof(*frame));
	if (!frame)
		return NULL;
	code = vramshim_trace_code(symbols->trace, python.code);
	*frame = (struct vs_frame){
	    .kind = VS_FRAME_PYTHON,
	    .function = code && code->function ? code->function : "?",
	    .file = code && code->file ? code->file : "",
	    .module = "",
	    .line = code ? vs_python_line(code, python.instruction, symbols->python_minor) : 0,
	};
	/* Snapshots name their native frames, without addresses: a code object of no file. */
	if (!*frame->file)
		frame->kind = VS_FRAME_NATIVE;
	if (vs_u64map_put(&symbols->python_map, id, (uint32_t)symbols->python_count)) {
		free(frame);
		return NULL;
	}
	symbols->pythons[symbols->python_count++] = frame;
	return frame;
}

static int merge_stack(struct vs_symbols *symbols, const struct vramshim_stack *stack, struct merged *ret_merged)
{
	size_t room = (size_t)stack->native_count + stack->python_count + 1, natives = 0, pythons = 0;
	const struct vs_frame **frames = calloc(room, sizeof(*frames));
	enum vs_native_role *roles = calloc(room, sizeof(*roles));
	struct vs_frame *out = calloc(room, sizeof(*out));
	int error = -ENOMEM;

	if (!frames || !roles || !out)
		goto end;
	for (; natives < stack->native_count; natives++) {
		struct native *entry = native(symbols, stack->native[natives]);

		if (!entry)
			goto end;
		frames[natives] = &entry->frame;
		roles[natives] = entry->role;
	}
	for (uint32_t i = 0; i < stack->python_count; i++) { /* an id that is not there costs its frame only */
		const struct vs_frame *frame = vs_symbol_python(symbols, stack->python[i]);

		if (frame)
			frames[natives + pythons++] = frame;
	}
	*ret_merged = (struct merged){
	    .frames = out,
	    .count = vs_merge(frames, roles, natives, frames + natives, pythons, out),
	};
	out = NULL;
	error = 0;
end:
	free(frames);
	free(roles);
	free(out);
	return error;
}

int vs_symbol_stack(struct vs_symbols *symbols, uint32_t id, const struct vs_frame **ret_frames, size_t *ret_count)
{
	const struct vramshim_stack *stack;
	struct merged merged;
	uint32_t index;
	int error;

	if (!vs_u64map_get(&symbols->stack_map, id, &index)) {
		stack = vramshim_trace_stack(symbols->trace, id);
		if (!stack)
			return -ENOENT;
		if (vs_grow(&symbols->stacks, &symbols->stack_capacity, symbols->stack_count + 1, sizeof(merged)))
			return -ENOMEM;
		error = merge_stack(symbols, stack, &merged);
		if (error)
			return error;
		error = vs_u64map_put(&symbols->stack_map, id, (uint32_t)symbols->stack_count);
		if (error) {
			free(merged.frames);
			return error;
		}
		index = (uint32_t)symbols->stack_count;
		symbols->stacks[symbols->stack_count++] = merged;
	}
	*ret_frames = symbols->stacks[index].frames;
	*ret_count = symbols->stacks[index].count;
	return 0;
}
