/* SPDX-License-Identifier: MIT */
#include <base/varint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <trace/tables.h>

/* A stack is stored as its difference from the one before, so a few bytes can stand for a long one. A real trace's
 * stacks take some 50 times their bytes; past these bounds they are taken for an attack on the reader's memory. */
enum { EXPANSION = 128, EXPANSION_FREE = 1 << 20 };

#define ADD(tables, what, ret)                                                                                       \
	(vs_grow(&(tables)->what##s, &(tables)->what##_room, (tables)->what##_count + 1,                             \
	         sizeof(*(tables)->what##s)) < 0                                                                     \
	     ? -ENOMEM                                                                                               \
	     : (*(ret) = &(tables)->what##s[(tables)->what##_count++], 0))

struct definitions {
	struct vs_tables *tables;
	uint64_t expansion_left; /* bytes that stacks may still take */
};

static const char *text_or_empty(const struct vs_tables *tables, uint64_t id)
{
	return id && id <= tables->string_count ? tables->strings[id - 1] : "";
}

static int add_string(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	const char **string;
	char *text = vs_heap_text(&tables->heap, payload->at, vs_cursor_left(payload));

	if (!text || ADD(tables, string, &string) < 0)
		return -ENOMEM;
	*string = text;
	return 0;
}

static int add_code(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	struct vramshim_code *code;
	uint64_t file = vs_cursor_varint(payload);
	uint64_t function = vs_cursor_varint(payload);
	uint32_t line = (uint32_t)vs_cursor_limited(payload, UINT32_MAX);
	size_t size = vs_cursor_left(payload);
	char *table = size ? vs_heap_text(&tables->heap, payload->at, size) : NULL;

	if ((size && !table) || ADD(tables, code, &code) < 0)
		return -ENOMEM;
	*code = (struct vramshim_code){.file = text_or_empty(tables, file),
	                               .function = text_or_empty(tables, function),
	                               .first_line = line,
	                               .line_table = (const uint8_t *)table,
	                               .line_table_size = size};
	return 0;
}

static int add_frame(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	struct vramshim_python_frame *frame;
	uint64_t code = vs_cursor_varint(payload);
	uint64_t instruction = vs_cursor_limited(payload, UINT32_MAX);

	if (ADD(tables, frame, &frame) < 0)
		return -ENOMEM;
	frame->code = code <= tables->code_count ? (uint32_t)code : 0;
	frame->instruction = payload->bad ? -1 : (int32_t)vs_unzigzag(instruction);
	return 0;
}

static int fill_stack(struct definitions *definitions, const struct vramshim_stack *before, struct vs_cursor *payload,
                      struct vramshim_stack *stack)
{
	struct vs_tables *tables = definitions->tables;
	uint64_t first = vs_cursor_limited(payload, VS_STACK_MAX << 1 | 1);
	uint64_t native_shared = vs_cursor_limited(payload, before->native_count);
	uint64_t python = vs_cursor_limited(payload, VS_STACK_MAX);
	uint64_t python_shared = vs_cursor_limited(payload, before->python_count);
	uint64_t native = first >> 1;
	uint64_t address = before->native_count ? before->native[0] : 0;
	uint64_t frame = before->python_count ? before->python[0] : 0;
	uint64_t bytes = (native + native_shared) * sizeof(uint64_t) + (python + python_shared) * sizeof(uint32_t);
	uint64_t *addresses;
	uint32_t *frames;

	stack->truncated = first & 1;
	/* Every entry of its own takes a byte or more. */
	if (payload->bad || native + native_shared > VS_STACK_MAX || python + python_shared > VS_STACK_MAX ||
	    native + python > vs_cursor_left(payload) || bytes > definitions->expansion_left)
		return -EBADMSG;
	definitions->expansion_left -= bytes;
	addresses = vs_heap_take(&tables->heap, bytes);
	if (!addresses)
		return -ENOMEM;
	frames = (uint32_t *)(addresses + native + native_shared);
	for (uint64_t i = 0; i < native; i++)
		addresses[i] = address += (uint64_t)vs_cursor_zigzag(payload);
	for (uint64_t i = 0; i < python; i++) {
		frame += (uint64_t)vs_cursor_zigzag(payload);
		frames[i] = frame <= tables->frame_count ? (uint32_t)frame : 0;
	}
	if (native_shared)
		memcpy(addresses + native, before->native + before->native_count - native_shared,
		       native_shared * sizeof(*addresses));
	if (python_shared)
		memcpy(frames + python, before->python + before->python_count - python_shared,
		       python_shared * sizeof(*frames));
	if (payload->bad)
		return -EBADMSG;
	stack->native = addresses;
	stack->python = frames;
	stack->native_count = (uint32_t)(native + native_shared);
	stack->python_count = (uint32_t)(python + python_shared);
	return 0;
}

static int add_stack(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	struct vramshim_stack *stack, before = {0};
	int r;

	if (tables->stack_count)
		before = tables->stacks[tables->stack_count - 1];
	if (ADD(tables, stack, &stack) < 0)
		return -ENOMEM;
	memset(stack, 0, sizeof(*stack)); /* ids are counted, so a senseless stack keeps its place, empty */
	r = fill_stack(definitions, &before, payload, stack);
	if (r == -EBADMSG)
		vs_cursor_fail(payload);
	return r == -ENOMEM ? r : 0;
}

static int take_text(struct vs_tables *tables, struct vs_cursor *payload, uint64_t size, const char **ret_text)
{
	const uint8_t *bytes = vs_cursor_bytes(payload, size);
	char *text = vs_heap_text(&tables->heap, bytes, bytes ? (size_t)size : 0);

	if (!text)
		return -ENOMEM;
	*ret_text = text;
	return 0;
}

static int add_module(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	struct vramshim_module module = {0};
	struct vs_module *added;
	uint64_t length;

	module.base = vs_cursor_varint(payload);
	module.begin = vs_cursor_varint(payload);
	length = vs_cursor_limited(payload, UINT64_MAX - module.begin);
	module.end = module.begin + length;
	if (take_text(tables, payload, vs_cursor_varint(payload), &module.path) < 0 ||
	    take_text(tables, payload, vs_cursor_varint(payload), &module.build_id) < 0)
		return -ENOMEM;
	if (payload->bad)
		return 0;
	if (ADD(tables, module, &added) < 0)
		return -ENOMEM;
	*added = (struct vs_module){module, tables->module_count};
	return 0;
}

static int add_fact(struct definitions *definitions, struct vs_cursor *payload)
{
	struct vs_tables *tables = definitions->tables;
	struct vramshim_fact *added, fact = {0};

	if (take_text(tables, payload, vs_cursor_varint(payload), &fact.key) < 0 ||
	    take_text(tables, payload, vs_cursor_left(payload), &fact.value) < 0)
		return -ENOMEM;
	if (payload->bad)
		return 0;
	if (ADD(tables, fact, &added) < 0)
		return -ENOMEM;
	*added = fact;
	return 0;
}

static int (*const adders[])(struct definitions *definitions, struct vs_cursor *payload) = {
    [VS_DEFINE_STRING] = add_string, [VS_DEFINE_CODE] = add_code,     [VS_DEFINE_FRAME] = add_frame,
    [VS_DEFINE_STACK] = add_stack,   [VS_DEFINE_MODULE] = add_module, [VS_DEFINE_FACT] = add_fact,
};

/* One record. Unknown tags are skipped: a later version of the format may add some. */
static int add(struct definitions *definitions, uint8_t tag, struct vs_cursor payload, struct vs_buffer *parts)
{
	int r = 0;

	if (tag == VS_DEFINE_PART)
		return vs_buffer_append(parts, payload.at, vs_cursor_left(&payload));
	if (parts->size) {
		r = vs_buffer_append(parts, payload.at, vs_cursor_left(&payload));
		payload = (struct vs_cursor){parts->data, parts->data + parts->size, false};
	}
	if (r == 0 && tag < sizeof(adders) / sizeof(adders[0]) && adders[tag])
		r = adders[tag](definitions, &payload);
	if (payload.bad)
		definitions->tables->damaged++;
	parts->size = 0;
	return r;
}

/* -EBADMSG where a record makes no sense. Ids are counted, so nothing after it could be trusted. */
static int read_chunk(struct definitions *definitions, struct vs_chunk *chunk, struct vs_buffer *parts)
{
	uint8_t tag;

	while ((tag = vs_chunk_tag(chunk)) != 0) {
		struct vs_cursor rest = {chunk->bytes + chunk->at + 1, chunk->bytes + chunk->size, false};
		uint64_t size = vs_cursor_varint(&rest);
		const uint8_t *bytes = vs_cursor_bytes(&rest, size);
		int r;

		if (!bytes) /* cut here, or senseless: no telling where the next record begins */
			return chunk->size == VS_CHUNK_SIZE ? -EBADMSG : -ENODATA;
		r = add(definitions, tag, (struct vs_cursor){bytes, bytes + size, false}, parts);
		if (r < 0)
			return r;
		chunk->at = (uint32_t)(rest.at - chunk->bytes);
	}
	return 0;
}

static int by_begin(const void *left, const void *right)
{
	const struct vs_module *a = left, *b = right;

	if (a->module.begin != b->module.begin)
		return a->module.begin < b->module.begin ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

int vs_tables_read(struct vs_tables *tables, const struct vs_source *source)
{
	struct definitions definitions = {tables, EXPANSION_FREE + source->size * EXPANSION};
	struct vs_buffer parts = {0};
	struct vs_chunk chunk = {0};
	int r = vs_chunk_load(source, 0, &chunk);

	if (r == 0 && chunk.header.kind != VS_CHUNK_DEFINITIONS)
		r = -ENODATA;
	while (r == 0) {
		r = read_chunk(&definitions, &chunk, &parts);
		if (r < 0)
			break;
		r = vs_chunk_follow(source, &chunk);
		if (r <= 0)
			break;
		r = 0;
	}
	if (r == -EBADMSG)
		tables->damaged++;
	vs_chunk_free(&chunk);
	vs_buffer_free(&parts);
	if (tables->module_count)
		qsort(tables->modules, tables->module_count, sizeof(*tables->modules), by_begin);
	return r == -ENOMEM ? r : 0;
}

void vs_tables_free(struct vs_tables *tables)
{
	free(tables->strings);
	free(tables->codes);
	free(tables->frames);
	free(tables->stacks);
	free(tables->modules);
	free(tables->facts);
	vs_heap_free(&tables->heap);
	*tables = (struct vs_tables){0};
}
