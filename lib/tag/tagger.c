/* SPDX-License-Identifier: MIT */
#include "tag/tagger.h"

#include "base/buffer.h"
#include "base/u64map.h"
#include "tag/verdict.h"

#include <errno.h>
#include <stdlib.h>

struct live {
	uint64_t address, size, sequence;
	uint32_t stack;
	struct vs_site site;
	struct vs_epoch born;
	uint8_t context;
	int16_t device;
};

/* What the blocks of one stack did. */
struct history {
	uint32_t allocated, freed_in_phase;
	/* Of those that were freed in the phase that made them: the longest life, in events, and the largest size. */
	uint64_t longest, largest;
	/* The settled verdict of most blocks that were freed in the phase that made them [1], and of those that were
	 * not [0]: one line of code may make both, and among the latter many activations and one result. */
	struct vote {
		uint8_t tag, detail;
		uint8_t lead; /* how many more there were of it than of others lately; 0: none yet */
		const char *why;
	} usual[2];
};

/* What one call of a module by the job's own code came to in one forward: a teacher, a reference model or a frozen
 * part has a line of its own beside what is trained. */
struct call {
	uint64_t forward;    /* the forward that the rest is of, by its beginning */
	uint64_t made, kept; /* blocks made by modules, and those of them that are alive */
	bool checkpoints;
};

struct vs_tagger {
	struct vs_tagger_ops ops;
	struct vs_phases phases;
	struct vs_u64map by_address;
	struct live *live; /* a pool; `free_list` of the unused */
	uint32_t *unused;
	size_t live_count, live_capacity, unused_count, unused_capacity;
	struct history *histories; /* by stack id */
	size_t history_count, history_capacity;
	uint64_t now; /* sequence of the last event */
	/* Oldest block of the last forwards that the backward has let go of, as a sequence. */
	uint64_t frontier;
	uint32_t frontier_backward; /* ... the backward that it is of */
	uint32_t returned_backward; /* the last one by autograd.grad() */
	uint64_t first_operator;    /* sequence of the first VS_SITE_OPERATOR by the job's own code; 0: none */
	struct call *calls;         /* by vs_site.call */
	size_t call_count, call_capacity;
	uint32_t trainer;        /* the thread of the last forward */
	bool backward_elsewhere; /* the last event of a backward was on another thread */
	bool backward_over;      /* ... and the trainer has gone on since */
	bool modules, optimizers;
};

int vs_tagger_new(const struct vs_tagger_ops *ops, struct vs_tagger **ret_tagger)
{
	struct vs_tagger *tagger = calloc(1, sizeof(*tagger));

	if (!tagger)
		return -ENOMEM;
	tagger->ops = *ops;
	tagger->trainer = ops->main_thread;
	vs_phases_init(&tagger->phases, ops->main_thread);
	*ret_tagger = tagger;
	return 0;
}

void vs_tagger_free(struct vs_tagger *tagger)
{
	if (!tagger)
		return;
	vs_u64map_release(&tagger->by_address);
	free(tagger->live);
	free(tagger->unused);
	free(tagger->histories);
	free(tagger->calls);
	free(tagger);
}

const struct vs_phases *vs_tagger_phases(const struct vs_tagger *tagger)
{
	return &tagger->phases;
}

/* Two devices may use one address where they are not in one address space (several simulated devices, or MIG). Device
 * addresses have 57 bits at most. */
static uint64_t key_of(const struct vramshim_event *event)
{
	return event->address ^ ((uint64_t)(uint16_t)(event->device + 1) << 57);
}

static struct history *history_of(struct vs_tagger *tagger, uint32_t stack)
{
	if (vs_grow(&tagger->histories, &tagger->history_capacity, (size_t)stack + 1, sizeof(*tagger->histories)))
		return NULL;
	while (tagger->history_count < tagger->history_capacity)
		tagger->histories[tagger->history_count++] = (struct history){0};
	return &tagger->histories[stack];
}

/* A call without a graph keeps its results alone: a share of 1 in 20, where one that is trained keeps from 1 in 14
 * (32 layers, each checkpointed, which says so itself) to half of what it makes. Fewer than 20 say nothing while it
 * may be going on; when it is over, a single one is its result: a graph of three operators keeps more. */
static bool keeps_nothing(const struct vs_tagger *tagger, const struct live *block)
{
	const struct call *call;

	if (block->born.phase != VS_PHASE_FORWARD || block->site.call >= tagger->call_count)
		return false;
	call = &tagger->calls[block->site.call];
	if (call->forward != block->born.begin || call->checkpoints)
		return false;
	if (call->made >= 20)
		return call->kept * 20 <= call->made;
	return tagger->phases.now.begin != block->born.begin && call->made >= 3 && call->kept <= 1;
}

/* The call that a site is below, in the present epoch. NULL: no memory. */
static struct call *call_of(struct vs_tagger *tagger, const struct vs_site *site)
{
	struct call *call;

	if (vs_grow(&tagger->calls, &tagger->call_capacity, (size_t)site->call + 1, sizeof(*tagger->calls)))
		return NULL;
	while (tagger->call_count < tagger->call_capacity)
		tagger->calls[tagger->call_count++] = (struct call){0};
	call = &tagger->calls[site->call];
	if (call->forward != tagger->phases.now.begin)
		*call = (struct call){.forward = tagger->phases.now.begin};
	return call;
}

static int follow_forward(struct vs_tagger *tagger, const struct vs_site *site)
{
	struct call *call = call_of(tagger, site);

	if (!call)
		return -ENOMEM;
	call->checkpoints |= (site->flags & VS_SITE_CHECKPOINT) != 0;
	if (site->context == VS_CONTEXT_FORWARD && !site->role) {
		call->made++;
		call->kept++;
	}
	return 0;
}

/* The majority of the last verdicts (Boyer and Moore's vote). A lead is lost after four that differ: what a line
 * makes may change when the first step is over. */
static void cast_vote(struct vote *vote, const struct vs_verdict *verdict)
{
	bool same = vote->lead && vote->tag == verdict->tag && vote->detail == verdict->detail;

	if (!same && vote->lead > 1) {
		vote->lead--;
		return;
	}
	vote->lead = same && vote->lead < 4 ? vote->lead + 1 : same ? vote->lead : 1;
	vote->tag = (uint8_t)verdict->tag;
	vote->detail = (uint8_t)verdict->detail;
	vote->why = verdict->why;
}

/* A block's life is over, by a free (`event`, `site`) or by the end of the trace (both NULL). */
static int judge(struct vs_tagger *tagger, const struct live *block, const struct vramshim_event *event,
                 const struct vs_site *site)
{
	const struct vs_epoch *born = &block->born, *now = &tagger->phases.now;
	struct history *history = &tagger->histories[block->stack];
	enum vs_context freed_by = VS_CONTEXT_EMPTY;
	struct vs_verdict verdict;
	struct vs_life life;
	bool by_history = false;

	if (event) {
		freed_by = vs_phases_context(&tagger->phases, event, site);
		if (freed_by == VS_CONTEXT_NONE && site->context == VS_CONTEXT_EMPTY)
			freed_by = VS_CONTEXT_EMPTY;
	}
	life = (struct vs_life){
	    .site = &block->site,
	    .size = block->size,
	    .context = (enum vs_context)block->context,
	    .phase = born->phase,
	    .freed = event && freed_by != VS_CONTEXT_EXIT,
	    .at_exit = event && freed_by == VS_CONTEXT_EXIT,
	    .freed_by = freed_by,
	    .saved = event && site && event->type == VRAMSHIM_TORCH_FREE && site->role == VS_ROLE_SAVED,
	    .replaced = site && site->role == VS_ROLE_CONVERTED,
	    .phase_now = now->phase,
	    .same_epoch = born->begin == now->begin,
	    .forwards = now->forwards - born->forwards,
	    .backwards = now->backwards - born->backwards,
	    .steps = now->step - born->step,
	    .overtaken = tagger->frontier_backward == now->backwards && block->sequence > tagger->frontier,
	    .backward_over = tagger->backward_over,
	    .no_graph = !event && keeps_nothing(tagger, block),
	    .awaits = tagger->frontier_backward != now->backwards || block->sequence < tagger->frontier,
	    .returned = tagger->returned_backward == born->backwards && tagger->frontier_backward != born->backwards,
	    .after_operator = tagger->first_operator && block->sequence >= tagger->first_operator,
	    .operators = tagger->first_operator != 0,
	    .modules = tagger->modules,
	    .optimizers = tagger->optimizers,
	    /* Blocks without frames (stack 0) have nothing in common. */
	    .short_lived = block->stack && history->freed_in_phase * 2 > history->allocated - 1 &&
	                   tagger->now - block->sequence <= history->longest && block->size <= history->largest,
	};
	if (life.freed && freed_by == VS_CONTEXT_BACKWARD && born->phase == VS_PHASE_FORWARD &&
	    (tagger->frontier_backward != now->backwards || block->sequence < tagger->frontier)) {
		tagger->frontier = block->sequence;
		tagger->frontier_backward = now->backwards;
	}
	verdict = vs_verdict(&life);
	if (life.freed && life.same_epoch && block->site.context == VS_CONTEXT_FORWARD && !block->site.role &&
	    tagger->calls[block->site.call].forward == born->begin)
		tagger->calls[block->site.call].kept--;
	if (life.freed && life.same_epoch) {
		history->freed_in_phase++;
		if (event->sequence - block->sequence > history->longest)
			history->longest = event->sequence - block->sequence;
		if (block->size > history->largest)
			history->largest = block->size;
	}
	if (verdict.settled && !verdict.alone) {
		cast_vote(&history->usual[life.freed && life.same_epoch], &verdict);
	} else if (!verdict.settled && block->stack && !life.no_graph && history->usual[life.short_lived].lead) {
		const struct vote *usual = &history->usual[life.short_lived];

		verdict.tag = (enum vs_tag)usual->tag;
		verdict.detail = (enum vs_detail)usual->detail;
		verdict.why = usual->why;
		by_history = true;
	}
	return tagger->ops.verdict(tagger->ops.user, &(struct vs_block){
	                                                 .address = block->address,
	                                                 .size = block->size,
	                                                 .allocated_at = block->sequence,
	                                                 .freed_at = event ? event->sequence : 0,
	                                                 .stack = block->stack,
	                                                 .step = born->step,
	                                                 .phase = born->phase,
	                                                 .tag = verdict.tag,
	                                                 .detail = verdict.detail,
	                                                 .rule = block->site.rule,
	                                                 .device = block->device,
	                                                 .forwards = life.forwards,
	                                                 .backwards = life.backwards,
	                                                 .phase_freed = life.phase_now,
	                                                 .freed_by = freed_by,
	                                                 .why = verdict.why,
	                                                 .by_history = by_history,
	                                             });
}

static int remember(struct vs_tagger *tagger, const struct vramshim_event *event, const struct vs_site *site)
{
	struct history *history = history_of(tagger, event->stack);
	uint32_t index;

	if (!history)
		return -ENOMEM;
	history->allocated++;
	if (tagger->unused_count) {
		index = tagger->unused[--tagger->unused_count];
	} else {
		/* As many may become unused, so that giving one back never fails. */
		if (tagger->live_count == UINT32_MAX ||
		    vs_grow(&tagger->live, &tagger->live_capacity, tagger->live_count + 1, sizeof(*tagger->live)) ||
		    vs_grow(&tagger->unused, &tagger->unused_capacity, tagger->live_count + 1, sizeof(uint32_t)))
			return -ENOMEM;
		index = (uint32_t)tagger->live_count++;
	}
	tagger->live[index] = (struct live){
	    .address = event->address,
	    .size = event->size,
	    .sequence = event->sequence,
	    .stack = event->stack,
	    .born = tagger->phases.now,
	    .site = *site,
	    .context = (uint8_t)vs_phases_context(&tagger->phases, event, site),
	    .device = event->device,
	};
	return vs_u64map_put(&tagger->by_address, key_of(event), index);
}

/* A backward on the GPU runs on a thread of autograd's while its caller waits for it, so whatever the caller does
 * next says that it is over. */
static void follow_backward(struct vs_tagger *tagger, const struct vramshim_event *event, const struct vs_site *site)
{
	enum vs_context context = VS_CONTEXT_NONE;

	if (event->type != VRAMSHIM_MARK) /* which has no stack */
		context = vs_phases_context(&tagger->phases, event, site);
	if (context == VS_CONTEXT_FORWARD && event->type == VRAMSHIM_TORCH_ALLOC)
		tagger->trainer = event->thread;
	if (context == VS_CONTEXT_BACKWARD || context == VS_CONTEXT_RECOMPUTE) {
		/* Around the engine, the caller's own frames say nothing. */
		if (event->thread == tagger->trainer && !(site->flags & VS_SITE_ENGINE))
			return;
		tagger->backward_elsewhere = event->thread != tagger->trainer;
		tagger->backward_over = false;
	} else if (event->thread == tagger->trainer) {
		tagger->backward_over = tagger->backward_elsewhere;
	}
}

int vs_tagger_event(struct vs_tagger *tagger, const struct vramshim_event *event, const struct vs_site *site)
{
	uint32_t index;
	int error;

	if (event->type == VRAMSHIM_TORCH_ALLOC || event->type == VRAMSHIM_TORCH_FREE ||
	    event->type == VRAMSHIM_TORCH_OOM || event->type == VRAMSHIM_MARK)
		follow_backward(tagger, event, site);
	if (event->type == VRAMSHIM_TORCH_OOM)
		vs_phases_event(&tagger->phases, event, site);
	if ((event->type != VRAMSHIM_TORCH_ALLOC && event->type != VRAMSHIM_TORCH_FREE) || !event->address)
		return 0;
	tagger->now = event->sequence;
	vs_phases_event(&tagger->phases, event, site);
	/* An allocation where a block still lives: its free was lost, and was not later than this. */
	if (vs_u64map_take(&tagger->by_address, key_of(event), &index)) {
		error = judge(tagger, &tagger->live[index], event, site);
		tagger->unused[tagger->unused_count++] = index;
		if (error < 0)
			return error;
	}
	if (event->type == VRAMSHIM_TORCH_FREE)
		return 0;
	if (site->flags & VS_SITE_RETURNED)
		tagger->returned_backward = tagger->phases.now.backwards;
	tagger->modules |= site->context == VS_CONTEXT_LOAD;
	tagger->optimizers |= site->context == VS_CONTEXT_OPTIMIZER;
	if (site->flags & VS_SITE_OPERATOR && site->context == VS_CONTEXT_NONE && !tagger->first_operator)
		tagger->first_operator = event->sequence;
	error = follow_forward(tagger, site);
	return error ? error : remember(tagger, event, site);
}

static int by_sequence(const void *a, const void *b)
{
	const struct live *const *x = a, *const *y = b;

	return (*x)->sequence < (*y)->sequence ? -1 : (*x)->sequence > (*y)->sequence;
}

int vs_tagger_finish(struct vs_tagger *tagger)
{
	size_t count = 0;
	const struct live **left;
	int error = 0;

	if (!tagger->by_address.used)
		return 0;
	left = calloc(tagger->by_address.used, sizeof(*left));
	if (!left)
		return -ENOMEM;
	for (size_t i = 0; i < tagger->by_address.size; i++)
		if (tagger->by_address.slots[i].key)
			left[count++] = &tagger->live[tagger->by_address.slots[i].value];
	qsort(left, count, sizeof(*left), by_sequence);
	for (size_t i = 0; i < count && error >= 0; i++)
		error = judge(tagger, left[i], NULL, NULL);
	free(left);
	vs_u64map_release(&tagger->by_address);
	tagger->live_count = tagger->unused_count = 0;
	return error < 0 ? error : 0;
}
