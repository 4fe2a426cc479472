/* SPDX-License-Identifier: MIT
 *
 * The trace reader on hostile bytes.
 *
 * The first byte chooses: even, the rest is taken as a trace file; odd, the
 * rest are pieces (kind, size, records) that are put behind a sound file
 * header and sound chunk headers, so that small inputs reach the records.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <trace/format.h>
#include <vramshim/trace.h>

enum { CHUNKS = 8 };

static void use(struct vramshim_trace *trace)
{
	struct vramshim_event event;
	size_t count, total = 0;

	for (int pass = 0; pass < 2; pass++) {
		uint64_t sequence = 0, time = 0;

		while (vramshim_trace_next(trace, &event)) {
			struct vramshim_python_frame frame;

			if (event.sequence <= sequence || event.time_ns < time)
				abort();
			sequence = event.sequence;
			time = event.time_ns;
			vramshim_trace_string(trace, event.name);
			vramshim_trace_code(trace, event.stack);
			vramshim_trace_python_frame(trace, event.stack, &frame);
			vramshim_trace_module(trace, event.address);
			vramshim_trace_device(trace, event.device);
		}
		vramshim_trace_rewind(trace);
	}
	for (uint32_t i = 1; i <= vramshim_trace_stack_count(trace); i++) {
		const struct vramshim_stack *stack = vramshim_trace_stack(trace, i);

		for (uint32_t j = 0; j < stack->native_count; j++)
			total += vramshim_trace_module(trace, stack->native[j]) != NULL;
		for (uint32_t j = 0; j < stack->python_count; j++) {
			struct vramshim_python_frame frame;
			const struct vramshim_code *code;

			if (!stack->python[j]) /* it was out of range */
				continue;
			if (!vramshim_trace_python_frame(trace, stack->python[j], &frame))
				abort();
			code = vramshim_trace_code(trace, frame.code);
			if (code)
				total += strlen(code->file) + strlen(code->function) + code->line_table_size;
		}
	}
	for (uint32_t i = 1; vramshim_trace_string(trace, i); i++)
		total += strlen(vramshim_trace_string(trace, i));
	const struct vramshim_fact *facts = vramshim_trace_facts(trace, &count);

	for (size_t i = 0; i < count; i++)
		if (!vramshim_trace_fact(trace, facts[i].key))
			abort();
	/* Keep what was computed, that is: keep the reads. */
	__asm__ volatile("" : : "r"(total));
}

static void open_and_use(const uint8_t *data, size_t size)
{
	struct vramshim_trace *trace;

	if (vramshim_trace_open_memory(data, size, &trace) == 0) {
		use(trace);
		vramshim_trace_close(trace);
	}
}

static void link_chunk(uint8_t *file, uint32_t index, uint8_t kind)
{
	struct vs_chunk_header *header =
	    (struct vs_chunk_header *)(file + (size_t)index * VS_CHUNK_SIZE + vs_chunk_records(index)) - 1;

	*header = (struct vs_chunk_header){.magic = VS_CHUNK_MAGIC, .first = index, .thread = kind};
	header->kind = index == 0 || kind % 4 == 0 ? VS_CHUNK_DEFINITIONS : VS_CHUNK_EVENTS;
	for (uint32_t before = index; before-- > 0 && kind % 4 != 1;) { /* 1: a log of its own */
		struct vs_chunk_header *other =
		    (struct vs_chunk_header *)(file + (size_t)before * VS_CHUNK_SIZE + vs_chunk_records(before)) - 1;

		if (other->kind == header->kind) {
			header->first = other->first;
			header->ordinal = other->ordinal + 1;
			other->next = index;
			break;
		}
	}
}

static void compose(const uint8_t *data, size_t size)
{
	static uint8_t file[CHUNKS * VS_CHUNK_SIZE] __attribute__((aligned(64)));
	struct vs_trace_header *header = (struct vs_trace_header *)file;
	uint32_t index = 0;

	memset(file, 0, sizeof(file));
	memcpy(header->magic, VS_TRACE_MAGIC, sizeof(header->magic));
	header->version = VS_TRACE_VERSION;
	header->header_size = VS_HEADER_SIZE;
	header->chunk_size = VS_CHUNK_SIZE;
	header->time_shift = VS_TIME_SHIFT;
	header->sequence = UINT64_MAX;
	for (; index < CHUNKS && size >= 3; index++) {
		size_t length = (size_t)data[1] | (size_t)data[2] << 8;
		size_t room = VS_CHUNK_SIZE - vs_chunk_records(index);

		link_chunk(file, index, data[0]);
		data += 3;
		size -= 3;
		length = length < size ? length : size;
		memcpy(file + (size_t)index * VS_CHUNK_SIZE + vs_chunk_records(index), data,
		       length < room ? length : room);
		data += length;
		size -= length;
	}
	header->chunks = index;
	if (index)
		open_and_use(file, (size_t)index * VS_CHUNK_SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		open_and_use(data, 0);
	else if (data[0] & 1)
		compose(data + 1, size - 1);
	else
		open_and_use(data + 1, size - 1);
	return 0;
}
