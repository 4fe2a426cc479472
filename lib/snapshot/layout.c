/* SPDX-License-Identifier: MIT
 *
 * The keys that PyTorch writes, by layout:
 *   1.13, 2.0   blocks have a `history` of {addr, real_size, frames}; no addresses of blocks; the file may be the
 *               bare list of segments (torch.cuda.memory_snapshot)
 *   2.1, 2.2    `frames` on blocks and segments, `is_expandable`, `segment_pool_id`; events have no time
 *   2.3 on      `time_us`, `allocator_settings`; then `external_annotations`, `compile_context`,
 *   2.11 on     `user_metadata` on events; 2.15 `pool_id` as well
 * A key that is absent keeps its default, a key that is unknown is skipped.
 */
#include "snapshot/layout.h"
#include "snapshot/write.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/u64map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vs_snapshot_texts {
	char **texts;
	size_t count, capacity;
};

struct reader {
	struct vs_pickle *pickle;
	struct vs_snapshot_owned *owned;
	struct vs_snapshot *snapshot;
	struct vs_snapshot_error *error;
	size_t segment_capacity, block_capacity, event_capacity, stack_capacity, frame_capacity;
	size_t stack_frame_count, stack_frame_capacity;
	struct vs_u64map frames_by_hash, stacks_by_hash; /* PyTorch writes equal ones again and again */
};

/* vs_pickle_visit() of a container that has been read and must not be read again. */
#define SEEN UINT32_MAX

enum kind {
	KIND_UINT,
	KIND_INT32,
	KIND_FLOAT,
	KIND_BOOL,
	KIND_TEXT,
	KIND_VALUE,
	KIND_STATE,
	KIND_ACTION,
	KIND_LARGE
};

struct field {
	const char *key;
	uint8_t kind;
	uint16_t offset;
};

static int fail(struct reader *r, int error, const char *what, const char *key)
{
	snprintf(r->error->text, sizeof(r->error->text), "%s%s%s%s", what, key ? " (key '" : "", key ? key : "",
	         key ? "')" : "");
	return error;
}

static int no_memory(struct reader *r)
{
	return fail(r, -ENOMEM, "out of memory", NULL);
}

/* A copy of a text, made once for each string object of the pickle. */
static int keep_text(struct reader *r, vs_pickle_value value, const char **ret_text)
{
	struct vs_snapshot_texts *texts = r->owned->texts;
	uint32_t *visit = vs_pickle_visit(r->pickle, value);
	const char *text;
	size_t size;

	if (vs_pickle_type(value) == VS_PICKLE_NONE) {
		*ret_text = "";
		return 0;
	}
	if (!vs_pickle_string(r->pickle, value, &text, &size))
		return -EBADMSG;
	if (!*visit) {
		if (texts->count >= SEEN - 1 ||
		    vs_grow(&texts->texts, &texts->capacity, texts->count + 1, sizeof(*texts->texts)) < 0)
			return -ENOMEM;
		texts->texts[texts->count] = strndup(text, size);
		if (!texts->texts[texts->count])
			return -ENOMEM;
		*visit = (uint32_t)++texts->count;
	}
	*ret_text = texts->texts[*visit - 1];
	return 0;
}

static bool is_text(struct reader *r, vs_pickle_value value, const char *wanted)
{
	const char *text;
	size_t size;

	return vs_pickle_string(r->pickle, value, &text, &size) && size == strlen(wanted) &&
	       !memcmp(text, wanted, size);
}

static enum vs_snapshot_action read_action(struct reader *r, vs_pickle_value value)
{
	for (enum vs_snapshot_action action = VS_SNAPSHOT_OTHER + 1; action <= VS_SNAPSHOT_ANNOTATE; action++) {
		if (is_text(r, value, vs_snapshot_action_name(action)))
			return action;
	}
	return VS_SNAPSHOT_OTHER;
}

static enum vs_snapshot_state read_state(struct reader *r, vs_pickle_value value)
{
	if (is_text(r, value, "active_allocated"))
		return VS_SNAPSHOT_ALLOCATED;
	/* The documentation names the second, the code writes the first. */
	if (is_text(r, value, "active_pending_free") || is_text(r, value, "active_awaiting_free"))
		return VS_SNAPSHOT_PENDING_FREE;
	return VS_SNAPSHOT_INACTIVE;
}

static int set_field(struct reader *r, const struct field *field, vs_pickle_value value, void *into)
{
	char *place = (char *)into + field->offset;
	int64_t number = 0;
	int e = 0;

	switch ((enum kind)field->kind) {
	case KIND_UINT:
		/* -1 stands for "none" or "unlimited" wherever PyTorch writes it. */
		if (vs_pickle_int(r->pickle, value, &number) && number < 0)
			*(uint64_t *)(void *)place = VS_SNAPSHOT_UNSET;
		else if (!vs_pickle_uint(r->pickle, value, (uint64_t *)(void *)place))
			e = -EBADMSG;
		break;
	case KIND_INT32:
		if (!vs_pickle_int(r->pickle, value, &number) || number < -1 || number > INT16_MAX)
			e = -EBADMSG;
		else
			*(int32_t *)(void *)place = (int32_t)number;
		break;
	case KIND_FLOAT:
		e = vs_pickle_float(r->pickle, value, (double *)(void *)place) ? 0 : -EBADMSG;
		break;
	case KIND_BOOL:
		e = vs_pickle_int(r->pickle, value, &number) ? 0 : -EBADMSG;
		*(bool *)(void *)place = number != 0;
		break;
	case KIND_TEXT:
		e = keep_text(r, value, (const char **)(void *)place);
		break;
	case KIND_VALUE:
		*(vs_pickle_value *)(void *)place = value;
		break;
	case KIND_STATE:
		*(enum vs_snapshot_state *)(void *)place = read_state(r, value);
		break;
	case KIND_ACTION:
		*(enum vs_snapshot_action *)(void *)place = read_action(r, value);
		break;
	case KIND_LARGE:
		*(bool *)(void *)place = is_text(r, value, "large");
		break;
	}
	if (e == -ENOMEM)
		return no_memory(r);
	return e < 0 ? fail(r, e, "a value of the wrong type", field->key) : 0;
}

/* Fill a struct from a dict, by a table of its keys. */
static int read_dict(struct reader *r, vs_pickle_value dict, const struct field *fields, void *into)
{
	const vs_pickle_value *items;
	size_t count, size;
	const char *text;

	if (vs_pickle_type(dict) != VS_PICKLE_DICT || !vs_pickle_items(r->pickle, dict, &items, &count))
		return fail(r, -EBADMSG, "not a PyTorch memory snapshot: something is no dict", NULL);
	for (size_t i = 0; i + 1 < count; i += 2) {
		if (!vs_pickle_string(r->pickle, items[i], &text, &size))
			continue;
		for (const struct field *field = fields; field->key; field++) {
			if (strlen(field->key) != size || memcmp(field->key, text, size))
				continue;
			int e = set_field(r, field, items[i + 1], into);

			if (e < 0)
				return e;
			break;
		}
	}
	return 0;
}

/* Claim a container for one reading: sharing one is how a small file pretends to be a huge one. */
static int claim(struct reader *r, vs_pickle_value value)
{
	uint32_t *visit = vs_pickle_visit(r->pickle, value);

	if (!visit || vs_pickle_type(value) == VS_PICKLE_STRING)
		return fail(r, -EBADMSG, "not a PyTorch memory snapshot: a list or dict is missing", NULL);
	if (*visit)
		return fail(r, -EOVERFLOW, "the same list or dict is used in more than one place", NULL);
	*visit = SEEN;
	return 0;
}

static int claim_list(struct reader *r, vs_pickle_value list, const vs_pickle_value **ret_items, size_t *ret_count)
{
	int e;

	*ret_items = NULL;
	*ret_count = 0;
	if (vs_pickle_type(list) == VS_PICKLE_NONE)
		return 0;
	if (vs_pickle_type(list) != VS_PICKLE_LIST)
		return fail(r, -EBADMSG, "not a PyTorch memory snapshot: something is no list", NULL);
	/* Empty ones may be shared: they cost nothing. */
	if (!vs_pickle_items(r->pickle, list, ret_items, ret_count) || !*ret_count)
		return 0;
	e = claim(r, list);
	if (e < 0)
		*ret_count = 0;
	return e;
}

#define FIELD(type, member, name, kind)                                                                              \
	{                                                                                                            \
		name, kind, offsetof(type, member)                                                                   \
	}

static const struct field frame_fields[] = {
    FIELD(struct vs_snapshot_frame, file, "filename", KIND_TEXT),
    FIELD(struct vs_snapshot_frame, function, "name", KIND_TEXT),
    FIELD(struct vs_snapshot_frame, line, "line", KIND_UINT),
    {0},
};

static uint64_t hash_text(const char *text)
{
	return vs_hash(text, strlen(text), 0);
}

/* The next place to look where two hash alike. 0 is no key. */
static uint64_t next_key(uint64_t key)
{
	return key + 1 ? key + 1 : 1;
}

static int unique_frame(struct reader *r, const struct vs_snapshot_frame *frame, uint32_t *ret_index)
{
	struct vs_snapshot *s = r->snapshot;
	uint64_t key = next_key(vs_hash_fold(hash_text(frame->file) ^ frame->line, hash_text(frame->function) | 1));

	for (; vs_u64map_get(&r->frames_by_hash, key, ret_index); key = next_key(key)) {
		const struct vs_snapshot_frame *known = &s->frames[*ret_index];

		if (known->line == frame->line && !strcmp(known->file, frame->file) &&
		    !strcmp(known->function, frame->function))
			return 0;
	}
	if (s->frame_count >= SEEN - 1)
		return fail(r, -EOVERFLOW, "too many stack frames", NULL);
	if (vs_grow(&s->frames, &r->frame_capacity, s->frame_count + 1, sizeof(*s->frames)) < 0 ||
	    vs_u64map_put(&r->frames_by_hash, key, (uint32_t)s->frame_count) < 0)
		return no_memory(r);
	*ret_index = (uint32_t)s->frame_count;
	s->frames[s->frame_count++] = *frame;
	return 0;
}

/* The stack of the last `count` frames read, which are given back where it is known. `frames` of a stack are an
 * offset until all are read: the array moves as it grows. */
static int unique_stack(struct reader *r, size_t count, uint32_t *ret_stack)
{
	struct vs_snapshot *s = r->snapshot;
	size_t first = r->stack_frame_count - count;
	uint64_t key = next_key(vs_hash(r->owned->stack_frames + first, count * sizeof(uint32_t), 0));

	for (; vs_u64map_get(&r->stacks_by_hash, key, ret_stack); key = next_key(key)) {
		const struct vs_snapshot_stack *known = &s->stacks[*ret_stack];
		size_t offset = (size_t)(uintptr_t)known->frames / sizeof(uint32_t);

		if (known->count == count && !memcmp(r->owned->stack_frames + offset, r->owned->stack_frames + first,
		                                     count * sizeof(uint32_t))) {
			r->stack_frame_count = first;
			return 0;
		}
	}
	if (s->stack_count >= SEEN - 1)
		return fail(r, -EOVERFLOW, "too many stacks", NULL);
	if (vs_grow(&s->stacks, &r->stack_capacity, s->stack_count + 1, sizeof(*s->stacks)) < 0 ||
	    vs_u64map_put(&r->stacks_by_hash, key, (uint32_t)s->stack_count) < 0)
		return no_memory(r);
	*ret_stack = (uint32_t)s->stack_count;
	s->stacks[s->stack_count++] = (struct vs_snapshot_stack){
	    .frames = (const uint32_t *)(uintptr_t)(first * sizeof(uint32_t)), .count = (uint32_t)count};
	return 0;
}

static int read_frame(struct reader *r, vs_pickle_value value, uint32_t *ret_index)
{
	uint32_t *visit = vs_pickle_visit(r->pickle, value);
	struct vs_snapshot_frame frame = {.file = "", .function = ""};
	int e;

	if (visit && (*visit == SEEN || vs_pickle_type(value) != VS_PICKLE_DICT))
		return fail(r, -EBADMSG, "a stack frame that is no frame", NULL);
	if (visit && *visit) {
		*ret_index = *visit - 1;
		return 0;
	}
	e = read_dict(r, value, frame_fields, &frame);
	if (e == 0)
		e = unique_frame(r, &frame, ret_index);
	if (e == 0)
		*visit = *ret_index + 1;
	return e;
}

static int read_stack(struct reader *r, vs_pickle_value list, uint32_t *ret_stack)
{
	uint32_t *visit = vs_pickle_visit(r->pickle, list);
	const vs_pickle_value *items;
	size_t count;
	int e = 0;

	*ret_stack = 0;
	if (vs_pickle_type(list) != VS_PICKLE_LIST || !vs_pickle_items(r->pickle, list, &items, &count) || !count)
		return 0;
	if (*visit == SEEN)
		return fail(r, -EBADMSG, "a stack that is also another list", NULL);
	if (*visit) {
		*ret_stack = *visit - 1;
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t frame = 0;

		if (vs_grow(&r->owned->stack_frames, &r->stack_frame_capacity, r->stack_frame_count + 1,
		            sizeof(uint32_t)) < 0)
			return no_memory(r);
		e = read_frame(r, items[i], &frame);
		if (e < 0)
			return e;
		r->owned->stack_frames[r->stack_frame_count++] = frame;
	}
	e = unique_stack(r, count, ret_stack);
	if (e == 0)
		*visit = *ret_stack + 1;
	return e;
}

struct raw_block {
	struct vs_snapshot_block block;
	vs_pickle_value frames, history;
};

static const struct field block_fields[] = {
    FIELD(struct raw_block, block.address, "address", KIND_UINT),
    FIELD(struct raw_block, block.size, "size", KIND_UINT),
    FIELD(struct raw_block, block.requested_size, "requested_size", KIND_UINT),
    FIELD(struct raw_block, block.state, "state", KIND_STATE),
    FIELD(struct raw_block, frames, "frames", KIND_VALUE),
    FIELD(struct raw_block, history, "history", KIND_VALUE),
    {0},
};

struct raw_history {
	uint64_t real_size;
	vs_pickle_value frames;
};

static const struct field history_fields[] = {
    FIELD(struct raw_history, real_size, "real_size", KIND_UINT),
    FIELD(struct raw_history, frames, "frames", KIND_VALUE),
    {0},
};

/* torch 1.13 and 2.0: the newest entry comes first and is about the block as it is. */
static int read_history(struct reader *r, struct raw_block *raw)
{
	struct raw_history newest = {.real_size = VS_SNAPSHOT_UNSET, .frames = raw->frames};
	const vs_pickle_value *items;
	size_t count;
	int e;

	e = claim_list(r, raw->history, &items, &count);
	if (e < 0 || !count)
		return e;
	e = read_dict(r, items[0], history_fields, &newest);
	if (e < 0)
		return e;
	raw->frames = newest.frames;
	if (raw->block.requested_size == VS_SNAPSHOT_UNSET)
		raw->block.requested_size = newest.real_size;
	return 0;
}

static int read_block(struct reader *r, vs_pickle_value value, uint64_t address)
{
	struct raw_block raw = {.block = {.address = address, .requested_size = VS_SNAPSHOT_UNSET}};
	struct vs_snapshot *s = r->snapshot;
	int e;

	e = claim(r, value);
	if (e < 0)
		return e;
	if (vs_grow(&s->blocks, &r->block_capacity, s->block_count + 1, sizeof(*s->blocks)) < 0)
		return no_memory(r);
	e = read_dict(r, value, block_fields, &raw);
	if (e == 0)
		e = read_history(r, &raw);
	if (e == 0)
		e = read_stack(r, raw.frames, &raw.block.stack);
	if (e < 0)
		return e;
	s->blocks[s->block_count++] = raw.block;
	return 0;
}

struct raw_segment {
	struct vs_snapshot_segment segment;
	vs_pickle_value frames, blocks, pool;
};

static const struct field segment_fields[] = {
    FIELD(struct raw_segment, segment.device, "device", KIND_INT32),
    FIELD(struct raw_segment, segment.address, "address", KIND_UINT),
    FIELD(struct raw_segment, segment.total_size, "total_size", KIND_UINT),
    FIELD(struct raw_segment, segment.stream, "stream", KIND_UINT),
    FIELD(struct raw_segment, segment.large, "segment_type", KIND_LARGE),
    FIELD(struct raw_segment, segment.expandable, "is_expandable", KIND_BOOL),
    FIELD(struct raw_segment, frames, "frames", KIND_VALUE),
    FIELD(struct raw_segment, blocks, "blocks", KIND_VALUE),
    FIELD(struct raw_segment, pool, "segment_pool_id", KIND_VALUE),
    {0},
};

static int read_pool(struct reader *r, vs_pickle_value value, struct vs_snapshot_pool *ret_pool)
{
	const vs_pickle_value *items;
	size_t count;

	if (vs_pickle_type(value) == VS_PICKLE_NONE)
		return 0;
	if (vs_pickle_type(value) != VS_PICKLE_LIST || !vs_pickle_items(r->pickle, value, &items, &count) ||
	    count != 2 || !vs_pickle_uint(r->pickle, items[0], &ret_pool->first) ||
	    !vs_pickle_uint(r->pickle, items[1], &ret_pool->second))
		return fail(r, -EBADMSG, "a pool that is no pair of numbers", NULL);
	return 0;
}

static int read_segment(struct reader *r, vs_pickle_value value)
{
	struct raw_segment raw = {.segment = {.first_block = r->snapshot->block_count}};
	struct vs_snapshot *s = r->snapshot;
	const vs_pickle_value *items;
	uint64_t address;
	size_t count;
	int e;

	e = claim(r, value);
	if (e == 0)
		e = read_dict(r, value, segment_fields, &raw);
	if (e == 0)
		e = read_pool(r, raw.pool, &raw.segment.pool);
	if (e == 0)
		e = read_stack(r, raw.frames, &raw.segment.stack);
	if (e == 0)
		e = claim_list(r, raw.blocks, &items, &count);
	if (e < 0)
		return e;
	address = raw.segment.address;
	for (size_t i = 0; i < count; i++) {
		e = read_block(r, items[i], address);
		if (e < 0)
			return e;
		address = s->blocks[s->block_count - 1].address + s->blocks[s->block_count - 1].size;
	}
	raw.segment.block_count = count;
	if (vs_grow(&s->segments, &r->segment_capacity, s->segment_count + 1, sizeof(*s->segments)) < 0)
		return no_memory(r);
	if (raw.segment.device < 0)
		return fail(r, -EBADMSG, "a segment without a device", NULL);
	if (raw.segment.device >= s->device_count)
		s->device_count = raw.segment.device + 1;
	s->segments[s->segment_count++] = raw.segment;
	return 0;
}

struct raw_event {
	struct vs_snapshot_event event;
	uint64_t device_free;
	vs_pickle_value frames, pool;
};

static const struct field event_fields[] = {
    FIELD(struct raw_event, event.action, "action", KIND_ACTION),
    FIELD(struct raw_event, event.address, "addr", KIND_UINT),
    FIELD(struct raw_event, device_free, "device_free", KIND_UINT),
    FIELD(struct raw_event, event.size, "size", KIND_UINT),
    FIELD(struct raw_event, event.stream, "stream", KIND_UINT),
    FIELD(struct raw_event, event.time_us, "time_us", KIND_UINT),
    FIELD(struct raw_event, frames, "frames", KIND_VALUE),
    FIELD(struct raw_event, pool, "pool_id", KIND_VALUE),
    FIELD(struct raw_event, event.category, "category", KIND_TEXT),
    FIELD(struct raw_event, event.compile_context, "compile_context", KIND_TEXT),
    {0},
};

static int read_event(struct reader *r, vs_pickle_value value, int32_t device)
{
	struct raw_event raw = {
	    .event = {.device = device, .category = "", .compile_context = "", .user_metadata = ""}};
	struct vs_snapshot *s = r->snapshot;
	vs_pickle_value metadata;
	int e;

	raw.event.pool = (struct vs_snapshot_pool){VS_SNAPSHOT_UNSET, VS_SNAPSHOT_UNSET};
	e = claim(r, value);
	if (e == 0)
		e = read_dict(r, value, event_fields, &raw);
	if (e == 0)
		e = read_pool(r, raw.pool, &raw.event.pool);
	if (e == 0)
		e = read_stack(r, raw.frames, &raw.event.stack);
	/* A string, or in later versions any dict of the program's own. */
	if (e == 0 && vs_pickle_get(r->pickle, value, "user_metadata", &metadata) &&
	    vs_pickle_type(metadata) == VS_PICKLE_STRING && keep_text(r, metadata, &raw.event.user_metadata) < 0)
		return no_memory(r);
	if (e < 0)
		return e;
	if (raw.event.action == VS_SNAPSHOT_OOM)
		raw.event.address = raw.device_free;
	if (raw.event.pool.first != VS_SNAPSHOT_UNSET)
		s->has_pools = true;
	if (vs_grow(&s->events, &r->event_capacity, s->event_count + 1, sizeof(*s->events)) < 0)
		return no_memory(r);
	s->events[s->event_count++] = raw.event;
	return 0;
}

static int read_segments(struct reader *r, vs_pickle_value list)
{
	const vs_pickle_value *items;
	size_t count;
	int e = claim_list(r, list, &items, &count);

	for (size_t i = 0; e == 0 && i < count; i++)
		e = read_segment(r, items[i]);
	return e;
}

static int read_traces(struct reader *r, vs_pickle_value list)
{
	const vs_pickle_value *traces, *items;
	size_t trace_count, count;
	int e = claim_list(r, list, &traces, &trace_count);

	if (e < 0)
		return e;
	if (trace_count > INT16_MAX)
		return fail(r, -EOVERFLOW, "too many devices", NULL);
	for (size_t i = 0; i < trace_count; i++) {
		e = claim_list(r, traces[i], &items, &count);
		for (size_t j = 0; e == 0 && j < count; j++)
			e = read_event(r, items[j], (int32_t)i);
		if (e < 0)
			return e;
	}
	if ((int32_t)trace_count > r->snapshot->device_count)
		r->snapshot->device_count = (int32_t)trace_count;
	return 0;
}

struct raw_settings {
	struct vs_snapshot_settings settings;
	vs_pickle_value divisions;
};

static const struct field settings_fields[] = {
    FIELD(struct raw_settings, settings.text, "PYTORCH_CUDA_ALLOC_CONF", KIND_TEXT),
    FIELD(struct raw_settings, settings.max_split_size, "max_split_size", KIND_UINT),
    FIELD(struct raw_settings, settings.garbage_collection_threshold, "garbage_collection_threshold", KIND_FLOAT),
    FIELD(struct raw_settings, settings.expandable_segments, "expandable_segments", KIND_BOOL),
    FIELD(struct raw_settings, divisions, "roundup_power2_divisions", KIND_VALUE),
    {0},
};

static int read_settings(struct reader *r, vs_pickle_value dict)
{
	struct raw_settings raw = {.settings = {.present = true, .text = "", .max_split_size = VS_SNAPSHOT_UNSET}};
	vs_pickle_value value;
	char key[16];
	int e;

	e = read_dict(r, dict, settings_fields, &raw);
	if (e < 0)
		return e;
	for (unsigned int i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "%u", 1U << i);
		if (vs_pickle_get(r->pickle, raw.divisions, key, &value))
			vs_pickle_uint(r->pickle, value, &raw.settings.roundup_power2_divisions[i]);
	}
	r->snapshot->settings = raw.settings;
	return 0;
}

static int by_place(const void *left, const void *right)
{
	const struct vs_snapshot_segment *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

static int read_root(struct reader *r)
{
	vs_pickle_value root = vs_pickle_root(r->pickle), value;
	int e;

	if (vs_pickle_type(root) == VS_PICKLE_LIST)
		return read_segments(r, root);
	if (!vs_pickle_get(r->pickle, root, "segments", &value))
		return fail(r, -EBADMSG, "a pickle, but not a PyTorch memory snapshot: it has no segments", NULL);
	e = read_segments(r, value);
	if (e == 0 && vs_pickle_get(r->pickle, root, "device_traces", &value))
		e = read_traces(r, value);
	if (e == 0 && vs_pickle_get(r->pickle, root, "allocator_settings", &value))
		e = read_settings(r, value);
	return e;
}

int vs_snapshot_layout(struct vs_pickle *pickle, struct vs_snapshot_owned *owned, struct vs_snapshot_error *error)
{
	struct vs_snapshot *s = &owned->snapshot;
	struct reader r = {.pickle = pickle, .owned = owned, .snapshot = s, .error = error};
	int e;

	owned->texts = calloc(1, sizeof(*owned->texts));
	if (!owned->texts || vs_grow(&s->stacks, &r.stack_capacity, 1, sizeof(*s->stacks)) < 0)
		return no_memory(&r);
	s->stacks[s->stack_count++] = (struct vs_snapshot_stack){0};
	s->settings.text = "";
	s->settings.max_split_size = VS_SNAPSHOT_UNSET;
	e = read_root(&r);
	vs_u64map_release(&r.frames_by_hash);
	vs_u64map_release(&r.stacks_by_hash);
	if (e < 0)
		return e;
	for (size_t i = 1; i < s->stack_count; i++) {
		size_t offset = (size_t)(uintptr_t)s->stacks[i].frames;

		s->stacks[i].frames = owned->stack_frames + offset / sizeof(uint32_t);
	}
	if (s->segment_count)
		qsort(s->segments, s->segment_count, sizeof(*s->segments), by_place);
	return 0;
}

void vs_snapshot_texts_free(struct vs_snapshot_texts *texts)
{
	if (!texts)
		return;
	for (size_t i = 0; i < texts->count; i++)
		free(texts->texts[i]);
	free(texts->texts);
	free(texts);
}
