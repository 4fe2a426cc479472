/* SPDX-License-Identifier: MIT */
#include "ledger/resolve.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* One allocation. It is alive while somebody holds it; it stays in the table as long as it may come back to life. */
struct vs_piece_state {
	struct vramshim_event event; /* as allocated; `device` as it turned out */
	uint32_t holder;             /* MAPPED: the physical memory; POOL: the pool; NONE */
	int32_t refs;                /* allocations, retains less frees: below 0 where it was freed too often */
	uint32_t users;              /* alive ones whose holder it is */
	uint32_t links;              /* ... dead or alive */
	uint32_t pending;            /* frees of which it is not known yet whether they will be refused */
	bool used;                   /* this place is */
	bool shown;                  /* the world has been told that it is alive */
	bool replaced;               /* another one has its key; what refers to it is not settled */
};

/* The latest free of a thread, until the thread does something else: a refusal comes next or not at all. */
struct vs_attempt {
	uint64_t sequence;
	uint64_t address;
	uint32_t *pieces;
	size_t count, capacity;
};

struct run { /* one call of vs_resolve() */
	struct vs_resolver *resolver;
	const struct vramshim_event *event;
	vs_resolved *effect;
	void *user;
	int error;
};

void vs_resolver_release(struct vs_resolver *resolver)
{
	for (size_t i = 0; i < resolver->attempt_count; i++)
		free(resolver->attempts[i].pieces);
	free(resolver->attempts);
	free(resolver->pieces);
	free(resolver->unused);
	vs_u64map_release(&resolver->map);
	vs_u64map_release(&resolver->threads);
	*resolver = (struct vs_resolver){0};
}

size_t vs_resolver_size(const struct vs_resolver *resolver)
{
	return resolver->map.used;
}

/* Handles and addresses are different worlds with the same numbers. Linear memory is one world, whoever made it:
 * cudaFree() takes managed memory and a mapped buffer of another's, cudaFreeAsync() and cudaFree() each other's;
 * arrays have the numbers of host addresses, and are freed alike whether they are ours or mapped. */
static unsigned world_of(enum vramshim_memory memory)
{
	switch (memory) {
	case VRAMSHIM_MEMORY_MANAGED:
	case VRAMSHIM_MEMORY_POOL:
	case VRAMSHIM_MEMORY_FOREIGN:
	case VRAMSHIM_MEMORY_ARRAY:
		return VRAMSHIM_MEMORY_DEVICE;
	default:
		return memory;
	}
}

/* Addresses have 57 bits at the most; what a job passes by mistake may have more, so a find compares as well. */
static uint64_t key_of(enum vramshim_memory memory, uint64_t address)
{
	return address ^ ((uint64_t)world_of(memory) << 58);
}

static uint32_t find(const struct vs_resolver *resolver, enum vramshim_memory memory, uint64_t address)
{
	uint32_t index;

	if (!vs_u64map_get(&resolver->map, key_of(memory, address), &index) ||
	    resolver->pieces[index].event.address != address ||
	    world_of(resolver->pieces[index].event.memory) != world_of(memory))
		return NONE;
	return index;
}

/* Both are there as long as something of theirs is alive. */
static bool is_holder(const struct vs_piece_state *piece)
{
	return piece->event.memory == VRAMSHIM_MEMORY_PHYSICAL || piece->event.memory == VRAMSHIM_MEMORY_HELD;
}

static bool is_alive(const struct vs_piece_state *piece)
{
	return piece->refs > 0 || (is_holder(piece) && piece->users);
}

static void tell(struct run *run, const struct vs_piece_state *piece, enum vramshim_event_type type)
{
	struct vramshim_event event = piece->event;
	int error;

	event.type = type;
	event.sequence = run->event->sequence;
	event.time_ns = run->event->time_ns;
	event.thread = run->event->thread;
	error = run->effect(run->user, &event);
	if (!run->error)
		run->error = error;
	/* Of a pool that could not be asked it is known that it has this. */
	if (piece->event.memory == VRAMSHIM_MEMORY_POOL && piece->holder == NONE) {
		event.memory = VRAMSHIM_MEMORY_HELD;
		error = run->effect(run->user, &event);
		if (!run->error)
			run->error = error;
	}
}

static void remove_if_done(struct vs_resolver *resolver, uint32_t index)
{
	struct vs_piece_state *piece = &resolver->pieces[index];
	uint32_t holder = piece->holder, unused;

	if (is_alive(piece) || piece->pending || piece->links)
		return;
	if (!piece->replaced)
		vs_u64map_take(&resolver->map, key_of(piece->event.memory, piece->event.address), &unused);
	piece->used = false;
	resolver->unused[resolver->unused_count++] = index;
	if (holder != NONE) {
		resolver->pieces[holder].links--;
		remove_if_done(resolver, holder);
	}
}

/* After a change of what keeps a piece alive. */
static void update(struct run *run, uint32_t index)
{
	struct vs_piece_state *piece = &run->resolver->pieces[index];
	bool alive = is_alive(piece);

	if (alive == piece->shown)
		return;
	piece->shown = alive;
	if (piece->holder != NONE) {
		run->resolver->pieces[piece->holder].users += alive ? 1 : -1u;
		update(run, piece->holder);
	}
	tell(run, piece, alive ? VRAMSHIM_CUDA_ALLOC : VRAMSHIM_CUDA_FREE);
}

/* A piece is gone for certain. */
static void drop(struct run *run, uint32_t index)
{
	run->resolver->pieces[index].refs = 0;
	update(run, index);
	remove_if_done(run->resolver, index);
}

static uint32_t add(struct run *run, const struct vramshim_event *event, uint32_t holder)
{
	struct vs_resolver *resolver = run->resolver;
	uint32_t index = find(resolver, event->memory, event->address);

	if (index != NONE) {
		/* Its free was lost, or is not settled, or that of the last mapping is not: in any case that is
		 * another allocation. */
		drop(run, index);
		resolver->pieces[index].replaced = resolver->pieces[index].used;
	}
	if (resolver->unused_count) {
		index = resolver->unused[resolver->unused_count - 1];
	} else {
		/* As many may become unused, so that giving one back never fails. */
		if (resolver->count == NONE ||
		    vs_grow(&resolver->pieces, &resolver->capacity, resolver->count + 1, sizeof(*resolver->pieces)) ||
		    vs_grow(&resolver->unused, &resolver->unused_capacity, resolver->count + 1,
		            sizeof(*resolver->unused))) {
			run->error = -ENOMEM;
			return NONE;
		}
		index = (uint32_t)resolver->count;
	}
	run->error = vs_u64map_put(&resolver->map, key_of(event->memory, event->address), index);
	if (run->error) {
		run->error = run->error == -EINVAL ? 0 : run->error; /* damage: no address has such a number */
		return NONE;
	}
	if (resolver->unused_count)
		resolver->unused_count--;
	else
		resolver->count++;
	resolver->pieces[index] = (struct vs_piece_state){.event = *event, .holder = holder, .refs = 1, .used = true};
	if (holder != NONE)
		resolver->pieces[holder].links++;
	update(run, index);
	return index;
}

static struct vs_attempt *attempt_of(struct run *run, uint32_t thread)
{
	struct vs_resolver *resolver = run->resolver;
	uint32_t index;

	/* Thread 0 is none the kernel has, and no key. */
	if (vs_u64map_get(&resolver->threads, (uint64_t)thread + 1, &index))
		return &resolver->attempts[index];
	if (vs_grow(&resolver->attempts, &resolver->attempt_capacity, resolver->attempt_count + 1,
	            sizeof(*resolver->attempts)) ||
	    vs_u64map_put(&resolver->threads, (uint64_t)thread + 1, (uint32_t)resolver->attempt_count)) {
		run->error = -ENOMEM;
		return NULL;
	}
	resolver->attempts[resolver->attempt_count] = (struct vs_attempt){0};
	return &resolver->attempts[resolver->attempt_count++];
}

/* The thread goes on: its latest free was not refused. Or it was: then each piece has one reference more again,
 * unless another allocation has taken its place since. */
static void settle(struct run *run, struct vs_attempt *attempt, bool refused)
{
	for (size_t i = 0; i < attempt->count; i++) {
		struct vs_piece_state *piece = &run->resolver->pieces[attempt->pieces[i]];

		if (!piece->used || piece->event.sequence > attempt->sequence)
			continue;
		if (piece->pending)
			piece->pending--;
		if (refused && !piece->replaced) {
			piece->refs++;
			update(run, attempt->pieces[i]);
		}
		remove_if_done(run->resolver, attempt->pieces[i]);
	}
	attempt->count = 0;
}

static uint64_t take(struct run *run, struct vs_attempt *attempt, uint32_t index)
{
	struct vs_piece_state *piece = &run->resolver->pieces[index];

	if (vs_grow(&attempt->pieces, &attempt->capacity, attempt->count + 1, sizeof(*attempt->pieces))) {
		run->error = -ENOMEM;
		return 0;
	}
	attempt->pieces[attempt->count++] = index;
	piece->pending++;
	piece->refs--;
	update(run, index);
	return piece->event.size;
}

/* What is allocated in a context goes with it; in a device's primary one, that is also what its pools hold. */
static bool goes_with(const struct vs_piece_state *piece, const struct vramshim_event *context, bool primary)
{
	switch (piece->event.memory) {
	case VRAMSHIM_MEMORY_DEVICE:
	case VRAMSHIM_MEMORY_MANAGED:
	case VRAMSHIM_MEMORY_PINNED:
	case VRAMSHIM_MEMORY_ARRAY:
	case VRAMSHIM_MEMORY_FOREIGN:
	case VRAMSHIM_MEMORY_CODE:
		if (!primary)
			return piece->event.handle == context->address;
		return !piece->event.handle && piece->event.device == context->device;
	case VRAMSHIM_MEMORY_POOL:
	case VRAMSHIM_MEMORY_HELD:
	case VRAMSHIM_MEMORY_GRAPHS:
		return primary && piece->event.device == context->device;
	default:
		return false;
	}
}

static void end_context(struct run *run)
{
	/* The recorder names primary contexts by their device. */
	bool primary = run->event->device >= 0 && run->event->address == (uint64_t)run->event->device + 1;
	uint32_t own = find(run->resolver, VRAMSHIM_MEMORY_CONTEXT, run->event->address);

	for (uint32_t i = 0; i < run->resolver->count; i++)
		if (run->resolver->pieces[i].used && goes_with(&run->resolver->pieces[i], run->event, primary))
			drop(run, i);
	if (own != NONE)
		drop(run, own);
}

static void on_free(struct run *run)
{
	const struct vramshim_event *event = run->event;
	struct vs_attempt *attempt = attempt_of(run, event->thread);
	uint32_t index;
	uint64_t done;

	if (!attempt)
		return;
	if (event->memory == VRAMSHIM_MEMORY_CONTEXT) {
		end_context(run);
		return;
	}
	settle(run, attempt, false);
	attempt->sequence = event->sequence;
	attempt->address = event->address;
	/* Settling may have removed it. */
	index = find(run->resolver, event->memory, event->address);
	if (index == NONE)
		return;
	if (event->memory == VRAMSHIM_MEMORY_HELD) { /* the end of a pool, written down afterwards */
		drop(run, index);
		return;
	}
	done = take(run, attempt, index);
	/* One unmap may cover several mappings that follow each other. */
	while (event->memory == VRAMSHIM_MEMORY_MAPPED && done && done < event->size && !run->error) {
		index = find(run->resolver, event->memory, event->address + done);
		if (index == NONE)
			break;
		done += take(run, attempt, index);
	}
}

static void on_held(struct run *run)
{
	uint32_t index = find(run->resolver, run->event->memory, run->event->address);
	struct vs_piece_state *piece;

	if (index == NONE) {
		add(run, run->event, NONE);
		return;
	}
	piece = &run->resolver->pieces[index];
	if (piece->shown)
		tell(run, piece, VRAMSHIM_CUDA_FREE);
	piece->event = *run->event;
	piece->refs = 1;
	if (piece->shown)
		tell(run, piece, VRAMSHIM_CUDA_ALLOC);
	else
		update(run, index);
}

static void on_alloc(struct run *run)
{
	struct vramshim_event event = *run->event;
	uint32_t index, holder = NONE;

	if (!event.address) /* a request for nothing */
		return;
	if (event.memory == VRAMSHIM_MEMORY_HELD || event.memory == VRAMSHIM_MEMORY_GRAPHS) {
		on_held(run);
		return;
	}
	if (event.memory != VRAMSHIM_MEMORY_CONTEXT) {
		struct vs_attempt *attempt = attempt_of(run, event.thread);

		if (!attempt)
			return;
		settle(run, attempt, false);
	}
	if (event.memory == VRAMSHIM_MEMORY_PHYSICAL && !event.size) { /* one more reference, ours or imported */
		index = find(run->resolver, event.memory, event.address);
		if (index != NONE && is_alive(&run->resolver->pieces[index])) {
			run->resolver->pieces[index].refs++;
			return;
		}
	} else if (event.memory == VRAMSHIM_MEMORY_MAPPED) {
		holder = find(run->resolver, VRAMSHIM_MEMORY_PHYSICAL, event.handle);
		if (holder != NONE)
			event.device = run->resolver->pieces[holder].event.device;
	} else if (event.memory == VRAMSHIM_MEMORY_POOL && event.handle) {
		holder = find(run->resolver, VRAMSHIM_MEMORY_HELD, event.handle);
		if (holder == NONE) {
			struct vramshim_event held = event;

			held.memory = VRAMSHIM_MEMORY_HELD;
			held.address = event.handle;
			held.size = 0; /* it is asked next */
			holder = add(run, &held, NONE);
			if (holder == NONE)
				return;
		}
	}
	add(run, &event, holder);
}

static void on_fail(struct run *run)
{
	struct vs_attempt *attempt = attempt_of(run, run->event->thread);

	if (attempt && run->event->address && attempt->address == run->event->address)
		settle(run, attempt, true);
}

int vs_resolve(struct vs_resolver *resolver, const struct vramshim_event *event, vs_resolved *effect, void *user)
{
	struct run run = {resolver, event, effect, user, 0};

	switch (event->type) {
	case VRAMSHIM_CUDA_ALLOC:
		on_alloc(&run);
		break;
	case VRAMSHIM_CUDA_FREE:
		on_free(&run);
		break;
	case VRAMSHIM_CUDA_FAIL:
		on_fail(&run);
		break;
	default:
		break;
	}
	return run.error;
}
