/* SPDX-License-Identifier: MIT
 *
 * Growable memory for the tools. Uses malloc: never inside a job.
 */
#ifndef VS_BASE_BUFFER_H
#define VS_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow at the end. Zero-initialise; release with vs_buffer_free(). */
struct vs_buffer {
	uint8_t *data;
	size_t size;
	size_t capacity;
};

/* Make room for `size` more bytes. -ENOMEM leaves the buffer as it was. */
int vs_buffer_reserve(struct vs_buffer *buffer, size_t size);
int vs_buffer_append(struct vs_buffer *buffer, const void *data, size_t size);
/* printf at the end; a NUL follows the data but is not counted in `size`. -ENOMEM, -EINVAL for a bad format. */
int vs_buffer_printf(struct vs_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vs_buffer_free(struct vs_buffer *buffer);

/* Make `*items` (of `*capacity` elements of `element` bytes) hold `count` or more, at least doubling so that growth
 * one by one is linear in all. -ENOMEM leaves both as they were. `items` is the address of the pointer. */
int vs_grow(void *items, size_t *capacity, size_t count, size_t element);

/* Small objects that are all freed together. Zero-initialise; release with vs_heap_free(). */
struct vs_heap {
	struct vs_heap_block *blocks;
	uint8_t *at;
	size_t left;
	size_t total; /* bytes handed out */
};

/* Zeroed memory, aligned for any object; NULL when memory is out. */
void *vs_heap_take(struct vs_heap *heap, size_t size);
/* A copy of `size` bytes with a NUL after it. */
char *vs_heap_text(struct vs_heap *heap, const void *text, size_t size);
void vs_heap_free(struct vs_heap *heap);

#endif
