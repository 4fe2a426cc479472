/* SPDX-License-Identifier: MIT */
#include "snapshot/write.h"

#include "snapshot/pickle_write.h"

#include <errno.h>
#include <stdlib.h>

enum key {
	KEY_ADDRESS,
	KEY_TOTAL_SIZE,
	KEY_ALLOCATED_SIZE,
	KEY_ACTIVE_SIZE,
	KEY_REQUESTED_SIZE,
	KEY_STREAM,
	KEY_SEGMENT_TYPE,
	KEY_SEGMENT_POOL_ID,
	KEY_IS_EXPANDABLE,
	KEY_FRAMES,
	KEY_BLOCKS,
	KEY_DEVICE,
	KEY_SIZE,
	KEY_STATE,
	KEY_ACTION,
	KEY_ADDR,
	KEY_DEVICE_FREE,
	KEY_TIME_US,
	KEY_CATEGORY,
	KEY_FILENAME,
	KEY_NAME,
	KEY_LINE,
	KEY_COUNT
};

static const char *const keys[KEY_COUNT] = {
    [KEY_ADDRESS] = "address",
    [KEY_TOTAL_SIZE] = "total_size",
    [KEY_ALLOCATED_SIZE] = "allocated_size",
    [KEY_ACTIVE_SIZE] = "active_size",
    [KEY_REQUESTED_SIZE] = "requested_size",
    [KEY_STREAM] = "stream",
    [KEY_SEGMENT_TYPE] = "segment_type",
    [KEY_SEGMENT_POOL_ID] = "segment_pool_id",
    [KEY_IS_EXPANDABLE] = "is_expandable",
    [KEY_FRAMES] = "frames",
    [KEY_BLOCKS] = "blocks",
    [KEY_DEVICE] = "device",
    [KEY_SIZE] = "size",
    [KEY_STATE] = "state",
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_DEVICE_FREE] = "device_free",
    [KEY_TIME_US] = "time_us",
    [KEY_CATEGORY] = "category",
    [KEY_FILENAME] = "filename",
    [KEY_NAME] = "name",
    [KEY_LINE] = "line",
};

static const char *const actions[] = {
    [VS_SNAPSHOT_OTHER] = "",
    [VS_SNAPSHOT_ALLOC] = "alloc",
    [VS_SNAPSHOT_FREE_REQUESTED] = "free_requested",
    [VS_SNAPSHOT_FREE_COMPLETED] = "free_completed",
    [VS_SNAPSHOT_SEGMENT_ALLOC] = "segment_alloc",
    [VS_SNAPSHOT_SEGMENT_FREE] = "segment_free",
    [VS_SNAPSHOT_SEGMENT_MAP] = "segment_map",
    [VS_SNAPSHOT_SEGMENT_UNMAP] = "segment_unmap",
    [VS_SNAPSHOT_SNAPSHOT] = "snapshot",
    [VS_SNAPSHOT_OOM] = "oom",
    [VS_SNAPSHOT_ANNOTATE] = "annotate",
};

static const char *const states[] = {
    [VS_SNAPSHOT_INACTIVE] = "inactive",
    [VS_SNAPSHOT_ALLOCATED] = "active_allocated",
    [VS_SNAPSHOT_PENDING_FREE] = "active_pending_free",
};

struct writer {
	struct vs_pickle_writer pickle;
	const struct vs_snapshot *snapshot;
	uint32_t keys[KEY_COUNT];
	uint32_t actions[sizeof(actions) / sizeof(actions[0])];
	uint32_t states[3], types[2];
	uint32_t *stacks, *frames; /* memo + 1, by index */
	uint32_t categories[16];   /* the first texts seen */
	const char *category_texts[16];
};

const char *vs_snapshot_action_name(enum vs_snapshot_action action)
{
	return actions[action];
}

static void key(struct writer *w, enum key name)
{
	vs_pickle_key(&w->pickle, keys[name], &w->keys[name]);
}

static void number(struct writer *w, enum key name, uint64_t value)
{
	key(w, name);
	vs_pickle_number(&w->pickle, value);
}

static void frame(struct writer *w, uint32_t index)
{
	const struct vs_snapshot_frame *f = &w->snapshot->frames[index];

	if (w->frames[index]) {
		vs_pickle_again(&w->pickle, w->frames[index] - 1);
		return;
	}
	vs_pickle_dict_begin(&w->pickle);
	key(w, KEY_FILENAME);
	vs_pickle_text(&w->pickle, f->file);
	number(w, KEY_LINE, f->line);
	key(w, KEY_NAME);
	vs_pickle_text(&w->pickle, f->function);
	vs_pickle_dict_end(&w->pickle);
	w->frames[index] = vs_pickle_remember(&w->pickle) + 1;
}

static void stack(struct writer *w, uint32_t index)
{
	const struct vs_snapshot_stack *s = &w->snapshot->stacks[index];

	key(w, KEY_FRAMES);
	if (w->stacks[index]) {
		vs_pickle_again(&w->pickle, w->stacks[index] - 1);
		return;
	}
	vs_pickle_list_begin(&w->pickle);
	for (uint32_t i = 0; i < s->count; i++)
		frame(w, s->frames[i]);
	vs_pickle_list_end(&w->pickle);
	w->stacks[index] = vs_pickle_remember(&w->pickle) + 1;
}

static uint64_t requested(const struct vs_snapshot_block *block)
{
	return block->requested_size == VS_SNAPSHOT_UNSET ? block->size : block->requested_size;
}

static void block(struct writer *w, const struct vs_snapshot_block *b)
{
	vs_pickle_dict_begin(&w->pickle);
	number(w, KEY_ADDRESS, b->address);
	number(w, KEY_SIZE, b->size);
	number(w, KEY_REQUESTED_SIZE, requested(b));
	key(w, KEY_STATE);
	vs_pickle_key(&w->pickle, states[b->state], &w->states[b->state]);
	stack(w, b->stack);
	vs_pickle_dict_end(&w->pickle);
}

static void segment(struct writer *w, const struct vs_snapshot_segment *s)
{
	const struct vs_snapshot_block *blocks = s->block_count ? w->snapshot->blocks + s->first_block : NULL;
	uint64_t allocated = 0, active = 0, asked = 0;

	for (size_t i = 0; i < s->block_count; i++) {
		allocated += blocks[i].state == VS_SNAPSHOT_ALLOCATED ? blocks[i].size : 0;
		active += blocks[i].state != VS_SNAPSHOT_INACTIVE ? blocks[i].size : 0;
		asked += blocks[i].state != VS_SNAPSHOT_INACTIVE ? requested(&blocks[i]) : 0;
	}
	vs_pickle_dict_begin(&w->pickle);
	number(w, KEY_DEVICE, (uint64_t)s->device);
	number(w, KEY_ADDRESS, s->address);
	number(w, KEY_TOTAL_SIZE, s->total_size);
	number(w, KEY_ALLOCATED_SIZE, allocated);
	number(w, KEY_ACTIVE_SIZE, active);
	number(w, KEY_REQUESTED_SIZE, asked);
	number(w, KEY_STREAM, s->stream);
	key(w, KEY_SEGMENT_TYPE);
	vs_pickle_key(&w->pickle, s->large ? "large" : "small", &w->types[s->large]);
	key(w, KEY_SEGMENT_POOL_ID);
	vs_pickle_number(&w->pickle, s->pool.first);
	vs_pickle_number(&w->pickle, s->pool.second);
	vs_pickle_pair(&w->pickle);
	key(w, KEY_IS_EXPANDABLE);
	vs_pickle_bool(&w->pickle, s->expandable);
	stack(w, s->stack);
	key(w, KEY_BLOCKS);
	vs_pickle_list_begin(&w->pickle);
	for (size_t i = 0; i < s->block_count; i++)
		block(w, &blocks[i]);
	vs_pickle_list_end(&w->pickle);
	vs_pickle_dict_end(&w->pickle);
}

static void category(struct writer *w, const char *text)
{
	size_t count = sizeof(w->categories) / sizeof(w->categories[0]);

	for (size_t i = 0; i < count; i++) {
		if (!w->category_texts[i])
			w->category_texts[i] = text;
		if (w->category_texts[i] == text) {
			vs_pickle_key(&w->pickle, text, &w->categories[i]);
			return;
		}
	}
	vs_pickle_text(&w->pickle, text);
}

static void event(struct writer *w, const struct vs_snapshot_event *e)
{
	vs_pickle_dict_begin(&w->pickle);
	key(w, KEY_ACTION);
	vs_pickle_key(&w->pickle, actions[e->action], &w->actions[e->action]);
	number(w, e->action == VS_SNAPSHOT_OOM ? KEY_DEVICE_FREE : KEY_ADDR, e->address);
	number(w, KEY_SIZE, e->size);
	number(w, KEY_STREAM, e->stream);
	number(w, KEY_TIME_US, e->time_us);
	if (e->category && *e->category) {
		key(w, KEY_CATEGORY);
		category(w, e->category);
	}
	stack(w, e->stack);
	vs_pickle_dict_end(&w->pickle);
}

static void traces(struct writer *w)
{
	const struct vs_snapshot *s = w->snapshot;
	size_t at = 0;

	vs_pickle_text(&w->pickle, "device_traces");
	vs_pickle_list_begin(&w->pickle);
	for (int32_t device = 0; device < s->device_count; device++) {
		vs_pickle_list_begin(&w->pickle);
		for (; at < s->event_count && s->events[at].device == device; at++) {
			if (s->events[at].action != VS_SNAPSHOT_OTHER)
				event(w, &s->events[at]);
		}
		vs_pickle_list_end(&w->pickle);
	}
	vs_pickle_list_end(&w->pickle);
}

static void settings(struct writer *w)
{
	const struct vs_snapshot_settings *s = &w->snapshot->settings;
	char size[16];

	vs_pickle_text(&w->pickle, "allocator_settings");
	vs_pickle_dict_begin(&w->pickle);
	vs_pickle_text(&w->pickle, "PYTORCH_CUDA_ALLOC_CONF");
	vs_pickle_text(&w->pickle, s->text ? s->text : "");
	vs_pickle_text(&w->pickle, "max_split_size");
	if (s->max_split_size == VS_SNAPSHOT_UNSET)
		vs_pickle_negative(&w->pickle, -1);
	else
		vs_pickle_number(&w->pickle, s->max_split_size);
	vs_pickle_text(&w->pickle, "garbage_collection_threshold");
	vs_pickle_real(&w->pickle, s->garbage_collection_threshold);
	vs_pickle_text(&w->pickle, "expandable_segments");
	vs_pickle_bool(&w->pickle, s->expandable_segments);
	vs_pickle_text(&w->pickle, "roundup_power2_divisions");
	vs_pickle_dict_begin(&w->pickle);
	for (unsigned int i = 0; i < 16; i++) {
		snprintf(size, sizeof(size), "%u", 1U << i);
		vs_pickle_text(&w->pickle, size);
		vs_pickle_number(&w->pickle, s->roundup_power2_divisions[i]);
	}
	vs_pickle_dict_end(&w->pickle);
	vs_pickle_dict_end(&w->pickle);
}

static void root(struct writer *w)
{
	vs_pickle_dict_begin(&w->pickle);
	vs_pickle_text(&w->pickle, "segments");
	vs_pickle_list_begin(&w->pickle);
	for (size_t i = 0; i < w->snapshot->segment_count; i++)
		segment(w, &w->snapshot->segments[i]);
	vs_pickle_list_end(&w->pickle);
	traces(w);
	settings(w);
	vs_pickle_text(&w->pickle, "external_annotations");
	vs_pickle_list_begin(&w->pickle);
	vs_pickle_list_end(&w->pickle);
	vs_pickle_dict_end(&w->pickle);
}

int vs_snapshot_write(const struct vs_snapshot *snapshot, FILE *out)
{
	struct writer w = {.snapshot = snapshot};
	int r = -ENOMEM;

	w.stacks = calloc(snapshot->stack_count + 1, sizeof(*w.stacks));
	w.frames = calloc(snapshot->frame_count + 1, sizeof(*w.frames));
	if (w.stacks && w.frames) {
		vs_pickle_begin(&w.pickle, out);
		root(&w);
		r = vs_pickle_end(&w.pickle);
	}
	free(w.stacks);
	free(w.frames);
	return r;
}
