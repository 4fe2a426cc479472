/* SPDX-License-Identifier: MIT
 *
 * A program under other settings, or on another card.
 */
#include "caching/program.h"

#include "base/space.h"

#include <string.h>

/* Only the order of addresses matters. New segments go below those of the start, as the device's policy is top-down;
 * the reserved ranges of expandable segments are apart, as they are far larger than any hole. */
#define PLAIN_START    (UINT64_C(1) << 32)
#define PLAIN_END      (UINT64_C(1) << 47)
#define RESERVED_START (UINT64_C(1) << 48)
#define RESERVED_SIZE  (UINT64_C(1) << 52)

struct card {
	struct vs_space space;
	struct vs_space reservations; /* for expandable segments: from the top down as well */
	uint64_t used, capacity;
	uint64_t start_low, start_high; /* addresses of the segments at the start: not the space's */
};

struct run {
	const struct vs_replay_program *program;
	struct vs_replay_outcome *outcome;
	struct vs_caching *caching;
	struct card card;
	struct vs_caching_block **blocks; /* by id */
	uint64_t *tickets;                /* by id; 0: none */
	struct outside {
		uint64_t address, size;
	} * outside;
	uint32_t *pools; /* the model's, by the program's index */
};

static uint64_t round_up(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

static int card_take(struct card *card, uint64_t size, uint64_t *ret_address)
{
	uint64_t bytes = round_up(size, VS_GRANULE);
	int r;

	if (bytes < size || bytes > card->capacity || card->used > card->capacity - bytes)
		return -ENOMEM;
	r = vs_space_take(&card->space, bytes, ret_address);
	if (r == 0)
		card->used += bytes;
	return r;
}

static void card_give(struct card *card, uint64_t address, uint64_t size)
{
	uint64_t given;

	card->used -= round_up(size, VS_GRANULE);
	if (address < card->start_low || address >= card->start_high)
		vs_space_give(&card->space, address, &given);
}

static int card_allocate(void *context, uint64_t size, uint64_t *ret_address)
{
	return card_take(context, size, ret_address);
}

static void card_release(void *context, uint64_t address, uint64_t size)
{
	card_give(context, address, size);
}

static int card_reserve(void *context, uint64_t size, uint64_t *ret_address)
{
	struct card *card = context;

	return vs_space_take(&card->reservations, size, ret_address);
}

static void card_unreserve(void *context, uint64_t address, uint64_t size)
{
	struct card *card = context;
	uint64_t given;

	(void)size;
	/* A range of the start is not in the space: -ENOENT, which is as well. */
	vs_space_give(&card->reservations, address, &given);
}

static int card_map(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	struct card *card = context;

	(void)address;
	(void)page;
	if (size > card->capacity || card->used > card->capacity - size)
		return -ENOMEM;
	card->used += size;
	return 0;
}

static void card_unmap(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	struct card *card = context;

	(void)address;
	(void)page;
	card->used -= size;
}

static struct vs_caching_device card_device(struct card *card, const struct vs_replay_card *about)
{
	return (struct vs_caching_device){
	    .context = card,
	    .total = about->total,
	    .allocate = card_allocate,
	    .release = card_release,
	    .reserve = card_reserve,
	    .unreserve = card_unreserve,
	    .map = card_map,
	    .unmap = card_unmap,
	};
}

static bool is_live(const struct vs_caching_piece *piece)
{
	return piece->state == VS_PIECE_ALLOCATED || piece->state == VS_PIECE_PENDING;
}

/* The segments as they were: with the same kind of segments, the start is the recording's own. */
static int load_as_recorded(struct run *run)
{
	const struct vs_initial *initial = &run->program->initial;
	uint32_t id = 0;

	for (size_t i = 0; i < initial->count; i++) {
		struct vs_caching_segment segment = initial->segments[i];
		uint64_t end = initial->about[i].address + initial->about[i].size;
		uint16_t index;
		int r;

		r = vs_program_pool((struct vs_replay_program *)(uintptr_t)run->program, initial->about[i].pool,
		                    &index);
		if (r < 0)
			return r;
		segment.pool = run->pools[index];
		r = vs_caching_load(run->caching, &segment);
		if (r < 0)
			return r;
		for (size_t j = 0; j < segment.piece_count; j++) {
			if (!is_live(&segment.pieces[j]))
				continue;
			run->blocks[id] = segment.pieces[j].block;
			run->tickets[id++] =
			    segment.pieces[j].state == VS_PIECE_PENDING ? segment.pieces[j].ticket : 0;
		}
		if (segment.expandable)
			continue;
		if (initial->about[i].address < run->card.start_low)
			run->card.start_low = initial->about[i].address;
		if (end > run->card.start_high)
			run->card.start_high = end;
	}
	run->card.used += vs_caching_stats(run->caching)->reserved;
	return 0;
}

/* Other settings would have built other segments: ask for the live blocks again, in the order of their addresses. */
static int load_anew(struct run *run)
{
	const struct vs_initial *initial = &run->program->initial;
	uint32_t id = 0;

	for (size_t i = 0; i < initial->count; i++) {
		uint16_t index;
		int r;

		r = vs_program_pool((struct vs_replay_program *)(uintptr_t)run->program, initial->about[i].pool,
		                    &index);
		if (r < 0)
			return r;
		for (size_t j = 0; j < initial->segments[i].piece_count; j++) {
			const struct vs_caching_piece *piece = &initial->segments[i].pieces[j];
			struct vs_caching_request request = {
			    .size = piece->size, .stream = initial->segments[i].stream, .pool = run->pools[index]};

			if (!is_live(piece))
				continue;
			r = vs_caching_malloc(run->caching, &request, &run->blocks[id]);
			if (r < 0)
				return r;
			if (piece->state == VS_PIECE_PENDING)
				run->tickets[id] = vs_caching_defer(run->caching, run->blocks[id]);
			id++;
		}
	}
	return 0;
}

static void note_refusal(struct run *run, const struct vs_op *op, bool stop)
{
	struct vs_replay_outcome *outcome = run->outcome;
	const struct vs_caching_stats *stats = vs_caching_stats(run->caching);
	uint64_t releasable;

	outcome->stopped |= stop;
	outcome->last_refused = op->event;
	if (outcome->refused)
		return;
	outcome->refused = true;
	outcome->refused_event = op->event;
	outcome->refused_size = op->size;
	outcome->refused_allocated = stats->allocated;
	outcome->refused_reserved = stats->reserved;
	vs_caching_free_bytes(run->caching, &releasable, &outcome->refused_pinned, &outcome->refused_largest_free);
}

static void do_request(struct run *run, const struct vs_op *op)
{
	struct vs_caching_request request = {.size = op->size, .stream = op->stream, .pool = run->pools[op->pool]};
	struct vs_caching_block *block;

	if (vs_caching_malloc(run->caching, &request, &block) < 0) {
		note_refusal(run, op, op->kind == VS_OP_MALLOC);
		return;
	}
	if (op->kind == VS_OP_MALLOC) {
		run->blocks[op->id] = block;
		return;
	}
	/* The recorded program went on without it, so it cannot be kept. */
	run->outcome->served++;
	vs_caching_free(run->caching, block);
}

static void do_outside(struct run *run, const struct vs_op *op)
{
	struct outside *outside = &run->outside[op->id];

	if (op->kind == VS_OP_OUTSIDE_FREE) {
		if (outside->size)
			card_give(&run->card, outside->address, outside->size);
		outside->size = 0;
		return;
	}
	/* Where a library is refused, the job ends as surely as by a refused tensor. */
	if (card_take(&run->card, op->size, &outside->address) < 0)
		note_refusal(run, op, true);
	else
		outside->size = op->size;
}

static void do_op(struct run *run, const struct vs_op *op)
{
	switch ((enum vs_op_kind)op->kind) {
	case VS_OP_MALLOC:
	case VS_OP_REFUSED:
		do_request(run, op);
		break;
	case VS_OP_FREE:
		if (run->blocks[op->id])
			vs_caching_free(run->caching, run->blocks[op->id]);
		run->blocks[op->id] = NULL;
		break;
	case VS_OP_DEFER:
		if (run->blocks[op->id])
			run->tickets[op->id] = vs_caching_defer(run->caching, run->blocks[op->id]);
		break;
	case VS_OP_COMPLETE:
		if (run->blocks[op->id] && run->tickets[op->id])
			vs_caching_complete(run->caching, run->blocks[op->id], run->tickets[op->id]);
		run->blocks[op->id] = NULL;
		break;
	case VS_OP_EMPTY_CACHE:
		vs_caching_empty_cache(run->caching);
		break;
	case VS_OP_POOL_FREEABLE:
		vs_caching_pool_freeable(run->caching, run->pools[op->pool]);
		break;
	case VS_OP_OUTSIDE_ALLOC:
	case VS_OP_OUTSIDE_FREE:
		do_outside(run, op);
		break;
	}
}

static int open_run(struct run *run, const struct vs_caching_settings *settings, const struct vs_replay_card *card)
{
	const struct vs_replay_program *program = run->program;
	struct vs_caching_device device = card_device(&run->card, card);
	bool same_kind = settings->expandable_segments == program->settings.expandable_segments &&
	                 settings->large_segment_size == program->settings.large_segment_size;
	int r;

	vs_space_init(&run->card.space, PLAIN_START, PLAIN_END - PLAIN_START);
	run->card.capacity = card->total > card->outside ? card->total - card->outside : 0;
	vs_space_init(&run->card.reservations, RESERVED_START, RESERVED_SIZE);
	run->card.start_low = UINT64_MAX;
	run->blocks = calloc(program->blocks + 1U, sizeof(struct vs_caching_block *));
	run->tickets = calloc(program->blocks + 1U, sizeof(*run->tickets));
	run->outside = calloc(program->outside + 1U, sizeof(*run->outside));
	run->pools = calloc(program->pools.count + 1U, sizeof(*run->pools));
	if (!run->blocks || !run->tickets || !run->outside || !run->pools)
		return -ENOMEM;
	r = vs_caching_new(settings, &device, &run->caching);
	for (size_t i = 0; r == 0 && i < program->pools.count; i++)
		r = vs_caching_pool(run->caching, program->pools.ids[i].first, program->pools.ids[i].second,
		                    &run->pools[i]);
	if (r < 0)
		return r;
	r = same_kind ? load_as_recorded(run) : load_anew(run);
	if (r == -ENOMEM && vs_caching_stats(run->caching)->ooms) {
		/* The start alone is too much for this card. */
		note_refusal(run, &(struct vs_op){0}, true);
		r = 0;
	}
	if (run->card.start_low != UINT64_MAX && run->card.start_low > 2 * PLAIN_START)
		vs_space_init(&run->card.space, PLAIN_START, run->card.start_low - PLAIN_START);
	return r;
}

int vs_replay_scenario(const struct vs_replay_program *program, const struct vs_caching_settings *settings,
                       const struct vs_replay_card *card, struct vs_replay_outcome *ret_outcome)
{
	struct vs_replay_outcome outcome = {.refused_event = SIZE_MAX, .last_refused = SIZE_MAX};
	struct run run = {.program = program, .outcome = &outcome};
	int r;

	r = open_run(&run, settings, card);
	for (size_t i = 0; r == 0 && i < program->count && !outcome.stopped; i++)
		do_op(&run, &program->ops[i]);
	if (r == 0) {
		outcome.stats = *vs_caching_stats(run.caching);
		*ret_outcome = outcome;
	}
	vs_caching_free_all(run.caching);
	vs_space_done(&run.card.space);
	vs_space_done(&run.card.reservations);
	free(run.blocks);
	free(run.tickets);
	free(run.outside);
	free(run.pools);
	return r;
}

uint64_t vs_replay_perfect(const struct vs_replay_program *program)
{
	struct vs_caching_settings exact;
	uint64_t *sizes = calloc(program->blocks + 1U, sizeof(*sizes)), now = 0, peak;
	uint32_t id = 0;

	if (!sizes)
		return 0;
	vs_caching_defaults(&exact, program->settings.version);
	for (size_t i = 0; i < program->initial.count; i++) {
		const struct vs_caching_segment *segment = &program->initial.segments[i];

		for (size_t j = 0; j < segment->piece_count; j++) {
			if (is_live(&segment->pieces[j]))
				now += sizes[id++] = segment->pieces[j].size;
		}
	}
	peak = now;
	for (size_t i = 0; i < program->count; i++) {
		const struct vs_op *op = &program->ops[i];

		if (op->kind == VS_OP_MALLOC)
			now += sizes[op->id] = vs_caching_round(&exact, op->size);
		if (op->kind == VS_OP_FREE || op->kind == VS_OP_COMPLETE) {
			now -= sizes[op->id];
			sizes[op->id] = 0;
		}
		if (now > peak)
			peak = now;
	}
	free(sizes);
	return peak;
}
