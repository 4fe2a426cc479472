/* SPDX-License-Identifier: MIT
 *
 * Prints a trace as one JSON object a line, for the tests of the recorder:
 *   {"event":type,...,"stack":id}
 *   {"stack":id,"native":[[address,module]...],"python":[[file,function,first line,instruction,line table in
 * hex]...]}
 *   {"fact":[key,value]} {"info":...}
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <vramshim/trace.h>

static void print_text(const char *text)
{
	putchar('"');
	for (; text && *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_frame(const struct vramshim_trace *trace, uint32_t id)
{
	struct vramshim_python_frame frame;
	const struct vramshim_code *code;

	if (!vramshim_trace_python_frame(trace, id, &frame) || !(code = vramshim_trace_code(trace, frame.code))) {
		printf("null");
		return;
	}
	printf("[");
	print_text(code->file);
	printf(",");
	print_text(code->function);
	printf(",%" PRIu32 ",%" PRId32 ",\"", code->first_line, frame.instruction);
	for (size_t i = 0; code->line_table && i < code->line_table_size; i++)
		printf("%02x", code->line_table[i]);
	printf("\"]");
}

static void print_stack(const struct vramshim_trace *trace, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(trace, id);

	if (!stack)
		return;
	printf("{\"stack\":%" PRIu32 ",\"native\":[", id);
	for (uint32_t i = 0; i < stack->native_count; i++) {
		const struct vramshim_module *module = vramshim_trace_module(trace, stack->native[i] - 1);

		printf("%s[%" PRIu64 ",", i ? "," : "", stack->native[i]);
		print_text(module ? module->path : "");
		printf("]");
	}
	printf("],\"python\":[");
	for (uint32_t i = 0; i < stack->python_count; i++) {
		printf("%s", i ? "," : "");
		print_frame(trace, stack->python[i]);
	}
	printf("],\"truncated\":%s}\n", stack->truncated ? "true" : "false");
}

int main(int argc, char **argv)
{
	struct vramshim_trace *trace;
	const struct vramshim_trace_info *info;
	const struct vramshim_fact *facts;
	struct vramshim_event event;
	size_t count;
	int r;

	if (argc != 2)
		return 2;
	r = vramshim_trace_open(argv[1], &trace);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-r));
		return 2;
	}
	while (vramshim_trace_next(trace, &event) > 0) {
		printf("{\"event\":%d,\"memory\":%d,\"device\":%d,\"thread\":%" PRIu32 ",\"name\":", event.type,
		       event.memory, event.device, event.thread);
		print_text(event.name ? vramshim_trace_string(trace, event.name) : "");
		printf(",\"result\":%" PRId32 ",\"sequence\":%" PRIu64 ",\"address\":%" PRIu64 ",\"handle\":%" PRIu64
		       ",\"size\":%" PRIu64 ",\"allocated\":%" PRIu64 ",\"reserved\":%" PRIu64 ",\"stack\":%" PRIu32
		       "}\n",
		       event.result, event.sequence, event.address, event.handle, event.size, event.allocated,
		       event.reserved, event.stack);
	}
	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++)
		print_stack(trace, id);
	facts = vramshim_trace_facts(trace, &count);
	for (size_t i = 0; i < count; i++) {
		printf("{\"fact\":[");
		print_text(facts[i].key);
		printf(",");
		print_text(facts[i].value);
		printf("]}\n");
	}
	info = vramshim_trace_info(trace);
	printf("{\"info\":{\"pid\":%" PRIu32 ",\"lost\":%" PRIu64 ",\"clean\":%s}}\n", info->pid, info->lost,
	       info->clean_exit ? "true" : "false");
	vramshim_trace_close(trace);
	return 0;
}
