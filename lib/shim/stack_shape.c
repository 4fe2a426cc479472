/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "shim/stack_shape.h"

/* Mapped at the first use, whole; what is not touched takes no memory. The loser of a race gives its own back. */
static void *mapped(_Atomic(void *) *where, size_t size)
{
	void *memory = atomic_load_explicit(where, memory_order_acquire), *other = NULL;

	if (memory)
		return memory;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(where, &other, memory))
		return memory;
	munmap(memory, size);
	return other;
}

static _Atomic(struct vs_shape *) *place(struct vs_shapes *shapes, uint32_t id)
{
	_Atomic(struct vs_shape *) *all = mapped(&shapes->by_id, (VS_MAX_STACKS + 1) * sizeof(*all));

	return all && id <= VS_MAX_STACKS ? &all[id] : NULL;
}

struct vs_shape *vs_shape_of(struct vs_shapes *shapes, uint32_t id)
{
	_Atomic(struct vs_shape *) *at = place(shapes, id);

	/* Acquire: pairs with vs_shape_add(). */
	return at ? atomic_load_explicit(at, memory_order_acquire) : NULL;
}

/* A row of words under way. */
struct row {
	uint64_t *words;
	uint16_t *places;
	uint32_t count;
};

static void put(struct row *row, uint64_t word, uint64_t place)
{
	row->words[row->count] = word;
	row->places[row->count++] = (uint16_t)(place / sizeof(uint64_t));
}

static uint32_t filled_up(uint32_t count)
{
	return (count + VS_SHAPE_TURN - 1) / VS_SHAPE_TURN * VS_SHAPE_TURN;
}

static void fill_up(struct row *row)
{
	uint32_t last = row->count - 1;

	while (row->count % VS_SHAPE_TURN)
		put(row, row->words[last], row->places[last] * sizeof(uint64_t));
}

struct vs_shape *vs_shape_add(struct vs_shapes *shapes, const struct vs_native *native, uint64_t record, uint32_t id,
                              struct vs_chain python)
{
	_Atomic(struct vs_shape *) *latest = place(shapes, id);
	struct vs_shape *before = latest ? atomic_load_explicit(latest, memory_order_acquire) : NULL, *shape;
	uint32_t variants = before ? before->variants : 0, count = native->depth, saved_count = native->saved_count;
	uint32_t innermost = count - 1, words;
	uint8_t *memory = mapped(&shapes->memory, VS_SHAPES_SIZE);
	struct row row;
	uint64_t size, at;

	if (!latest || !count || !memory || !id || variants == VS_SHAPE_VARIANTS ||
	    (native->sps[0] - record) / sizeof(uint64_t) > UINT16_MAX)
		return NULL;
	saved_count += native->rbp_matters[innermost] ? 1 : 0;
	words = filled_up(count) + filled_up(saved_count);
	size = sizeof(*shape) + words * (sizeof(*row.words) + sizeof(*row.places));
	if (atomic_load_explicit(&shapes->used, memory_order_relaxed) + size > VS_SHAPES_SIZE)
		return NULL;
	at = atomic_fetch_add_explicit(&shapes->used, size, memory_order_relaxed);
	if (at + size > VS_SHAPES_SIZE)
		return NULL;
	shape = (struct vs_shape *)(memory + at);
	*shape = (struct vs_shape){.id = id,
	                           .variants = variants + 1,
	                           .python = python,
	                           .returns = (uint16_t)filled_up(count),
	                           .saved = (uint16_t)filled_up(saved_count),
	                           .span = (uint32_t)(native->sps[0] - record)};
	row = (struct row){shape->words, (uint16_t *)(shape->words + words), 0};
	for (uint32_t i = count; i-- > 0;)
		put(&row, native->pcs[i], native->sps[i] - 8 - record);
	fill_up(&row);
	for (uint32_t i = 0; i < native->saved_count; i++)
		put(&row, native->saved[i].value - record, native->saved[i].slot - record);
	if (native->rbp_matters[innermost])
		put(&row, native->bps[innermost] - record, 0);
	fill_up(&row);
	/* Release: whoever finds it finds it whole. */
	atomic_store_explicit(latest, shape, memory_order_release);
	return shape;
}
