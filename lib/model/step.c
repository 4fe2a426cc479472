/* SPDX-License-Identifier: MIT */
#include "model/step.h"

#include "model/network.h"
#include "model/optimizer.h"
#include "model/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS      2 /* the first has no optimizer state, every later one is like the second */
#define BLOCKS_MAX 6
#define FLIGHT_MAX 256 /* stages of a pipeline */

struct run {
	const struct vs_job *job;
	struct vs_tape *tape;
	struct vs_ops ops;
	struct vs_network *network;
	uint64_t host;
};

/* One micro-batch: forward, backward; what the step still holds of the outputs is left in `held`. */
static struct vs_var micro_batch(struct run *r)
{
	struct vs_forward f = vs_network_forward(r->network);
	struct vs_var none = {.storage = -1, .node = -1};

	if (!r->job->outputs_held)
		vs_drop(r->tape, f.logits);
	vs_tape_backward(r->tape, f.loss);
	vs_network_after_backward(r->network);
	vs_tape_clear_graph(r->tape);
	vs_drop(r->tape, f.held);
	vs_drop(r->tape, f.loss);
	return r->job->outputs_held ? f.logits : none;
}

static struct vs_forward ahead(struct run *r)
{
	vs_tape_next_graph(r->tape);
	return vs_network_forward(r->network);
}

static void back(struct run *r, const struct vs_forward *f)
{
	vs_tape_backward(r->tape, f->loss);
	vs_drop(r->tape, f->held);
	vs_drop(r->tape, f->loss);
}

/* One forward one backward, as torch.distributed.pipelining's Schedule1F1B: a stage has as many micro-batches on
 * their way as there are stages from it to the last, and gradients already once the first is back. The last stage
 * keeps every micro-batch's output for its caller. */
static void pipelined(struct run *r, uint32_t in_flight)
{
	uint32_t flying = in_flight < FLIGHT_MAX ? in_flight : FLIGHT_MAX;
	uint32_t count = r->job->accumulation > flying ? flying + 1 : flying; /* one more is like all that follow */
	struct vs_forward f[FLIGHT_MAX + 1];
	struct vs_var others = {.storage = -1};

	for (uint32_t i = 0; i < flying; i++)
		f[i] = ahead(r);
	if (r->job->accumulation > count && f[0].logits.storage >= 0)
		others = vs_new(r->tape, (r->job->accumulation - count) * f[0].logits.count, f[0].logits.size,
		                VS_TAG_OUTPUTS);
	back(r, &f[0]);
	for (uint32_t i = flying; i < count; i++)
		f[i] = ahead(r);
	for (uint32_t i = 1; i < count; i++)
		back(r, &f[i]);
	for (uint32_t i = 0; i < count; i++)
		vs_drop(r->tape, f[i].logits);
	vs_drop(r->tape, others);
	vs_network_after_backward(r->network);
	vs_tape_clear_graph(r->tape);
}

static bool steps(const struct run *r, int param)
{
	return vs_tape_param_spec(r->tape, param)->trainable;
}

static uint64_t rows_of(const struct vs_param_spec *spec)
{
	return spec->rows ? spec->rows : 1;
}

/* The optimizer's own copy is fp32 where the job keeps a master. */
static uint8_t state_size(const struct run *r, const struct vs_param_spec *spec)
{
	bool master = r->job->precision == VS_PRECISION_MASTER16 || r->job->precision == VS_PRECISION_MEGATRON;

	if (vs_shards_parameters(r->job))
		return master ? 4 : vs_shard_stored_size(r->job);
	return master ? 4 : spec->size;
}

/* Elements of a parameter that this rank's optimizer works on. */
static uint64_t own_count(const struct run *r, const struct vs_param_spec *spec)
{
	return vs_shards_states(r->job) ? vs_shard_share(r->job, spec->count) : spec->count;
}

static void state_block(struct run *r, uint64_t bytes)
{
	if (r->job->offload) {
		r->host += bytes;
		return;
	}
	vs_new(r->tape, bytes, 1, VS_TAG_OPTIMIZER); /* until the tape's end */
}

static void make_states(struct run *r)
{
	int count = (int)vs_tape_param_count(r->tape);

	for (int i = 0; i < count; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(r->tape, i);
		uint8_t size = state_size(r, spec);
		uint64_t blocks[BLOCKS_MAX];
		size_t n;

		if (!steps(r, i))
			continue;
		n = vs_optimizer_blocks(r->job->optimizer, own_count(r, spec), rows_of(spec), size, blocks,
		                        BLOCKS_MAX);
		if (r->job->optimizer == VS_OPTIMIZER_ADAMW_8BIT_PAGED && spec->count >= 100000) {
			for (size_t k = 0; k < n; k++)
				r->host += blocks[k];
			continue;
		}
		for (size_t k = 0; k < n; k++)
			state_block(r, blocks[k]);
	}
}

/* torch groups tensors by type and steps group after group: the lists of one are gone before the next. */
static void foreach_lists(struct run *r, unsigned lists)
{
	int count = (int)vs_tape_param_count(r->tape);

	for (uint8_t size = 2; size <= 4; size += 2) {
		struct vs_var *list = calloc((size_t)count * lists, sizeof(*list));
		int n = 0;

		if (!list)
			return;
		for (int i = 0; i < count * (int)lists; i++) {
			const struct vs_param_spec *spec = vs_tape_param_spec(r->tape, i % count);

			if (steps(r, i % count) && state_size(r, spec) == size)
				list[n++] = vs_new(r->tape, own_count(r, spec), size, VS_TAG_TEMPORARIES);
		}
		for (int i = 0; i < n; i++)
			vs_drop(r->tape, list[i]);
		free(list);
	}
}

static void optimizer_step(struct run *r, uint32_t step, uint64_t trainable)
{
	int count = (int)vs_tape_param_count(r->tape);
	unsigned lists = vs_optimizer_lists(r->job->optimizer, r->job->l2_decay);

	vs_tape_instant(r->tape, VS_INSTANT_OPTIMIZER);
	vs_tape_layer(r->tape, UINT32_MAX);
	if (step == 0)
		make_states(r);
	if (r->job->offload)
		return;
	vs_touch(r->tape, vs_shard_step_copies(r->job, trainable), VS_TAG_TEMPORARIES);
	if (lists && r->job->precision <= VS_PRECISION_PURE16) {
		foreach_lists(r, lists);
		return;
	}
	for (int i = 0; i < count; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(r->tape, i);

		if (steps(r, i))
			vs_touch(r->tape,
			         vs_optimizer_temporary(r->job->optimizer, r->job->l2_decay, own_count(r, spec),
			                                rows_of(spec), state_size(r, spec)),
			         VS_TAG_TEMPORARIES);
	}
}

/* Buffers that exist beside the parameters from the start. */
static void persistent_buffers(struct run *r)
{
	int count = (int)vs_tape_param_count(r->tape);
	bool master = r->job->precision == VS_PRECISION_MASTER16 || r->job->precision == VS_PRECISION_MEGATRON;

	for (int i = 0; i < count; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(r->tape, i);

		if (spec->on_host) /* the share, and its gradient's */
			r->host += spec->stored_bytes * (spec->trainable ? 2 : 1);
		if (!spec->trainable)
			continue;
		if (master)
			state_block(r, own_count(r, spec) * 4);
		if (r->job->precision == VS_PRECISION_MEGATRON)
			vs_new(r->tape, spec->count, 4, VS_TAG_GRADIENTS);
		if (r->job->ema)
			vs_new(r->tape, spec->count, spec->size, VS_TAG_WEIGHTS);
	}
}

static uint32_t in_flight(const struct vs_job *j)
{
	uint32_t behind = j->pipeline_parallel - j->stage;

	return behind < j->accumulation ? behind : j->accumulation;
}

static void run_steps(struct run *r, struct vs_forecast *e)
{
	struct vs_tape *t = r->tape;
	uint64_t trainable = e->trainable;
	uint64_t tokens = r->job->batch * r->job->seq;
	struct vs_var inputs;

	e->loaded = vs_tape_total(t);
	persistent_buffers(r);
	vs_new(t, vs_shard_persistent(r->job, trainable), 1, VS_TAG_COMMUNICATION);
	vs_new(t, vs_shard_gradient_buffer(r->job, trainable), 1, VS_TAG_GRADIENTS);
	inputs = vs_new(t, tokens, 8, VS_TAG_INPUTS);
	vs_tape_reset_peaks(t);
	for (uint32_t step = 0; step < STEPS; step++) {
		struct vs_var held = {.storage = -1};

		vs_tape_step(t, step);
		vs_tape_drop_gradients(t);
		if (step == 1)
			memcpy(e->between, vs_tape_live(t), sizeof(e->between));
		if (r->job->pipeline_parallel > 1)
			pipelined(r, in_flight(r->job));
		for (uint32_t i = 0; i < r->job->accumulation && i < 2 && r->job->pipeline_parallel == 1; i++) {
			vs_drop(t, held);
			held = micro_batch(r);
		}
		optimizer_step(r, step, trainable);
		vs_drop(t, held);
		if (step == 0) {
			for (int i = 0; i < VS_INSTANT_COUNT; i++) {
				if (vs_tape_peak(t, i)->bytes > e->first.bytes)
					e->first = *vs_tape_peak(t, i);
			}
		}
	}
	vs_drop(t, inputs);
}

static void count_parameters(struct run *r, struct vs_forecast *e)
{
	int count = (int)vs_tape_param_count(r->tape);

	for (int i = 0; i < count; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(r->tape, i);

		e->parameters += spec->count;
		if (spec->trainable)
			e->trainable += spec->count;
	}
}

static int forecast_stage(const struct vs_job *job, const struct vs_tape_memory *memory, struct vs_forecast *ret)
{
	struct run r = {.job = job};
	struct vs_forecast e = {0};
	const char *why;
	int error = vs_job_check(job, &why);

	if (!error)
		error = vs_tape_new(memory, &r.tape);
	if (error)
		return error;
	r.ops = (struct vs_ops){
	    .tape = r.tape,
	    .autocast = job->precision == VS_PRECISION_AMP && !vs_shards_parameters(job) ? 2 : 0,
	    .fp16 = job->fp16,
	    .multiprocessors = job->multiprocessors,
	    .threads_per_sm = job->threads_per_sm,
	    .gemm_workspace = job->gemm_workspace_kept ? 0 : job->gemm_workspace,
	};
	error = vs_network_new(job, &r.ops, &r.network);
	if (error) {
		vs_tape_free(r.tape);
		return error;
	}
	count_parameters(&r, &e);
	if (job->gemm_workspace_kept) { /* one for the caller's thread, one for autograd's */
		vs_new(r.tape, job->gemm_workspace, 1, VS_TAG_WORKSPACE);
		vs_new(r.tape, job->gemm_workspace, 1, VS_TAG_WORKSPACE);
	}
	run_steps(&r, &e);
	for (int i = 0; i < VS_INSTANT_COUNT; i++) {
		e.instants[i] = *vs_tape_peak(r.tape, i);
		if (e.instants[i].bytes > e.instants[e.winner].bytes)
			e.winner = i;
	}
	e.host = r.host;
	error = vs_tape_error(r.tape);
	vs_network_free(r.network);
	vs_tape_free(r.tape);
	if (!error)
		*ret = e;
	return error;
}

int vs_forecast_job(const struct vs_job *job, const struct vs_tape_memory *memory, struct vs_forecast *ret)
{
	struct vs_job stage = *job;
	struct vs_forecast first, last;
	int error;

	stage.stage = 0;
	error = forecast_stage(&stage, memory, &first);
	if (error || job->pipeline_parallel < 2) {
		if (!error)
			*ret = first;
		return error;
	}
	stage.stage = job->pipeline_parallel - 1;
	error = forecast_stage(&stage, memory, &last);
	if (error)
		return error;
	*ret = vs_forecast_peak(&first) >= vs_forecast_peak(&last) ? first : last;
	return 0;
}

uint64_t vs_forecast_peak(const struct vs_forecast *e)
{
	return e->instants[e->winner].bytes;
}
