/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <trace/codec.h>

/* The fields of the general form, in the order of the mask's bits. */
enum {
	FIELD_MEMORY = 1 << 0,
	FIELD_DEVICE = 1 << 1,
	FIELD_STACK = 1 << 2,
	FIELD_NAME = 1 << 3,
	FIELD_RESULT = 1 << 4,
	FIELD_ADDRESS = 1 << 5,
	FIELD_HANDLE = 1 << 6,
	FIELD_SIZE = 1 << 7,
	FIELD_TOTALS = 1 << 8,
	FIELD_ALL = (1 << 9) - 1,

	FIELDS_CUDA = FIELD_MEMORY | FIELD_DEVICE | FIELD_STACK | FIELD_NAME | FIELD_RESULT | FIELD_ADDRESS |
	              FIELD_HANDLE | FIELD_SIZE,
};

/* What each type uses (events.h). The two that have the compact form are not here. */
static const uint16_t fields_of[] = {
    [VRAMSHIM_TORCH_OOM] = FIELD_DEVICE | FIELD_STACK | FIELD_SIZE | FIELD_TOTALS,
    [VRAMSHIM_CUDA_ALLOC] = FIELDS_CUDA,
    [VRAMSHIM_CUDA_FREE] = FIELDS_CUDA,
    [VRAMSHIM_CUDA_FAIL] = FIELDS_CUDA,
    [VRAMSHIM_MARK] = FIELD_DEVICE | FIELD_STACK | FIELD_NAME,
    [VRAMSHIM_MEMINFO] = FIELD_DEVICE | FIELD_SIZE | FIELD_TOTALS,
    [VRAMSHIM_EXIT] = FIELD_RESULT,
};

/* PyTorch's blocks and CUDA's segments are multiples of 512 bytes (kMinBlockSize of the caching allocator). */
enum { GRANULE_SHIFT = 9, GRANULE = 1 << GRANULE_SHIFT };

/* What every event needs, in one piece; and what is seldom needed, out of the way: code that is not in the
 * processor's cache takes longer to come than to run. */
#define ALWAYS inline __attribute__((always_inline))
#define SELDOM __attribute__((cold, noinline))

static unsigned slot_of(uint64_t key)
{
	/* Fibonacci hashing: 2^64 divided by the golden ratio; the high bits are the well mixed ones. */
	return (unsigned)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - VS_CODEC_BITS));
}

static unsigned follower_slot(const struct vs_codec *codec)
{
	return slot_of(codec->stack | (uint64_t)codec->stack_before << 32);
}

static unsigned totals_slot(int32_t device)
{
	return device >= 0 && device < VS_DEVICES ? (unsigned)device : VS_DEVICES;
}

void vs_codec_reset(struct vs_codec *codec, const struct vs_chunk_header *chunk)
{
	memset(codec, 0, sizeof(*codec));
	codec->sequence = chunk->base_sequence;
	codec->time = chunk->base_time;
	codec->thread = chunk->thread;
}

/* A number that is a multiple of the granule nearly always: number of granules * 2; otherwise 1, then the number. */
static SELDOM uint8_t *put_granules(uint8_t *at, uint64_t bytes)
{
	if (bytes % GRANULE == 0)
		return vs_varint_put(at, (bytes >> GRANULE_SHIFT) << 1);
	*at++ = 1;
	return vs_varint_put(at, bytes);
}

static uint64_t get_granules(struct vs_cursor *payload)
{
	uint64_t value = vs_cursor_varint(payload);

	if (value == 1)
		return vs_cursor_varint(payload);
	return value & 1 ? vs_cursor_fail(payload) : (value >> 1) << GRANULE_SHIFT;
}

/* The same for a signed distance: zigzag first, its low bit kept apart from the granules. */
static SELDOM uint8_t *put_distance(uint8_t *at, uint64_t to, uint64_t from)
{
	int64_t distance = (int64_t)(to - from);

	if (distance % GRANULE == 0)
		return vs_varint_put(at, vs_zigzag(distance / GRANULE) << 1);
	*at++ = 1;
	return vs_varint_put(at, vs_zigzag(distance));
}

static uint64_t get_distance(struct vs_cursor *payload, uint64_t from)
{
	uint64_t value = vs_cursor_varint(payload);

	if (value == 1)
		return from + (uint64_t)vs_cursor_zigzag(payload);
	if (value & 1)
		return vs_cursor_fail(payload);
	return from + (uint64_t)vs_unzigzag(value >> 1) * GRANULE;
}

static SELDOM uint8_t *put_long(uint8_t *at, uint64_t value)
{
	return vs_varint_put(at, value);
}

/* One byte or two, nearly always. */
static inline uint8_t *put_short(uint8_t *at, uint64_t value)
{
	if (value < 0x80) {
		*at = (uint8_t)value;
		return at + 1;
	}
	return put_long(at, value);
}

static ALWAYS uint8_t *put_when(struct vs_codec *codec, const struct vramshim_event *event, uint8_t *at,
                                bool *ret_next)
{
	uint64_t skipped = event->sequence - codec->sequence - 1;
	uint64_t time = event->time_ns >> VS_TIME_SHIFT;
	/* The clock cannot step back within a thread, but a log may move to another processor's idea of it. */
	uint64_t passed = time > codec->time ? time - codec->time : 0;

	*ret_next = skipped == 0;
	if (skipped)
		at = put_long(at, skipped);
	codec->sequence = event->sequence;
	codec->time += passed;
	return put_short(at, passed);
}

static void get_when(struct vs_codec *codec, struct vs_cursor *payload, bool next, struct vramshim_event *event)
{
	uint64_t skipped = next ? 0 : vs_cursor_varint(payload);
	uint64_t passed = vs_cursor_varint(payload);
	const uint64_t latest = UINT64_MAX >> VS_TIME_SHIFT;

	if (skipped >= UINT64_MAX - codec->sequence || codec->time > latest || passed > latest - codec->time) {
		vs_cursor_fail(payload);
		return;
	}
	codec->sequence += skipped + 1;
	codec->time += passed;
	event->sequence = codec->sequence;
	event->time_ns = codec->time << VS_TIME_SHIFT;
}

static ALWAYS void remember(struct vs_codec *codec, const struct vramshim_event *event)
{
	unsigned block = slot_of(event->address);
	unsigned device = totals_slot(event->device);

	codec->followers[follower_slot(codec)] = event->stack;
	codec->stack_before = codec->stack;
	codec->stack = event->stack;
	codec->sizes[slot_of(event->stack)] = event->size;
	codec->blocks[block].address = event->address;
	codec->blocks[block].size = event->size;
	codec->address = event->address;
	codec->device = event->device;
	codec->totals[device].allocated = event->allocated;
	codec->totals[device].reserved = event->reserved;
}

static ALWAYS uint8_t *encode_compact(struct vs_codec *codec, const struct vramshim_event *event, uint8_t *at,
                                      uint8_t *ret_tag)
{
	bool is_free = event->type == VRAMSHIM_TORCH_FREE;
	unsigned block = slot_of(event->address), device = totals_slot(event->device);
	uint64_t expected = codec->totals[device].allocated + (is_free ? -event->size : event->size);
	uint64_t size = codec->sizes[slot_of(event->stack)];
	uint8_t tag = VS_TAG_COMPACT | (is_free ? VS_COMPACT_FREE : 0);
	bool next;

	at = put_when(codec, event, at + 1, &next);
	if (next)
		tag |= VS_COMPACT_NEXT;
	if (event->device == codec->device)
		tag |= VS_COMPACT_DEVICE;
	else
		at = put_long(at, vs_zigzag(event->device));
	if (event->stack == codec->followers[follower_slot(codec)])
		tag |= VS_COMPACT_STACK;
	else
		at = put_long(at, event->stack);
	if (event->address == codec->blocks[block].address) {
		tag |= VS_COMPACT_BLOCK;
		at = vs_varint_put(at, block);
		size = codec->blocks[block].size;
	} else {
		at = put_distance(at, event->address, codec->address);
	}
	if (event->size == size)
		tag |= VS_COMPACT_SIZE;
	else
		at = put_granules(at, event->size);
	if (event->allocated == expected && event->reserved == codec->totals[device].reserved) {
		tag |= VS_COMPACT_TOTALS;
	} else {
		at = put_distance(at, event->allocated, expected);
		at = put_distance(at, event->reserved, codec->totals[device].reserved);
	}
	remember(codec, event);
	*ret_tag = tag;
	return at;
}

static void decode_compact(struct vs_codec *codec, uint8_t tag, struct vs_cursor *payload,
                           struct vramshim_event *event)
{
	uint64_t size, expected;
	unsigned device;

	event->type = tag & VS_COMPACT_FREE ? VRAMSHIM_TORCH_FREE : VRAMSHIM_TORCH_ALLOC;
	get_when(codec, payload, tag & VS_COMPACT_NEXT, event);
	if (tag & VS_COMPACT_DEVICE)
		event->device = (int16_t)codec->device;
	else
		event->device = (int16_t)vs_unzigzag(vs_cursor_limited(payload, UINT16_MAX));
	if (tag & VS_COMPACT_STACK)
		event->stack = codec->followers[follower_slot(codec)];
	else
		event->stack = (uint32_t)vs_cursor_limited(payload, UINT32_MAX);
	if (tag & VS_COMPACT_BLOCK) {
		unsigned block = (unsigned)vs_cursor_limited(payload, (1 << VS_CODEC_BITS) - 1);

		event->address = codec->blocks[block].address;
		size = codec->blocks[block].size;
	} else {
		event->address = get_distance(payload, codec->address);
		size = codec->sizes[slot_of(event->stack)];
	}
	event->size = tag & VS_COMPACT_SIZE ? size : get_granules(payload);
	device = totals_slot(event->device);
	expected =
	    codec->totals[device].allocated + (event->type == VRAMSHIM_TORCH_FREE ? -event->size : event->size);
	event->allocated = expected;
	event->reserved = codec->totals[device].reserved;
	if (!(tag & VS_COMPACT_TOTALS)) {
		event->allocated = get_distance(payload, expected);
		event->reserved = get_distance(payload, event->reserved);
	}
	remember(codec, event);
}

static SELDOM uint8_t *encode_general(struct vs_codec *codec, const struct vramshim_event *event, uint8_t *at)
{
	uint16_t mask = 0;
	uint8_t *mask_at = ++at;
	bool next;

	mask |= event->memory ? FIELD_MEMORY : 0;
	mask |= event->device ? FIELD_DEVICE : 0;
	mask |= event->stack ? FIELD_STACK : 0;
	mask |= event->name ? FIELD_NAME : 0;
	mask |= event->result ? FIELD_RESULT : 0;
	mask |= event->address ? FIELD_ADDRESS : 0;
	mask |= event->handle ? FIELD_HANDLE : 0;
	mask |= event->size ? FIELD_SIZE : 0;
	mask |= event->allocated || event->reserved ? FIELD_TOTALS : 0;
	mask &= fields_of[event->type];

	at = put_when(codec, event, at + 2, &next);
	if (next) /* no room for a flag in the tag: a rare form need not be the shortest */
		mask |= FIELD_ALL + 1;
	mask_at[0] = (uint8_t)mask;
	mask_at[1] = (uint8_t)(mask >> 8);
	if (mask & FIELD_MEMORY)
		*at++ = (uint8_t)event->memory;
	if (mask & FIELD_DEVICE)
		at = vs_varint_put(at, vs_zigzag(event->device));
	if (mask & FIELD_STACK)
		at = vs_varint_put(at, event->stack);
	if (mask & FIELD_NAME)
		at = vs_varint_put(at, event->name);
	if (mask & FIELD_RESULT)
		at = vs_varint_put(at, vs_zigzag(event->result));
	if (mask & FIELD_ADDRESS)
		at = vs_varint_put(at, event->address);
	if (mask & FIELD_HANDLE)
		at = vs_varint_put(at, event->handle);
	if (mask & FIELD_SIZE)
		at = put_granules(at, event->size);
	if (mask & FIELD_TOTALS) {
		at = vs_varint_put(at, event->allocated);
		at = vs_varint_put(at, event->reserved);
	}
	return at;
}

static void decode_general(struct vs_codec *codec, uint8_t tag, struct vs_cursor *payload,
                           struct vramshim_event *event)
{
	const uint8_t *bytes = vs_cursor_bytes(payload, 2);
	unsigned mask = bytes ? (unsigned)bytes[0] | (unsigned)bytes[1] << 8 : 0;

	if (tag >= sizeof(fields_of) / sizeof(fields_of[0]) || !fields_of[tag] ||
	    (mask & ~(unsigned)(FIELD_ALL + 1) & ~(unsigned)fields_of[tag])) {
		vs_cursor_fail(payload);
		return;
	}
	event->type = tag;
	get_when(codec, payload, mask & (FIELD_ALL + 1), event);
	if (mask & FIELD_MEMORY)
		event->memory = (enum vramshim_memory)vs_cursor_limited(payload, VRAMSHIM_MEMORY_GRAPHS);
	if (mask & FIELD_DEVICE)
		event->device = (int16_t)vs_unzigzag(vs_cursor_limited(payload, UINT16_MAX));
	if (mask & FIELD_STACK)
		event->stack = (uint32_t)vs_cursor_limited(payload, UINT32_MAX);
	if (mask & FIELD_NAME)
		event->name = (uint32_t)vs_cursor_limited(payload, UINT32_MAX);
	if (mask & FIELD_RESULT)
		event->result = (int32_t)vs_unzigzag(vs_cursor_limited(payload, UINT32_MAX));
	if (mask & FIELD_ADDRESS)
		event->address = vs_cursor_varint(payload);
	if (mask & FIELD_HANDLE)
		event->handle = vs_cursor_varint(payload);
	if (mask & FIELD_SIZE)
		event->size = get_granules(payload);
	if (mask & FIELD_TOTALS) {
		event->allocated = vs_cursor_varint(payload);
		event->reserved = vs_cursor_varint(payload);
	}
}

uint8_t *vs_codec_encode(struct vs_codec *codec, const struct vramshim_event *event, uint8_t *at, uint8_t *ret_tag)
{
	if (event->type == VRAMSHIM_TORCH_ALLOC || event->type == VRAMSHIM_TORCH_FREE)
		return encode_compact(codec, event, at, ret_tag);
	*ret_tag = (uint8_t)event->type;
	return encode_general(codec, event, at);
}

int vs_codec_decode(struct vs_codec *codec, uint8_t tag, struct vs_cursor *payload, struct vramshim_event *ret_event)
{
	struct vramshim_event event = {0};

	if (tag & VS_TAG_COMPACT)
		decode_compact(codec, tag, payload, &event);
	else
		decode_general(codec, tag, payload, &event);
	if (payload->bad)
		return -EBADMSG;
	event.thread = codec->thread;
	*ret_event = event;
	return 0;
}
