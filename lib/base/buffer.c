/* SPDX-License-Identifier: MIT */
#include <base/buffer.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP_BLOCK = 64 << 10 }; /* bytes asked of malloc at a time: few calls, little waste */

struct vs_heap_block {
	struct vs_heap_block *next;
	max_align_t data[];
};

int vs_grow(void *items, size_t *capacity, size_t count, size_t element)
{
	size_t wanted = *capacity < 8 ? 8 : *capacity;
	void *old, *moved;

	if (count <= *capacity)
		return 0;
	while (wanted < count) {
		if (wanted > SIZE_MAX / 2)
			return -ENOMEM;
		wanted *= 2;
	}
	if (wanted > SIZE_MAX / element)
		return -ENOMEM;
	memcpy(&old, items, sizeof(old)); /* a `void **` may not alias the caller's typed pointer */
	moved = realloc(old, wanted * element);
	if (!moved)
		return -ENOMEM;
	memcpy(items, &moved, sizeof(moved));
	*capacity = wanted;
	return 0;
}

int vs_buffer_reserve(struct vs_buffer *buffer, size_t size)
{
	if (size > SIZE_MAX - buffer->size)
		return -ENOMEM;
	return vs_grow(&buffer->data, &buffer->capacity, buffer->size + size, 1);
}

int vs_buffer_append(struct vs_buffer *buffer, const void *data, size_t size)
{
	int r = vs_buffer_reserve(buffer, size);

	if (r < 0)
		return r;
	if (size)
		memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
	return 0;
}

int vs_buffer_printf(struct vs_buffer *buffer, const char *format, ...)
{
	va_list arguments;
	size_t room = 128; /* most lines fit at once */

	for (;;) {
		int r = vs_buffer_reserve(buffer, room);
		int length;

		if (r < 0)
			return r;
		va_start(arguments, format);
		length = vsnprintf((char *)buffer->data + buffer->size, room, format, arguments);
		va_end(arguments);
		if (length < 0)
			return -EINVAL;
		if ((size_t)length < room) {
			buffer->size += (size_t)length;
			return 0;
		}
		room = (size_t)length + 1;
	}
}

void vs_buffer_free(struct vs_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct vs_buffer){0};
}

void *vs_heap_take(struct vs_heap *heap, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	size_t rounded;
	void *taken;

	if (size > SIZE_MAX - HEAP_BLOCK)
		return NULL;
	rounded = (size ? size + align - 1 : align) / align * align; /* NULL means failure, so nothing is something */
	if (rounded > heap->left) {
		/* A large object gets a block of its own, and the rest of the current one stays in use. */
		bool own = rounded > HEAP_BLOCK / 4;
		size_t room = own ? rounded : HEAP_BLOCK;
		struct vs_heap_block *block = calloc(1, sizeof(*block) + room);

		if (!block)
			return NULL;
		block->next = heap->blocks;
		heap->blocks = block;
		if (own) {
			heap->total += rounded;
			return block->data;
		}
		heap->at = (uint8_t *)block->data;
		heap->left = room;
	}
	taken = heap->at;
	heap->at += rounded;
	heap->left -= rounded;
	heap->total += rounded;
	return taken;
}

char *vs_heap_text(struct vs_heap *heap, const void *text, size_t size)
{
	char *copy = size < SIZE_MAX ? vs_heap_take(heap, size + 1) : NULL;

	if (copy && size)
		memcpy(copy, text, size);
	return copy;
}

void vs_heap_free(struct vs_heap *heap)
{
	while (heap->blocks) {
		struct vs_heap_block *block = heap->blocks;

		heap->blocks = block->next;
		free(block);
	}
	*heap = (struct vs_heap){0};
}
