/* SPDX-License-Identifier: MIT */
#include "model/tape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, what every block is a multiple of; requests from kMinLargeAlloc
 * on get a segment of their own in steps of kRoundLarge, and what is left of it stays with the block (and counts as
 * allocated) unless it is more than kSmallSize. */
#define BLOCK_BYTES 512
#define LARGE_ALLOC (UINT64_C(10) << 20)
#define ROUND_LARGE (UINT64_C(2) << 20)
#define SMALL_SIZE  (UINT64_C(1) << 20)
/* Enough for thousands of layers; a graph beyond it is a mistake. */
#define NODE_LIMIT (4u << 20)

#define EDGES 5
#define SAVES 8
#define SLOTS 3

struct storage {
	uint64_t bytes; /* as counted; 0: free entry */
	void *handle;
	int references;
	enum vs_tag tag;
	bool view; /* handed on as a transposed view: a sum does not go into it */
};

struct edge {
	int node, slot;
	uint64_t bytes, reduced, reduce_workspace;
	bool view;
	uint8_t kept; /* which of the saves is this gradient, from 1; 0: none */
};

struct node {
	struct edge edges[EDGES];
	int saves[SAVES];
	int pending[SLOTS]; /* gradients that arrived; -1 */
	uint8_t edge_count, save_count;
	int param; /* AccumulateGrad of it; -1 */
	int uses;  /* AccumulateGrad: gradients still to come */
	uint64_t workspace;
	enum vs_instant instant;
	uint32_t layer;
	vs_tape_hook *hook;
	void *context;
	int frame;       /* the checkpoint it belongs to; -1 */
	uint8_t missing; /* tensors it would have saved, had the checkpoint let it */
};

/* A checkpointed region: the holder of each tensor its forward did not keep, in order. */
struct frame {
	vs_tape_body *body;
	void *context;
	struct vs_var inputs[VS_TAPE_INPUTS];
	size_t input_count;
	bool done;
	int *holders; /* nodes */
	size_t holder_count, holder_room;
	uint32_t layer;
};

struct param {
	struct vs_param_spec spec;
	int storage, extra, gradient, share, accumulator;
	struct vs_var cast; /* storage -1: none */
};

struct vs_tape {
	struct vs_tape_memory memory;
	struct storage *storages;
	size_t storage_count, storage_room;
	int free_storage; /* head of the list of free entries, chained by `references`; -1 */
	struct node *nodes;
	size_t node_count, node_room;
	struct param *params;
	size_t param_count, param_room;
	struct frame *frames;
	size_t frame_count, frame_room;

	uint64_t live[VS_TAG_COUNT], total;
	struct vs_peak peaks[VS_INSTANT_COUNT];
	enum vs_instant instant;
	uint32_t layer, step;
	int error;

	int open; /* the node between begin and end; -1 */
	uint64_t forward_workspace;
	int discard;   /* in the forward of this frame: saved tensors are noted, not kept; -1 */
	int refill;    /* in the recomputation of this frame; -1 */
	size_t filled; /* tensors it has brought back */
	bool stopped;  /* ... and those were all: nothing runs any more */
};

static const char *const instant_names[] = {"setup",        "forward",         "loss forward",   "loss backward",
                                            "mid-backward", "end of backward", "optimizer step", "all-gather"};

const char *vs_instant_name(enum vs_instant instant)
{
	return instant_names[instant];
}

int vs_tape_error(const struct vs_tape *t)
{
	return t->error;
}

static void *grow(struct vs_tape *t, void *array, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 256;
	void *bigger = realloc(array, more * size);

	if (!bigger) {
		t->error = -ENOMEM;
		return NULL;
	}
	*room = more;
	return bigger;
}

int vs_tape_new(const struct vs_tape_memory *memory, struct vs_tape **ret_tape)
{
	struct vs_tape *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	if (memory)
		t->memory = *memory;
	t->free_storage = -1;
	t->open = -1;
	t->discard = -1;
	t->refill = -1;
	t->layer = UINT32_MAX;
	*ret_tape = t;
	return 0;
}

void vs_tape_free(struct vs_tape *t)
{
	if (!t)
		return;
	if (t->memory.release) {
		for (size_t i = 0; i < t->storage_count; i++) {
			if (t->storages[i].bytes)
				t->memory.release(t->memory.context, t->storages[i].handle);
		}
	}
	for (size_t i = 0; i < t->frame_count; i++)
		free(t->frames[i].holders);
	free(t->frames);
	free(t->storages);
	free(t->nodes);
	free(t->params);
	free(t);
}

static void note_peak(struct vs_tape *t)
{
	struct vs_peak *peak = &t->peaks[t->instant];

	if (t->total <= peak->bytes)
		return;
	peak->bytes = t->total;
	memcpy(peak->live, t->live, sizeof(t->live));
	peak->layer = t->layer;
	peak->step = t->step;
}

void vs_tape_instant(struct vs_tape *t, enum vs_instant instant)
{
	t->instant = instant;
	note_peak(t);
}

void vs_tape_layer(struct vs_tape *t, uint32_t layer)
{
	t->layer = layer;
}

void vs_tape_step(struct vs_tape *t, uint32_t step)
{
	t->step = step;
}

const struct vs_peak *vs_tape_peak(const struct vs_tape *t, enum vs_instant instant)
{
	return &t->peaks[instant];
}

const uint64_t *vs_tape_live(const struct vs_tape *t)
{
	return t->live;
}

uint64_t vs_tape_total(const struct vs_tape *t)
{
	return t->total;
}

void vs_tape_reset_peaks(struct vs_tape *t)
{
	memset(t->peaks, 0, sizeof(t->peaks));
}

/* What a request counts as, where every request finds a segment made for its size: a steady state of an eager step,
 * whose blocks come and go in the same sizes. Blocks cut from larger leftovers count less, by up to 1 MiB each. */
static uint64_t counted(uint64_t bytes)
{
	uint64_t block = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
	uint64_t segment = (block + ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE;

	return block >= LARGE_ALLOC && segment - block <= SMALL_SIZE ? segment : block;
}

static int take(struct vs_tape *t, uint64_t bytes, enum vs_tag tag)
{
	struct storage *s;
	void *handle = NULL;
	int id;

	if (!bytes || t->error || t->stopped)
		return -1;
	if (t->memory.allocate)
		bytes = t->memory.allocate(t->memory.context, bytes, &handle);
	else
		bytes = counted(bytes);
	if (!bytes) {
		t->error = -ENOMEM;
		return -1;
	}
	if (t->free_storage >= 0) {
		id = t->free_storage;
		t->free_storage = t->storages[id].references;
	} else {
		if (t->storage_count == t->storage_room) {
			void *bigger = grow(t, t->storages, &t->storage_room, sizeof(*t->storages));

			if (!bigger)
				return -1;
			t->storages = bigger;
		}
		id = (int)t->storage_count++;
	}
	s = &t->storages[id];
	*s = (struct storage){.bytes = bytes, .handle = handle, .references = 1, .tag = tag};
	t->live[tag] += bytes;
	t->total += bytes;
	note_peak(t);
	return id;
}

static void unref(struct vs_tape *t, int id)
{
	struct storage *s;

	if (id < 0)
		return;
	s = &t->storages[id];
	if (--s->references)
		return;
	t->live[s->tag] -= s->bytes;
	t->total -= s->bytes;
	if (t->memory.release)
		t->memory.release(t->memory.context, s->handle);
	s->bytes = 0;
	s->references = t->free_storage;
	t->free_storage = id;
}

static int ref(struct vs_tape *t, int id)
{
	if (id >= 0)
		t->storages[id].references++;
	return id;
}

static void retag(struct vs_tape *t, int id, enum vs_tag tag)
{
	struct storage *s = &t->storages[id];

	t->live[s->tag] -= s->bytes;
	t->live[tag] += s->bytes;
	s->tag = tag;
}

struct vs_var vs_new(struct vs_tape *t, uint64_t count, uint8_t size, enum vs_tag tag)
{
	return (struct vs_var){.storage = take(t, count * size, tag), .node = -1, .count = count, .size = size};
}

struct vs_var vs_keep(struct vs_tape *t, struct vs_var var)
{
	ref(t, var.storage);
	return var;
}

void vs_drop(struct vs_tape *t, struct vs_var var)
{
	unref(t, var.storage);
}

void vs_touch(struct vs_tape *t, uint64_t bytes, enum vs_tag tag)
{
	unref(t, take(t, bytes, tag));
}

static int new_node(struct vs_tape *t)
{
	struct node *n;

	if (t->error || t->stopped)
		return -1;
	if (t->node_count == NODE_LIMIT) {
		t->error = -E2BIG;
		return -1;
	}
	if (t->node_count == t->node_room) {
		void *bigger = grow(t, t->nodes, &t->node_room, sizeof(*t->nodes));

		if (!bigger)
			return -1;
		t->nodes = bigger;
	}
	n = &t->nodes[t->node_count];
	memset(n, 0, sizeof(*n));
	n->param = -1;
	n->frame = t->discard;
	n->instant = t->instant;
	n->layer = t->layer;
	for (int i = 0; i < SLOTS; i++)
		n->pending[i] = -1;
	return (int)t->node_count++;
}

struct vs_var vs_leaf(struct vs_tape *t, struct vs_var var, bool needs_gradient)
{
	/* A node without edges: what arrives there is dropped. */
	var.node = needs_gradient ? new_node(t) : -1;
	var.slot = 0;
	return vs_keep(t, var);
}

int vs_tape_param(struct vs_tape *t, const struct vs_param_spec *spec)
{
	struct param *p;

	if (t->param_count == t->param_room) {
		void *bigger = grow(t, t->params, &t->param_room, sizeof(*t->params));

		if (!bigger)
			return 0;
		t->params = bigger;
	}
	p = &t->params[t->param_count];
	*p = (struct param){.spec = *spec, .gradient = -1, .share = -1, .accumulator = -1, .cast = {.storage = -1}};
	if (spec->on_host)
		p->storage = -1;
	else
		p->storage =
		    take(t, spec->stored_bytes ? spec->stored_bytes : spec->count * spec->size, VS_TAG_WEIGHTS);
	p->extra = take(t, spec->extra_bytes, VS_TAG_WEIGHTS);
	return (int)t->param_count++;
}

size_t vs_tape_param_count(const struct vs_tape *t)
{
	return t->param_count;
}

const struct vs_param_spec *vs_tape_param_spec(const struct vs_tape *t, int param)
{
	return &t->params[param].spec;
}

bool vs_tape_has_gradient(const struct vs_tape *t, int param)
{
	return t->params[param].gradient >= 0;
}

struct vs_var vs_tape_param_var(struct vs_tape *t, int param)
{
	struct param *p = &t->params[param];
	struct vs_var var = {.storage = p->storage, .node = -1, .count = p->spec.count, .size = p->spec.size};

	if (p->spec.trainable) {
		if (p->accumulator < 0) {
			p->accumulator = new_node(t);
			if (p->accumulator >= 0)
				t->nodes[p->accumulator].param = param;
		}
		var.node = p->accumulator;
	}
	return vs_keep(t, var);
}

void vs_tape_drop_gradients(struct vs_tape *t)
{
	for (size_t i = 0; i < t->param_count; i++) {
		unref(t, t->params[i].gradient);
		t->params[i].gradient = -1;
		unref(t, t->params[i].share);
		t->params[i].share = -1;
	}
}

void vs_tape_reduce_gradient(struct vs_tape *t, int param, uint64_t bytes)
{
	struct param *p = &t->params[param];

	if (p->gradient < 0)
		return;
	unref(t, p->gradient);
	p->gradient = -1;
	if (p->share < 0)
		p->share = take(t, bytes, VS_TAG_GRADIENTS);
}

struct vs_var vs_tape_cast_param(struct vs_tape *t, int param, uint8_t size)
{
	struct param *p = &t->params[param];
	struct vs_var var;

	if (p->spec.size == size)
		return vs_tape_param_var(t, param);
	if (p->cast.storage >= 0)
		return vs_keep(t, p->cast);
	var = vs_tape_param_var(t, param);
	vs_op_begin(t);
	vs_op_input(t, var, p->spec.count * p->spec.size, 0);
	vs_drop(t, var);
	var = vs_op_end(t, p->spec.count, size);
	if (t->params[param].spec.trainable && var.storage >= 0)
		t->params[param].cast = vs_keep(t, var);
	return var;
}

void vs_tape_uncache(struct vs_tape *t)
{
	for (size_t i = 0; i < t->param_count; i++) {
		unref(t, t->params[i].cast.storage);
		t->params[i].cast.storage = -1;
	}
}

void vs_op_begin(struct vs_tape *t)
{
	t->open = new_node(t);
	t->forward_workspace = 0;
}

void vs_op_input(struct vs_tape *t, struct vs_var input, uint64_t bytes, uint64_t reduced)
{
	struct node *n;

	if (t->open < 0 || input.node < 0)
		return;
	n = &t->nodes[t->open];
	if (n->edge_count == EDGES) {
		t->error = -E2BIG;
		return;
	}
	n->edges[n->edge_count++] =
	    (struct edge){.node = input.node, .slot = input.slot, .bytes = bytes, .reduced = reduced};
}

void vs_op_last_input_is_view(struct vs_tape *t)
{
	if (t->open >= 0 && t->nodes[t->open].edge_count)
		t->nodes[t->open].edges[t->nodes[t->open].edge_count - 1].view = true;
}

void vs_op_last_input_reduce_workspace(struct vs_tape *t, uint64_t bytes)
{
	if (t->open >= 0 && t->nodes[t->open].edge_count)
		t->nodes[t->open].edges[t->nodes[t->open].edge_count - 1].reduce_workspace = bytes;
}

static void keep_in(struct vs_tape *t, struct node *n, int storage)
{
	if (n->save_count == SAVES) {
		t->error = -E2BIG;
		return;
	}
	n->saves[n->save_count++] = ref(t, storage);
	if (t->storages[storage].tag == VS_TAG_TEMPORARIES)
		retag(t, storage, VS_TAG_ACTIVATIONS);
}

static void note_missing(struct vs_tape *t, int node)
{
	struct frame *f = &t->frames[t->discard];

	if (f->holder_count == f->holder_room) {
		void *bigger = grow(t, f->holders, &f->holder_room, sizeof(*f->holders));

		if (!bigger)
			return;
		f->holders = bigger;
	}
	f->holders[f->holder_count++] = node;
	t->nodes[node].missing++;
}

static void bring_back(struct vs_tape *t, int storage)
{
	struct frame *f = &t->frames[t->refill];

	if (t->filled < f->holder_count)
		keep_in(t, &t->nodes[f->holders[t->filled++]], storage);
	/* What follows would make nothing that is needed: torch stops here too. */
	if (t->filled == f->holder_count)
		t->stopped = true;
}

static void save(struct vs_tape *t, int node, int storage)
{
	if (storage < 0 || t->error || t->stopped)
		return;
	if (t->refill >= 0)
		bring_back(t, storage);
	else if (t->discard >= 0)
		note_missing(t, node);
	else
		keep_in(t, &t->nodes[node], storage);
}

void vs_op_save(struct vs_tape *t, struct vs_var var)
{
	if (t->open >= 0 && t->nodes[t->open].edge_count)
		save(t, t->open, var.storage);
}

void vs_op_backward_workspace(struct vs_tape *t, uint64_t bytes)
{
	if (t->open >= 0)
		t->nodes[t->open].workspace = bytes;
}

void vs_op_workspace(struct vs_tape *t, uint64_t bytes)
{
	t->forward_workspace = bytes;
}

static int close_op(struct vs_tape *t)
{
	int node = t->open;

	t->open = -1;
	if (node < 0)
		return -1;
	if (!t->nodes[node].edge_count) {
		t->node_count--;
		return -1;
	}
	for (int i = 0; i < t->nodes[node].edge_count; i++) {
		struct node *to = &t->nodes[t->nodes[node].edges[i].node];

		if (to->param >= 0 && t->refill < 0)
			to->uses++;
	}
	return node;
}

struct vs_var vs_op_end(struct vs_tape *t, uint64_t count, uint8_t size)
{
	struct vs_var out = {.node = -1, .storage = -1, .count = count, .size = size};
	int workspace;

	out.node = close_op(t);
	out.storage = take(t, count * size, VS_TAG_TEMPORARIES);
	workspace = take(t, t->forward_workspace, VS_TAG_TEMPORARIES);
	unref(t, workspace);
	return out;
}

struct vs_var vs_op_end_view(struct vs_tape *t, struct vs_var base)
{
	base.node = close_op(t);
	base.slot = 0;
	return vs_keep(t, base);
}

struct vs_var vs_op_more_view(struct vs_tape *t, struct vs_var first, int slot)
{
	first.slot = slot;
	return vs_keep(t, first);
}

void vs_op_save_output(struct vs_tape *t, struct vs_var output)
{
	if (output.node >= 0 && !t->stopped)
		save(t, output.node, output.storage);
}

void vs_op_save_bytes(struct vs_tape *t, struct vs_var output, uint64_t bytes)
{
	int storage = take(t, bytes, VS_TAG_TEMPORARIES);

	if (output.node >= 0 && storage >= 0)
		save(t, output.node, storage);
	unref(t, storage);
}

void vs_op_save_gradient(struct vs_tape *t, struct vs_var output, struct vs_var input, uint64_t bytes)
{
	struct node *n;
	uint8_t before;

	if (output.node < 0 || input.node < 0 || t->stopped)
		return;
	before = t->nodes[output.node].save_count;
	vs_op_save_bytes(t, output, bytes);
	n = &t->nodes[output.node];
	if (n->save_count == before) /* inside of a checkpoint nothing is kept */
		return;
	for (int i = 0; i < n->edge_count; i++) {
		if (n->edges[i].node == input.node && n->edges[i].slot == input.slot)
			n->edges[i].kept = n->save_count;
	}
}

/* torch::autograd::InputBuffer::add: the sum goes into the first one if nobody else holds it and it is no view (a
 * weight's gradient is one: mm's result, transposed), else into the second under the same rule. */
static int accumulate(struct vs_tape *t, int old, int more, enum vs_tag tag)
{
	int sum;

	if (old < 0)
		return more;
	if (more < 0)
		return old;
	if (t->storages[old].references == 1 && !t->storages[old].view) {
		unref(t, more);
		return old;
	}
	if (t->storages[more].references == 1 && !t->storages[old].view) {
		unref(t, old);
		return more;
	}
	sum = take(t, t->storages[old].bytes, tag);
	unref(t, old);
	unref(t, more);
	return sum;
}

/* AccumulateGrad: the first gradient is taken as it is when nobody else holds it, later ones are added in place. */
static void accumulate_parameter(struct vs_tape *t, struct node *n)
{
	struct param *p = &t->params[n->param];
	int gradient = n->pending[0];

	n->pending[0] = -1;
	if (gradient < 0)
		return;
	if (p->gradient >= 0) {
		unref(t, gradient);
		return;
	}
	if (t->storages[gradient].references > 1) {
		int copy = take(t, t->storages[gradient].bytes, VS_TAG_GRADIENTS);

		unref(t, gradient);
		gradient = copy;
		if (gradient < 0)
			return;
	}
	retag(t, gradient, VS_TAG_GRADIENTS);
	p->gradient = gradient;
}

static void deliver(struct vs_tape *t, const struct edge *e, int gradient)
{
	struct node *to = &t->nodes[e->node];
	int sum =
	    accumulate(t, to->pending[e->slot], gradient, to->param >= 0 ? VS_TAG_GRADIENTS : VS_TAG_TEMPORARIES);

	to = &t->nodes[e->node];
	to->pending[e->slot] = sum;
	if (to->param >= 0 && --to->uses <= 0)
		accumulate_parameter(t, to);
}

static void release_inputs(struct vs_tape *t, struct frame *f)
{
	for (size_t i = 0; i < f->input_count; i++)
		unref(t, f->inputs[i].storage);
	f->input_count = 0;
}

/* A node of a checkpoint needs what was not kept: the region runs again and gives every node its tensors back. */
static void recompute(struct vs_tape *t, int frame)
{
	struct frame f = t->frames[frame];
	size_t start = t->node_count;
	struct vs_var inputs[VS_TAPE_INPUTS];
	struct vs_var out;

	t->frames[frame].done = true;
	for (size_t i = 0; i < f.input_count; i++) {
		inputs[i] = f.inputs[i];
		if (inputs[i].node >= 0)
			inputs[i].node = new_node(t);
		inputs[i].slot = 0;
	}
	t->refill = frame;
	t->filled = 0;
	out = f.body(t, f.context, inputs);
	t->stopped = false;
	vs_drop(t, out);
	vs_tape_uncache(t);
	t->refill = -1;
	/* The nodes made on the way only told what needs a gradient. */
	t->node_count = start;
	release_inputs(t, &t->frames[frame]);
}

/* What a parameter will keep is its gradient from the start; what only goes into a sum, or is cast, is not. */
static enum vs_tag result_tag(const struct vs_tape *t, const struct edge *e)
{
	const struct node *to = &t->nodes[e->node];

	if (to->param < 0 || e->reduced || t->params[to->param].gradient >= 0)
		return VS_TAG_TEMPORARIES;
	if (to->pending[0] >= 0 || (to->uses > 1 && e->view))
		return VS_TAG_TEMPORARIES;
	return VS_TAG_GRADIENTS;
}

static void backward_node(struct vs_tape *t, int node)
{
	struct node *n = &t->nodes[node];
	int results[EDGES], workspace;
	int passed = -1;

	for (int i = 0; i < SLOTS && passed < 0; i++)
		passed = n->pending[i];
	if (passed < 0 || n->param >= 0)
		return;
	if (n->missing && !t->frames[n->frame].done) {
		t->layer = n->layer;
		t->instant = VS_INSTANT_BACKWARD;
		recompute(t, n->frame);
		n = &t->nodes[node];
	}
	t->layer = n->layer;
	if (n->instant == VS_INSTANT_LOSS_FORWARD)
		t->instant = VS_INSTANT_LOSS_BACKWARD;
	else
		t->instant = n->layer == UINT32_MAX && n->instant == VS_INSTANT_SETUP ? VS_INSTANT_BACKWARD_END
		                                                                      : VS_INSTANT_BACKWARD;
	note_peak(t); /* a backward that takes nothing has its instant all the same */
	workspace = take(t, n->workspace, VS_TAG_TEMPORARIES);
	for (int i = 0; i < n->edge_count; i++) {
		struct edge *e = &n->edges[i];

		if (e->kept)
			results[i] = ref(t, n->saves[e->kept - 1]);
		else
			results[i] = e->bytes ? take(t, e->bytes, result_tag(t, e)) : ref(t, passed);
		if (e->view && results[i] >= 0)
			t->storages[results[i]].view = true;
	}
	unref(t, workspace);
	for (int i = 0; i < n->edge_count; i++) {
		if (n->edges[i].reduced) {
			int sum = take(t, n->edges[i].reduced, VS_TAG_TEMPORARIES);

			unref(t, take(t, n->edges[i].reduce_workspace, VS_TAG_TEMPORARIES));
			unref(t, results[i]);
			results[i] = sum;
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		unref(t, n->pending[i]);
		n->pending[i] = -1;
	}
	if (n->hook) {
		n->hook(t, n->context);
		n = &t->nodes[node];
	}
	for (int i = 0; i < n->save_count; i++)
		unref(t, n->saves[i]);
	n->save_count = 0;
	for (int i = 0; i < n->edge_count; i++)
		deliver(t, &t->nodes[node].edges[i], results[i]);
}

struct vs_var vs_op_hook(struct vs_tape *t, struct vs_var x, vs_tape_hook *hook, void *context)
{
	struct vs_var y;

	vs_op_begin(t);
	vs_op_input(t, x, 0, 0);
	y = vs_op_end_view(t, x);
	if (y.node >= 0 && t->refill < 0) {
		t->nodes[y.node].hook = hook;
		t->nodes[y.node].context = context;
	}
	return y;
}

void vs_tape_backward(struct vs_tape *t, struct vs_var loss)
{
	if (loss.node < 0 || t->error)
		return;
	t->nodes[loss.node].pending[loss.slot] = take(t, loss.count * loss.size, VS_TAG_TEMPORARIES);
	/* The engine's queue is ordered by the age of nodes, youngest first: with every consumer of a tensor younger
	 * than its maker, that is a walk back through the order of making. */
	for (int i = loss.node; i >= 0 && !t->error; i--)
		backward_node(t, i);
}

void vs_tape_next_graph(struct vs_tape *t)
{
	for (size_t i = 0; i < t->param_count; i++)
		t->params[i].accumulator = -1;
}

void vs_tape_clear_graph(struct vs_tape *t)
{
	for (size_t i = 0; i < t->node_count; i++) {
		struct node *n = &t->nodes[i];

		for (int k = 0; k < n->save_count; k++)
			unref(t, n->saves[k]);
		for (int k = 0; k < SLOTS; k++)
			unref(t, n->pending[k]);
	}
	t->node_count = 0;
	for (size_t i = 0; i < t->frame_count; i++) {
		release_inputs(t, &t->frames[i]);
		free(t->frames[i].holders);
	}
	t->frame_count = 0;
	vs_tape_next_graph(t);
}

struct vs_var vs_tape_checkpoint(struct vs_tape *t, vs_tape_body *body, void *context, const struct vs_var *inputs,
                                 size_t count)
{
	struct frame *f;
	int outer = t->discard;
	struct vs_var out;

	/* Inside a region that is itself checkpointed, or run again, there is nothing more to leave out. */
	if (t->discard >= 0 || t->refill >= 0 || t->error)
		return body(t, context, inputs);
	if (t->frame_count == t->frame_room) {
		void *bigger = grow(t, t->frames, &t->frame_room, sizeof(*t->frames));

		if (!bigger)
			return (struct vs_var){.storage = -1, .node = -1};
		t->frames = bigger;
	}
	t->discard = (int)t->frame_count++;
	f = &t->frames[t->discard];
	*f = (struct frame){.body = body, .context = context, .input_count = count, .layer = t->layer};
	for (size_t i = 0; i < count; i++) {
		f->inputs[i] = vs_keep(t, inputs[i]);
		if (inputs[i].storage >= 0 && t->storages[inputs[i].storage].tag == VS_TAG_TEMPORARIES)
			retag(t, inputs[i].storage, VS_TAG_ACTIVATIONS);
	}
	out = body(t, context, inputs);
	t->discard = outer;
	return out;
}
