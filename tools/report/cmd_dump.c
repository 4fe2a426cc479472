/* SPDX-License-Identifier: MIT
 *
 * vramreport dump: the records themselves, nothing concluded from them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/path.h"
#include "command.h"
#include "common/json.h"
#include "run.h"
#include "subject.h"

static const char help[] = "Usage: vramreport dump [--json] RUN\n"
                           "\n"
                           "Print every fact, module, stack and event of the traces, for debugging. Times are\n"
                           "seconds from the start of the process, sizes are bytes.\n"
                           "\n"
                           "      --json    one JSON object\n"
                           "  -h, --help    show this text\n";

static const char *event_name(enum vramshim_event_type type)
{
	static const char *const names[] = {
	    [VRAMSHIM_TORCH_ALLOC] = "torch-alloc",
	    [VRAMSHIM_TORCH_FREE] = "torch-free",
	    [VRAMSHIM_TORCH_OOM] = "torch-oom",
	    [VRAMSHIM_CUDA_ALLOC] = "cuda-alloc",
	    [VRAMSHIM_CUDA_FREE] = "cuda-free",
	    [VRAMSHIM_CUDA_FAIL] = "cuda-fail",
	    [VRAMSHIM_MARK] = "mark",
	    [VRAMSHIM_MEMINFO] = "meminfo",
	    [VRAMSHIM_EXIT] = "exit",
	};

	return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "unknown";
}

static bool is_cuda(const struct vramshim_event *event)
{
	return event->type == VRAMSHIM_CUDA_ALLOC || event->type == VRAMSHIM_CUDA_FREE ||
	       event->type == VRAMSHIM_CUDA_FAIL;
}

static bool is_torch(const struct vramshim_event *event)
{
	return event->type == VRAMSHIM_TORCH_ALLOC || event->type == VRAMSHIM_TORCH_FREE ||
	       event->type == VRAMSHIM_TORCH_OOM;
}

static const char *state(const struct vramshim_trace_info *info)
{
	return info->clean_exit ? "ended in order" : info->running ? "running" : "no end was recorded";
}

/* The reader finds modules by address; those that stacks refer to are the ones that matter. */
struct modules {
	const struct vramshim_module **list;
	size_t count, room;
};

static void collect(struct modules *modules, const struct vramshim_module *module)
{
	for (size_t i = modules->count; i-- > 0;) { /* neighbouring frames share a module: the last ones first */
		if (modules->list[i] == module)
			return;
	}
	if (vs_grow(&modules->list, &modules->room, modules->count + 1, sizeof(*modules->list)) < 0)
		return;
	modules->list[modules->count++] = module;
}

static int by_address(const void *a, const void *b)
{
	const struct vramshim_module *left = *(const struct vramshim_module *const *)a;
	const struct vramshim_module *right = *(const struct vramshim_module *const *)b;

	return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static struct modules find_modules(const struct vramshim_trace *trace)
{
	struct modules modules = {0};

	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++) {
		const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);
		for (uint32_t i = 0; stack && i < stack->native_count; i++) {
			const struct vramshim_module *module = vramshim_trace_module(trace, stack->native[i]);
			if (module)
				collect(&modules, module);
		}
	}
	if (modules.count)
		qsort(modules.list, modules.count, sizeof(*modules.list), by_address);
	return modules;
}

/* --- text --- */

/* Names come from the job: whatever could move the cursor or end the line is shown as \xNN. */
static void put(const char *text)
{
	for (; *text; text++) {
		unsigned char byte = *text;
		if (byte < 0x20 || byte == 0x7f)
			printf("\\x%02x", byte);
		else
			putchar(byte);
	}
}

static void text_stack(const struct vramshim_trace *trace, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);

	if (!stack)
		return;
	printf("stack %" PRIu32 "%s\n", id, stack->truncated ? " (deeper than recorded)" : "");
	for (uint32_t i = 0; i < stack->native_count; i++) {
		const struct vramshim_module *module = vramshim_trace_module(trace, stack->native[i]);

		printf("  native 0x%" PRIx64, stack->native[i]);
		if (module) {
			putchar(' ');
			put(vs_path_file(module->path));
			printf("+0x%" PRIx64, stack->native[i] - module->base);
		}
		putchar('\n');
	}
	for (uint32_t i = 0; i < stack->python_count; i++) {
		struct vramshim_python_frame frame;
		const struct vramshim_code *code = NULL;
		if (vramshim_trace_python_frame(trace, stack->python[i], &frame))
			code = vramshim_trace_code(trace, frame.code);
		printf("  python %" PRIu32, stack->python[i]);
		if (code) {
			putchar(' ');
			put(code->file);
			putchar(' ');
			put(code->function);
			printf(" (from line %" PRIu32 ") instruction %" PRId32, code->first_line, frame.instruction);
		}
		putchar('\n');
	}
}

static void text_event(const struct vramshim_trace *trace, const struct vramshim_event *event, uint64_t origin)
{
	double seconds = ((double)event->time_ns - (double)origin) / 1e9;

	printf("event %" PRIu64 " %+.9f thread %" PRIu32 " %s", event->sequence, seconds, event->thread,
	       event_name(event->type));
	if (is_cuda(event))
		printf(" %s", vs_memory_name(event->memory));
	if (event->name) {
		const char *name = vramshim_trace_string(trace, event->name);
		putchar(' ');
		put(name ? name : "?");
	}
	if (event->type != VRAMSHIM_MARK && event->type != VRAMSHIM_EXIT)
		printf(" device %d size %" PRIu64, event->device, event->size);
	if (event->address)
		printf(" address 0x%" PRIx64, event->address);
	if (event->handle)
		printf(" handle 0x%" PRIx64, event->handle);
	if (is_torch(event))
		printf(" allocated %" PRIu64 " reserved %" PRIu64, event->allocated, event->reserved);
	if (event->type == VRAMSHIM_MEMINFO && event->allocated)
		printf(" process %" PRIu64 " others %" PRIu64, event->allocated, event->reserved);
	if (event->type == VRAMSHIM_CUDA_FAIL)
		printf(" result %" PRId32, event->result);
	if (event->stack)
		printf(" stack %" PRIu32, event->stack);
	putchar('\n');
}

static int text_process(const struct vs_process *process)
{
	struct vramshim_trace *trace = process->trace;
	const struct vramshim_trace_info *info = vramshim_trace_info(trace);
	struct vramshim_event event;
	char started[VS_TIME_MAX];
	size_t count;
	int r;

	printf("trace %s\n", process->path);
	printf("info version %" PRIu32 " pid %" PRIu32 " started %s lost %" PRIu64 " %s\n", info->version, info->pid,
	       vs_time_format(info->started_ns, started), info->lost, state(info));
	const struct vramshim_fact *facts = vramshim_trace_facts(trace, &count);
	for (size_t i = 0; i < count; i++) {
		printf("fact ");
		put(facts[i].key);
		printf(" = ");
		put(facts[i].value);
		putchar('\n');
	}
	struct modules modules = find_modules(trace);
	for (size_t i = 0; i < modules.count; i++) {
		const struct vramshim_module *module = modules.list[i];
		printf("module 0x%" PRIx64 "-0x%" PRIx64 " base 0x%" PRIx64 " ", module->begin, module->end,
		       module->base);
		put(module->path);
		printf(" %s\n", module->build_id);
	}
	free(modules.list);
	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++)
		text_stack(trace, id);
	while ((r = vramshim_trace_next(trace, &event)) > 0)
		text_event(trace, &event, info->started_mono_ns);
	return r;
}

/* --- JSON --- */

static void json_hex(struct vs_json *json, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	vs_json_string(json, key, text);
}

static void json_stack(struct vs_json *json, const struct vramshim_trace *trace, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);

	if (!stack)
		return;
	vs_json_object_line(json, NULL);
	vs_json_unsigned(json, "id", id);
	vs_json_bool(json, "truncated", stack->truncated);
	vs_json_array(json, "native");
	for (uint32_t i = 0; i < stack->native_count; i++)
		json_hex(json, NULL, stack->native[i]);
	vs_json_end(json);
	vs_json_array(json, "python");
	for (uint32_t i = 0; i < stack->python_count; i++) {
		struct vramshim_python_frame frame;
		const struct vramshim_code *code = NULL;
		if (vramshim_trace_python_frame(trace, stack->python[i], &frame))
			code = vramshim_trace_code(trace, frame.code);
		vs_json_object(json, NULL);
		vs_json_string(json, "file", code ? code->file : NULL);
		vs_json_string(json, "function", code ? code->function : NULL);
		vs_json_unsigned(json, "first_line", code ? code->first_line : 0);
		vs_json_signed(json, "instruction", code ? frame.instruction : -1);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_end(json);
}

static void json_event(struct vs_json *json, const struct vramshim_trace *trace, const struct vramshim_event *event)
{
	vs_json_object_line(json, NULL);
	vs_json_unsigned(json, "sequence", event->sequence);
	vs_json_unsigned(json, "time_ns", event->time_ns);
	vs_json_unsigned(json, "thread", event->thread);
	vs_json_string(json, "type", event_name(event->type));
	if (is_cuda(event))
		vs_json_string(json, "memory", vs_memory_name(event->memory));
	if (event->name)
		vs_json_string(json, "name", vramshim_trace_string(trace, event->name));
	if (event->type != VRAMSHIM_MARK && event->type != VRAMSHIM_EXIT) {
		vs_json_signed(json, "device", event->device);
		vs_json_unsigned(json, "size", event->size);
		json_hex(json, "address", event->address);
	}
	if (event->handle)
		json_hex(json, "handle", event->handle);
	if (is_torch(event)) {
		vs_json_unsigned(json, "allocated", event->allocated);
		vs_json_unsigned(json, "reserved", event->reserved);
	}
	if (event->type == VRAMSHIM_MEMINFO && event->allocated) {
		vs_json_unsigned(json, "process", event->allocated);
		vs_json_unsigned(json, "others", event->reserved);
	}
	if (event->type == VRAMSHIM_CUDA_FAIL)
		vs_json_signed(json, "result", event->result);
	vs_json_unsigned(json, "stack", event->stack);
	vs_json_end(json);
}

static int json_process(struct vs_json *json, const struct vs_process *process)
{
	struct vramshim_trace *trace = process->trace;
	const struct vramshim_trace_info *info = vramshim_trace_info(trace);
	struct vramshim_event event;
	char started[VS_TIME_MAX];
	size_t count;
	int r;

	vs_json_object(json, NULL);
	vs_json_string(json, "path", process->path);
	vs_json_unsigned(json, "version", info->version);
	vs_json_unsigned(json, "pid", info->pid);
	vs_json_string(json, "started", vs_time_format(info->started_ns, started));
	vs_json_unsigned(json, "started_mono_ns", info->started_mono_ns);
	vs_json_unsigned(json, "lost", info->lost);
	vs_json_bool(json, "clean_exit", info->clean_exit);
	vs_json_bool(json, "running", info->running);
	vs_json_array(json, "facts");
	const struct vramshim_fact *facts = vramshim_trace_facts(trace, &count);
	for (size_t i = 0; i < count; i++) {
		vs_json_object_line(json, NULL);
		vs_json_string(json, "key", facts[i].key);
		vs_json_string(json, "value", facts[i].value);
		vs_json_end(json);
	}
	vs_json_end(json);
	vs_json_array(json, "modules");
	struct modules modules = find_modules(trace);
	for (size_t i = 0; i < modules.count; i++) {
		vs_json_object_line(json, NULL);
		json_hex(json, "begin", modules.list[i]->begin);
		json_hex(json, "end", modules.list[i]->end);
		json_hex(json, "base", modules.list[i]->base);
		vs_json_string(json, "path", modules.list[i]->path);
		vs_json_string(json, "build_id", modules.list[i]->build_id);
		vs_json_end(json);
	}
	free(modules.list);
	vs_json_end(json);
	vs_json_array(json, "stacks");
	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++)
		json_stack(json, trace, id);
	vs_json_end(json);
	vs_json_array(json, "events");
	while ((r = vramshim_trace_next(trace, &event)) > 0)
		json_event(json, trace, &event);
	vs_json_end(json);
	vs_json_end(json);
	return r;
}

int vs_cmd_dump(int argc, char **argv)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, VS_OPTION_FIRST},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	struct vs_run run;
	bool as_json = false;
	int option, r = 0;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case VS_OPTION_FIRST:
			as_json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		default:
			return vs_option_problem(option, argv);
		}
	}
	const char *path = vs_operand_run(argc, argv);
	if (!path || vs_run_open(path, &run) < 0)
		return VS_ANSWER_NONE;
	struct vs_json json = vs_json_on(stdout);
	if (as_json) {
		vs_json_object(&json, NULL);
		vs_json_string(&json, "schema", "vramshim/dump/1");
		vs_json_array(&json, "processes");
	}
	for (size_t i = 0; i < run.count && r == 0; i++)
		r = as_json ? json_process(&json, &run.processes[i]) : text_process(&run.processes[i]);
	if (as_json) {
		vs_json_end(&json);
		vs_json_end(&json);
	}
	vs_run_close(&run);
	return r < 0 ? VS_ANSWER_NONE : VS_ANSWER_YES;
}
