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

/* Words from the slot before. */
static uint64_t step(const struct vs_native *native, uint32_t entry, uint64_t record)
{
	uint64_t before = entry + 1 < native->depth ? native->sps[entry + 1] - 8 : record;

	return (native->sps[entry] - 8 - before) / 8;
}

struct vs_shape *vs_shape_add(struct vs_shapes *shapes, const struct vs_native *native, uint64_t record, uint32_t id,
                              struct vs_chain python)
{
	_Atomic(struct vs_shape *) *latest = place(shapes, id);
	struct vs_shape *before = latest ? atomic_load_explicit(latest, memory_order_acquire) : NULL, *shape;
	uint32_t variants = before ? before->variants : 0, count = native->depth, saved_count = native->saved_count;
	uint32_t innermost = count - 1;
	uint8_t *memory = mapped(&shapes->memory, VS_SHAPES_SIZE);
	struct vs_shape_saved *saved;
	uint64_t size, at;

	if (!latest || !count || !memory || !id || variants == VS_SHAPE_VARIANTS)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		if (native->pcs[i] >> (64 - VS_SHAPE_STEP_BITS) || step(native, i, record) >> VS_SHAPE_STEP_BITS)
			return NULL;
	saved_count += native->rbp_matters[innermost] ? 1 : 0;
	size = sizeof(*shape) + count * sizeof(*shape->frames) + saved_count * sizeof(*saved);
	if (atomic_load_explicit(&shapes->used, memory_order_relaxed) + size > VS_SHAPES_SIZE)
		return NULL;
	at = atomic_fetch_add_explicit(&shapes->used, size, memory_order_relaxed);
	if (at + size > VS_SHAPES_SIZE)
		return NULL;
	shape = (struct vs_shape *)(memory + at);
	*shape = (struct vs_shape){.id = id,
	                           .variants = variants + 1,
	                           .python = python,
	                           .count = count,
	                           .saved_count = saved_count,
	                           .span = native->sps[0] - record};
	saved = (struct vs_shape_saved *)(shape->frames + count);
	for (uint32_t i = 0; i < count; i++)
		shape->frames[i] =
		    native->pcs[innermost - i] << VS_SHAPE_STEP_BITS | step(native, innermost - i, record);
	for (uint32_t i = 0; i < native->saved_count; i++)
		saved[i] = (struct vs_shape_saved){native->saved[i].slot - record, native->saved[i].value - record};
	if (native->rbp_matters[innermost])
		saved[saved_count - 1] = (struct vs_shape_saved){0, native->bps[innermost] - record};
	/* Release: whoever finds it finds it whole. */
	atomic_store_explicit(latest, shape, memory_order_release);
	return shape;
}
