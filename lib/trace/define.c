/* SPDX-License-Identifier: MIT
 *
 * The writer's definitions: what events refer to by id.
 */
#include <string.h>
#include <trace/writer_state.h>

enum {
	PATH_LIMIT = 4096, /* bytes of a path, a build id or a fact's key */
	FRAME_BYTES = 8,   /* tag and length of a record in a chunk: 1 + 3, and a few bytes to be worth it */
};

static bool next_chunk(struct vs_writer *writer)
{
	struct vs_definitions *definitions = &writer->definitions;
	struct vs_chunk_header chunk = {.kind = VS_CHUNK_DEFINITIONS};
	uint32_t index;
	uint8_t *mapped = vs_file_claim(&writer->file, &index);

	if (!mapped)
		return false;
	vs_chunk_begin((struct vs_chunk_header *)mapped, &chunk, index, definitions->chunk);
	definitions->chunk = (struct vs_chunk_header *)mapped;
	definitions->at = mapped + vs_chunk_records(index);
	definitions->end = mapped + VS_CHUNK_SIZE;
	return true;
}

static void put(struct vs_definitions *definitions, enum vs_definition tag, const uint8_t *payload, size_t size)
{
	uint8_t *at = vs_varint_put(definitions->at + 1, size);

	if (size)
		memcpy(at, payload, size);
	vs_commit(definitions->at, (uint8_t)tag);
	definitions->at = at + size;
}

/* Write one definition, in parts where a chunk ends. With the lock held. */
static bool define(struct vs_writer *writer, enum vs_definition tag, const void *payload, size_t size)
{
	struct vs_definitions *definitions = &writer->definitions;
	const uint8_t *at = payload;

	for (;;) {
		size_t left = (size_t)(definitions->end - definitions->at);
		size_t room = left > FRAME_BYTES ? left - FRAME_BYTES : 0;

		if (size <= room) {
			put(definitions, tag, at, size);
			return true;
		}
		if (room) {
			put(definitions, VS_DEFINE_PART, at, room);
			at += room;
			size -= room;
		}
		if (!next_chunk(writer))
			return false;
	}
}

static uint32_t define_next(struct vs_writer *writer, enum vs_definition tag, const void *payload, size_t size,
                            uint32_t *last)
{
	return *last < UINT32_MAX && define(writer, tag, payload, size) ? ++*last : 0;
}

/* Nothing more is defined once events are lost: none could refer to it. */
static bool begin(struct vs_writer *writer)
{
	if (!vs_writer_open_here(writer) || __atomic_load_n(&writer->file.header->first_lost, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&writer->lock);
	return true;
}

static void end(struct vs_writer *writer)
{
	pthread_mutex_unlock(&writer->lock);
}

uint32_t vs_writer_string(struct vs_writer *writer, const char *text, size_t size)
{
	uint32_t id;

	if (!begin(writer))
		return 0;
	id = define_next(writer, VS_DEFINE_STRING, text, size < VS_DEFINITION_MAX ? size : VS_DEFINITION_MAX,
	                 &writer->definitions.strings);
	end(writer);
	return id;
}

uint32_t vs_writer_code(struct vs_writer *writer, uint32_t file, uint32_t function, uint32_t first_line,
                        const uint8_t *line_table, size_t line_table_size)
{
	uint8_t *payload = writer->definitions.scratch, *at;
	uint32_t id;

	if (!begin(writer))
		return 0;
	at = vs_varint_put(payload, file);
	at = vs_varint_put(at, function);
	at = vs_varint_put(at, first_line);
	if (line_table && line_table_size <= VS_DEFINITION_MAX - (size_t)(at - payload)) {
		memcpy(at, line_table, line_table_size);
		at += line_table_size;
	}
	id = define_next(writer, VS_DEFINE_CODE, payload, (size_t)(at - payload), &writer->definitions.codes);
	end(writer);
	return id;
}

uint32_t vs_writer_python_frame(struct vs_writer *writer, uint32_t code, int32_t instruction)
{
	uint8_t payload[2 * VS_VARINT_MAX], *at;
	uint32_t id;

	if (!begin(writer))
		return 0;
	at = vs_varint_put(payload, code);
	at = vs_varint_put(at, vs_zigzag(instruction));
	id = define_next(writer, VS_DEFINE_FRAME, payload, (size_t)(at - payload), &writer->definitions.frames);
	end(writer);
	return id;
}

static uint32_t kept(uint32_t count)
{
	return count < VS_STACK_MAX ? count : VS_STACK_MAX;
}

/* Entries at the outer end (the arrays' tails) that this stack has in common with the latest one. */
static uint32_t shared_native(const struct vs_definitions *last, const uint64_t *frames, uint32_t count)
{
	uint32_t shared = 0;

	while (shared < count && shared < last->native_count &&
	       frames[count - 1 - shared] == last->native[last->native_count - 1 - shared])
		shared++;
	return shared;
}

static uint32_t shared_python(const struct vs_definitions *last, const uint32_t *frames, uint32_t count)
{
	uint32_t shared = 0;

	while (shared < count && shared < last->python_count &&
	       frames[count - 1 - shared] == last->python[last->python_count - 1 - shared])
		shared++;
	return shared;
}

static uint8_t *put_stack(uint8_t *at, struct vs_definitions *last, const struct vramshim_stack *stack)
{
	uint32_t native = kept(stack->native_count), python = kept(stack->python_count);
	bool truncated = stack->truncated || native < stack->native_count || python < stack->python_count;
	uint32_t native_shared = shared_native(last, stack->native, native);
	uint32_t python_shared = shared_python(last, stack->python, python);
	uint64_t address = last->native_count ? last->native[0] : 0;
	uint32_t frame = last->python_count ? last->python[0] : 0;

	at = vs_varint_put(at, (uint64_t)(native - native_shared) << 1 | truncated);
	at = vs_varint_put(at, native_shared);
	at = vs_varint_put(at, python - python_shared);
	at = vs_varint_put(at, python_shared);
	for (uint32_t i = 0; i < native - native_shared; i++) {
		at = vs_varint_put(at, vs_zigzag((int64_t)(stack->native[i] - address)));
		address = stack->native[i];
	}
	for (uint32_t i = 0; i < python - python_shared; i++) {
		at = vs_varint_put(at, vs_zigzag((int64_t)stack->python[i] - frame));
		frame = stack->python[i];
	}
	if (native)
		memcpy(last->native, stack->native, native * sizeof(*stack->native));
	if (python)
		memcpy(last->python, stack->python, python * sizeof(*stack->python));
	last->native_count = native;
	last->python_count = python;
	return at;
}

uint32_t vs_writer_stack(struct vs_writer *writer, const struct vramshim_stack *stack)
{
	uint8_t *payload = writer->definitions.scratch, *at;
	uint32_t id;

	if (!begin(writer))
		return 0;
	at = put_stack(payload, &writer->definitions, stack);
	id = define_next(writer, VS_DEFINE_STACK, payload, (size_t)(at - payload), &writer->definitions.stacks);
	end(writer);
	return id;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
	size_t size = text ? strnlen(text, PATH_LIMIT) : 0;

	at = vs_varint_put(at, size);
	if (size)
		memcpy(at, text, size);
	return at + size;
}

void vs_writer_module(struct vs_writer *writer, const struct vramshim_module *module)
{
	uint8_t *payload = writer->definitions.scratch, *at;

	if (!begin(writer))
		return;
	at = vs_varint_put(payload, module->base);
	at = vs_varint_put(at, module->begin);
	at = vs_varint_put(at, module->end - module->begin);
	at = put_text(at, module->path);
	at = put_text(at, module->build_id);
	define(writer, VS_DEFINE_MODULE, payload, (size_t)(at - payload));
	end(writer);
}

void vs_writer_fact(struct vs_writer *writer, const char *key, const char *value)
{
	uint8_t *payload = writer->definitions.scratch, *at;
	size_t size = value ? strlen(value) : 0;

	if (!begin(writer))
		return;
	at = put_text(payload, key);
	if (size > VS_DEFINITION_MAX - (size_t)(at - payload))
		size = VS_DEFINITION_MAX - (size_t)(at - payload);
	if (size)
		memcpy(at, value, size);
	define(writer, VS_DEFINE_FACT, payload, (size_t)(at - payload) + size);
	end(writer);
}
