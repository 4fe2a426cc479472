/* SPDX-License-Identifier: MIT */
#include "model/shard.h"

/* DeepSpeed's zero_optimization defaults: reduce_bucket_size and, with overlap_comm, a second such bucket. */
#define DEEPSPEED_BUCKET  500000000
#define DEEPSPEED_BUCKETS 2

static const struct vs_var nothing = {.storage = -1, .node = -1};

bool vs_shards_parameters(const struct vs_job *j)
{
	return j->ranks > 1 && (j->sharding == VS_SHARDING_FSDP || j->sharding == VS_SHARDING_ZERO3);
}

bool vs_shards_gradients(const struct vs_job *j)
{
	return vs_shards_parameters(j) || (j->ranks > 1 && j->sharding == VS_SHARDING_ZERO2);
}

bool vs_shards_states(const struct vs_job *j)
{
	return vs_shards_gradients(j) || (j->ranks > 1 && j->sharding == VS_SHARDING_ZERO1);
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
	uint64_t bucket = trainable < DEEPSPEED_BUCKET ? trainable : DEEPSPEED_BUCKET;

	if (j->ranks < 2)
		return 0;
	switch (j->sharding) {
	case VS_SHARDING_DDP: /* gradient_as_bucket_view=False: the buckets are a second copy of the gradients */
		return trainable * vs_job_param_size(j);
	case VS_SHARDING_ZERO1:
	case VS_SHARDING_ZERO2:
		return DEEPSPEED_BUCKETS * bucket * 2;
	case VS_SHARDING_ZERO3:
		return bucket * 2;
	default:
		return 0;
	}
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

void vs_unit_before_backward(struct vs_tape *t, void *context)
{
	struct vs_unit *u = context;

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
	uint8_t size = vs_shard_stored_size(u->job);

	if (!vs_shards_gradients(u->job))
		return;
	if (vs_shards_parameters(u->job)) {
		reshard(t, u);
		vs_drop(t, u->root->reducing);
		u->root->reducing =
		    vs_new(t, elements(t, u, true), vs_job_compute_size(u->job), VS_TAG_COMMUNICATION);
	}
	for (int i = u->first; i < u->last; i++) {
		const struct vs_param_spec *spec = vs_tape_param_spec(t, i);

		vs_tape_reduce_gradient(t, i, vs_shard_share(u->job, spec->count) * size);
	}
}

void vs_unit_settle(struct vs_tape *t, struct vs_unit *root)
{
	vs_drop(t, root->reducing);
	vs_drop(t, root->arriving);
	root->reducing = root->arriving = nothing;
}
