/* SPDX-License-Identifier: MIT */
#include "model/shard.h"

/* DeepSpeed's zero_optimization defaults, in elements (0.19): reduce_bucket_size, which is allocated whole however
 * small the model is, once (overlap_comm is off); max_live_parameters and max_reuse_distance. */
#define DEEPSPEED_BUCKET 500000000
#define DEEPSPEED_LIVE   1000000000
#define DEEPSPEED_SIZE   2 /* bytes an element, bf16 or fp16 */

static const struct vs_var nothing = {.storage = -1, .node = -1};

bool vs_shards_parameters(const struct vs_job *j)
{
	return j->ranks > 1 && (j->sharding == VS_SHARDING_FSDP || j->sharding == VS_SHARDING_ZERO3);
}

bool vs_shards_gradients(const struct vs_job *j)
{
	/* DeepSpeed reduces a stage's gradients as they come; stage 1 sums up those of several micro-batches whole.
	 */
	return vs_shards_parameters(j) || (j->ranks > 1 && j->sharding == VS_SHARDING_ZERO2) ||
	       (j->ranks > 1 && j->sharding == VS_SHARDING_ZERO1 && j->accumulation == 1);
}

bool vs_shards_states(const struct vs_job *j)
{
	return vs_shards_gradients(j) || (j->ranks > 1 && j->sharding == VS_SHARDING_ZERO1);
}

bool vs_shards_on_host(const struct vs_job *j)
{
	return j->offload && j->ranks > 1 && j->sharding == VS_SHARDING_FSDP;
}

uint64_t vs_shard_share(const struct vs_job *j, uint64_t count)
{
	return (count + j->ranks - 1) / j->ranks;
}

uint8_t vs_shard_stored_size(const struct vs_job *j)
{
	/* FSDP with a mixed-precision policy keeps fp32 shares and gathers 16 bits. ZeRO-3's 16-bit shares have fp32
	 * masters beside them, which the optimizer accounts for. */
	if (j->sharding == VS_SHARDING_FSDP && j->precision != VS_PRECISION_PURE16)
		return 4;
	return vs_job_param_size(j);
}

uint64_t vs_shard_persistent(const struct vs_job *j, uint64_t trainable)
{
	if (j->ranks < 2)
		return 0;
	switch (j->sharding) {
	case VS_SHARDING_DDP: /* gradient_as_bucket_view=False: the buckets are a second copy of the gradients */
		return trainable * vs_job_param_size(j);
	case VS_SHARDING_ZERO3:
		return (uint64_t)DEEPSPEED_SIZE * DEEPSPEED_BUCKET;
	default:
		return 0;
	}
}

uint64_t vs_shard_gradient_buffer(const struct vs_job *j, uint64_t trainable)
{
	bool flat = j->ranks > 1 && j->sharding == VS_SHARDING_ZERO3;

	return flat ? DEEPSPEED_SIZE * vs_shard_share(j, trainable) : 0;
}

uint64_t vs_shard_step_copies(const struct vs_job *j, uint64_t trainable)
{
	bool flat = j->ranks > 1 && (j->sharding == VS_SHARDING_ZERO1 || j->sharding == VS_SHARDING_ZERO2);

	/* stage_1_and_2.py, step(): the share's gradients are flattened, and the flat one is cast to fp32. */
	return flat ? (DEEPSPEED_SIZE + 4) * vs_shard_share(j, trainable) : 0;
}

void vs_unit_init(struct vs_unit *u, const struct vs_job *job, struct vs_unit *root, int first, int last)
{
	*u = (struct vs_unit){.job = job,
	                      .root = root,
	                      .first = first,
	                      .last = last,
	                      .whole = nothing,
	                      .buffer = nothing,
	                      .reducing = nothing,
	                      .arriving = nothing};
}

static uint64_t elements(const struct vs_tape *t, const struct vs_unit *u, bool trainable)
{
	uint64_t sum = 0;

	for (int i = u->first; i < u->last; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(t, i);

		if (spec->trainable || !trainable)
			sum += vs_shard_share(u->job, spec->count) * u->job->ranks;
	}
	return sum;
}

void vs_units_keep(const struct vs_tape *t, const struct vs_job *j, struct vs_unit *units, size_t count)
{
	uint64_t after;

	if (j->ranks < 2 || j->sharding != VS_SHARDING_ZERO3 || !count)
		return;
	after = elements(t, units[0].root, false);
	for (size_t i = count; i-- > 0;) {
		after += elements(t, &units[i], false);
		units[i].keeps = after <= DEEPSPEED_LIVE;
	}
}

static void gather(struct vs_tape *t, struct vs_unit *u)
{
	if (!u->gathered && u->buffer.storage < 0)
		u->buffer = vs_new(t, elements(t, u, false), vs_job_compute_size(u->job), VS_TAG_COMMUNICATION);
}

static void copy_out(struct vs_tape *t, struct vs_unit *u)
{
	if (u->gathered)
		return;
	u->whole = vs_new(t, elements(t, u, false), vs_job_compute_size(u->job), VS_TAG_WEIGHTS);
	u->gathered = true;
}

static void reshard(struct vs_tape *t, struct vs_unit *u)
{
	vs_drop(t, u->whole);
	u->whole = nothing;
	u->gathered = false;
}

void vs_unit_before_forward(struct vs_tape *t, struct vs_unit *u)
{
	if (!vs_shards_parameters(u->job) || u->gathered)
		return;
	gather(t, u);
	/* The buffer before is given back only now, so that its copy may overlap this gathering. */
	vs_drop(t, u->root->arriving);
	u->root->arriving = nothing;
	copy_out(t, u);
	u->root->arriving = u->buffer;
	u->buffer = nothing;
}

void vs_unit_after_forward(struct vs_tape *t, struct vs_unit *u)
{
	if (vs_shards_parameters(u->job) && !u->keeps)
		reshard(t, u);
}

/* ZeRO-1 and 2 average a full bucket in a copy of what is in it. */
static void flush_bucket(struct vs_tape *t, struct vs_unit *root)
{
	if (root->waiting)
		vs_touch(t, root->waiting * DEEPSPEED_SIZE, VS_TAG_TEMPORARIES);
	root->waiting = 0;
}

/* The whole gradients of a unit, as far as there are any yet, give way to this rank's share. */
static void reduce_gradients(struct vs_tape *t, const struct vs_unit *u)
{
	uint8_t size = vs_shard_stored_size(u->job);

	for (int i = u->first; i < u->last; i++) {
		uint64_t count = vs_tape_param_spec(t, i)->count, share = vs_shard_share(u->job, count) * size;

		if (!vs_shards_parameters(u->job) && vs_tape_has_gradient(t, i)) {
			if (u->root->waiting + count > DEEPSPEED_BUCKET)
				flush_bucket(t, u->root);
			u->root->waiting += count;
		}
		/* ZeRO-3 has a buffer for the shares from the start. */
		if (u->job->sharding == VS_SHARDING_ZERO3 || vs_shards_on_host(u->job))
			share = 0;
		vs_tape_reduce_gradient(t, i, share);
	}
}

/* ZeRO-1 and 2: a bucket that the gradients are copied to comes with the first of them, the output projection's. */
static void begin_reducing(struct vs_tape *t, struct vs_unit *root)
{
	if (root->reducing.storage >= 0)
		return;
	root->reducing = vs_new(t, DEEPSPEED_BUCKET, DEEPSPEED_SIZE, VS_TAG_GRADIENTS);
	reduce_gradients(t, root);
}

void vs_unit_before_backward(struct vs_tape *t, void *context)
{
	struct vs_unit *u = context;

	if (vs_shards_gradients(u->job) && !vs_shards_parameters(u->job))
		begin_reducing(t, u->root);
	if (!vs_shards_parameters(u->job))
		return;
	gather(t, u);
	copy_out(t, u);
	vs_drop(t, u->buffer);
	u->buffer = nothing;
	if (u->previous)
		gather(t, u->previous);
}

void vs_unit_after_backward(struct vs_tape *t, void *context)
{
	struct vs_unit *u = context;

	if (!vs_shards_gradients(u->job))
		return;
	if (vs_shards_parameters(u->job)) {
		reshard(t, u);
		if (u->job->sharding == VS_SHARDING_FSDP) {
			vs_drop(t, u->root->reducing);
			u->root->reducing =
			    vs_new(t, elements(t, u, true), vs_job_compute_size(u->job), VS_TAG_COMMUNICATION);
		}
	}
	reduce_gradients(t, u);
}

void vs_unit_settle(struct vs_tape *t, struct vs_unit *root)
{
	flush_bucket(t, root);
	vs_drop(t, root->reducing);
	vs_drop(t, root->arriving);
	root->reducing = root->arriving = nothing;
}
