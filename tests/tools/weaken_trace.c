/* SPDX-License-Identifier: MIT
 *
 * What the recorder would have written of a real job with less to see: weaken_trace TRACE NEW WHAT. The events stay,
 * their stacks are poorer. WHAT: python     no Python frames, as of an interpreter that cannot be read names      the
 * libraries' files are not there to give their functions' names both       neither depth=N    the outer frames are
 * cut off beyond N native and N Python ones
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/writer.h"
#include <vramshim/trace.h>

enum { MODULES = 4096, THREADS = 1024, FRAMES = 512 };

struct thread {
	uint32_t id;
	struct vs_log *log;
};

struct weakener {
	struct vramshim_trace *trace;
	struct vs_writer *writer;
	bool no_python, no_names;
	uint32_t depth;
	uint32_t *stacks; /* new ids by old; 0: not yet written */
	uint64_t modules[MODULES];
	size_t module_count;
	struct thread threads[THREADS];
	size_t thread_count;
};

static uint32_t string(struct weakener *w, const char *text)
{
	return text ? vs_writer_string(w->writer, text, strlen(text)) : 0;
}

static void module(struct weakener *w, uint64_t address)
{
	const struct vramshim_module *found = vramshim_trace_module(w->trace, address);
	struct vramshim_module copy;
	char path[4096];

	if (!found)
		return;
	for (size_t i = 0; i < w->module_count; i++)
		if (w->modules[i] == found->begin)
			return;
	if (w->module_count == MODULES)
		exit(3);
	w->modules[w->module_count++] = found->begin;
	copy = *found;
	snprintf(path, sizeof(path), "%s%s", w->no_names ? "/missing" : "", found->path);
	copy.path = path;
	vs_writer_module(w->writer, &copy);
}

static uint32_t python_frame(struct weakener *w, uint32_t id)
{
	struct vramshim_python_frame frame;
	const struct vramshim_code *code;

	if (!vramshim_trace_python_frame(w->trace, id, &frame))
		return 0;
	code = vramshim_trace_code(w->trace, frame.code);
	if (!code)
		return 0;
	return vs_writer_python_frame(w->writer,
	                              vs_writer_code(w->writer, string(w, code->file), string(w, code->function),
	                                             code->first_line, code->line_table, code->line_table_size),
	                              frame.instruction);
}

static uint32_t stack(struct weakener *w, uint32_t id)
{
	const struct vramshim_stack *old = id ? vramshim_trace_stack(w->trace, id) : NULL;
	struct vramshim_stack new;
	uint32_t python[FRAMES];

	if (!old)
		return 0;
	if (w->stacks[id])
		return w->stacks[id];
	new = *old;
	new.python = python;
	new.truncated |= new.native_count > w->depth || new.python_count > w->depth;
	new.native_count = new.native_count < w->depth ? new.native_count : w->depth;
	new.python_count = w->no_python ? 0 : new.python_count < w->depth ? new.python_count : w->depth;
	for (uint32_t i = 0; i < new.native_count; i++)
		module(w, new.native[i] - 1);
	for (uint32_t i = 0; i < new.python_count &&i < FRAMES; i++)
		python[i] = python_frame(w, old->python[i]);
	return w->stacks[id] = vs_writer_stack(w->writer, &new);
}

/* The first thread's id is the process's, and the process that the new trace tells of is this one. */
static struct vs_log *log_of(struct weakener *w, uint32_t id)
{
	for (size_t i = 0; i < w->thread_count; i++)
		if (w->threads[i].id == id)
			return w->threads[i].log;
	if (w->thread_count == THREADS)
		exit(3);
	w->threads[w->thread_count] =
	    (struct thread){id, vs_log_new(w->writer, id == vramshim_trace_info(w->trace)->pid ? (uint32_t)getpid()
	                                                                                       : UINT32_MAX - id)};
	return w->threads[w->thread_count++].log;
}

int main(int argc, char **argv)
{
	static struct weakener w = {.depth = UINT32_MAX};
	const struct vramshim_fact *facts;
	struct vramshim_event event;
	size_t count;

	if (argc != 4)
		return 2;
	w.no_python = !strcmp(argv[3], "python") || !strcmp(argv[3], "both");
	w.no_names = !strcmp(argv[3], "names") || !strcmp(argv[3], "both");
	if (!strncmp(argv[3], "depth=", 6))
		w.depth = (uint32_t)strtoul(argv[3] + 6, NULL, 10);
	else if (!w.no_python && !w.no_names)
		return 2;
	if (vramshim_trace_open(argv[1], &w.trace) < 0 || vs_writer_open(argv[2], 0, &w.writer) < 0)
		return 1;
	w.stacks = calloc(vramshim_trace_stack_count(w.trace) + 1, sizeof(*w.stacks));
	if (!w.stacks)
		return 1;
	facts = vramshim_trace_facts(w.trace, &count);
	for (size_t i = 0; i < count; i++)
		vs_writer_fact(w.writer, facts[i].key, facts[i].value);
	while (vramshim_trace_next(w.trace, &event) > 0) {
		if (event.type == VRAMSHIM_EXIT)
			break;
		event.stack = stack(&w, event.stack);
		event.name = string(&w, vramshim_trace_string(w.trace, event.name));
		vs_log_append(log_of(&w, event.thread), &event);
	}
	vs_writer_finish(w.writer);
	return 0;
}
