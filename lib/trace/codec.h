/* SPDX-License-Identifier: MIT
 *
 * Events to bytes and back. What an event shares with its stream's recent past is left
 * out; encoder and decoder keep the same memory of that past. Each chunk
 * starts from an empty one, so that a chunk can be read by itself.
 */
#ifndef VS_TRACE_CODEC_H
#define VS_TRACE_CODEC_H

#include <base/varint.h>
#include <trace/format.h>

enum {
	/* Upper bound of a record: tag, mask (2), five 64-bit fields and sequence and time (10 each), four 32-bit
	 * ones (5 each), device (3), memory (1): 97 bytes. */
	VS_RECORD_MAX = 128,
	VS_CODEC_BITS = 9, /* 512 entries a table: 14 KiB in all, so that the job keeps most of its L1 cache */
};

struct vs_codec {
	uint64_t sequence;
	uint64_t time; /* in time units */
	uint64_t address;
	uint32_t thread;
	uint32_t stack, stack_before;
	int32_t device;
	struct {
		uint64_t allocated, reserved;
	} totals[VS_DEVICES + 1]; /* the last one for device numbers out of range */
	struct {
		uint64_t address, size;
	} blocks[1 << VS_CODEC_BITS];           /* by a hash of the address */
	uint64_t sizes[1 << VS_CODEC_BITS];     /* by a hash of the stack */
	uint32_t followers[1 << VS_CODEC_BITS]; /* by a hash of the last two stacks: the stack that came next */
};

void vs_codec_reset(struct vs_codec *codec, const struct vs_chunk_header *chunk);

/* Write the payload of `event` from `at` + 1 on (VS_RECORD_MAX bytes must be free) and return its end. The tag, to be
 * stored at `at`, goes to *ret_tag. event->sequence must exceed the codec's; the time is event->time_ns. */
uint8_t *vs_codec_encode(struct vs_codec *codec, const struct vramshim_event *event, uint8_t *at, uint8_t *ret_tag);

/* Decode the payload after `tag`. -EBADMSG if it is cut or makes no sense; the codec is then of no more use. */
int vs_codec_decode(struct vs_codec *codec, uint8_t tag, struct vs_cursor *payload, struct vramshim_event *ret_event);

#endif
