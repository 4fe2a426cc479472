/* SPDX-License-Identifier: MIT */
#include "model/plan.h"

#include "model/allocator.h"
#include "model/preset.h"

#include <errno.h>
#include <stdlib.h>

/* Measured at 544 to 688 MB a communicator on A100s; depends on NCCL's version and the number of channels. */
#define COMMUNICATOR (UINT64_C(620) << 20)
/* cuBLAS's default workspace: 32 MiB on compute capability 9.0 and, in recent releases, above. */
#define WORKSPACE_HOPPER (UINT64_C(32) << 20)
#define RANKS_MAX        4096
#define SEQ_STEP         64

struct vs_room vs_room_on(const struct vs_gpu_memory *gpu)
{
	return (struct vs_room){.total = gpu->total, .context = gpu->context, .communicator = COMMUNICATOR};
}

void vs_job_on(struct vs_job *j, const struct vs_gpu_memory *gpu)
{
	j->compute_capability = gpu->compute_capability;
	j->multiprocessors = gpu->multiprocessors;
	j->threads_per_sm = gpu->threads_per_sm;
	if (gpu->compute_capability >= 90)
		j->gemm_workspace = WORKSPACE_HOPPER;
}

uint64_t vs_room_usable(const struct vs_room *room, const struct vs_job *j)
{
	uint64_t taken = room->context;

	if (!room->total)
		return UINT64_MAX;
	if ((uint64_t)j->ranks * j->tensor_parallel * j->pipeline_parallel > 1)
		taken += room->communicator;
	return room->total > taken ? room->total - taken : 0;
}

int vs_plan_peak(const struct vs_job *j, uint64_t *ret_bytes)
{
	struct vs_forecast f;
	int error = vs_forecast_job(j, NULL, &f);

	if (!error)
		*ret_bytes = vs_forecast_peak(&f);
	return error;
}

/* The job with so many bytes for PyTorch's allocator, segments and all; -ENOMEM where it runs out. */
static int reserve(const struct vs_job *j, uint64_t capacity, uint64_t *ret_bytes)
{
	struct vs_allocator *allocator;
	struct vs_tape_memory memory;
	struct vs_forecast f;
	int error = vs_allocator_new(capacity, &allocator);

	if (error)
		return error;
	memory = vs_allocator_memory(allocator);
	error = vs_forecast_job(j, &memory, &f);
	if (!error)
		*ret_bytes = vs_allocator_reserved(allocator);
	vs_allocator_free(allocator);
	return error;
}

int vs_plan_reserved(const struct vs_job *j, uint64_t *ret_bytes)
{
	return reserve(j, UINT64_MAX, ret_bytes);
}

/* Does a job of this peak fit? Blocks beyond the card settle it; so does a card twice as large, for segments take
 * some percent more than blocks, never as much again. In between it is played. */
static bool holds(const struct vs_job *j, const struct vs_room *room, uint64_t peak)
{
	uint64_t usable = vs_room_usable(room, j), reserved;

	if (peak > usable)
		return false;
	return peak <= usable / 2 || !reserve(j, usable, &reserved);
}

bool vs_plan_fits(const struct vs_job *j, const struct vs_room *room)
{
	uint64_t peak;

	return !vs_plan_peak(j, &peak) && holds(j, room, peak);
}

typedef void set_size(struct vs_job *job, uint64_t value);

static void set_batch(struct vs_job *j, uint64_t value)
{
	j->batch = value;
}

static void set_seq(struct vs_job *j, uint64_t value)
{
	j->seq = value * SEQ_STEP;
}

/* The largest value from 1 to `limit` that fits; memory grows with it. */
static uint64_t largest(const struct vs_job *job, const struct vs_room *room, set_size *set, uint64_t limit)
{
	struct vs_job j = *job;
	uint64_t low = 0, high = 1;

	while (high <= limit && (set(&j, high), vs_plan_fits(&j, room))) {
		low = high;
		high *= 2;
	}
	if (high > limit)
		high = limit + 1;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		set(&j, middle);
		if (vs_plan_fits(&j, room))
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint64_t vs_plan_largest_batch(const struct vs_job *j, const struct vs_room *room)
{
	return largest(j, room, set_batch, 1 << 20);
}

uint64_t vs_plan_largest_seq(const struct vs_job *j, const struct vs_room *room)
{
	uint64_t limit = j->shape.positions ? j->shape.positions : 1 << 24;

	if (j->shape.family == VS_FAMILY_VIT)
		return 0;
	return largest(j, room, set_seq, limit / SEQ_STEP) * SEQ_STEP;
}

const char *vs_plan_largest_model(const struct vs_job *job, const struct vs_room *room)
{
	const char *best = NULL, *name;
	uint64_t most = 0;
	struct vs_job j = *job;

	for (size_t i = 0; (name = vs_preset_at(i, &j.shape)); i++) {
		uint64_t count = vs_shape_count(&j.shape);

		if (j.shape.family == job->shape.family && count > most && vs_plan_fits(&j, room)) {
			most = count;
			best = name;
		}
	}
	return best;
}

uint32_t vs_plan_ranks(const struct vs_job *job, enum vs_sharding sharding, const struct vs_room *room)
{
	struct vs_job j = *job;
	uint32_t low = 0, high = 1;

	j.sharding = sharding;
	for (;; high *= 2) {
		j.ranks = high;
		if (vs_plan_fits(&j, room))
			break;
		low = high;
		if (high == RANKS_MAX)
			return 0;
	}
	while (high - low > 1) {
		j.ranks = low + (high - low) / 2;
		if (vs_plan_fits(&j, room))
			high = j.ranks;
		else
			low = j.ranks;
	}
	return high;
}

static bool one_by_one(struct vs_job *j)
{
	j->batch = 1;
	return true;
}

static bool checkpoint(struct vs_job *j)
{
	j->checkpointing = VS_CHECKPOINTING_FULL;
	return true;
}

static bool selective(struct vs_job *j)
{
	j->checkpointing = VS_CHECKPOINTING_SELECTIVE;
	return true;
}

static bool half_weights(struct vs_job *j)
{
	if (j->precision != VS_PRECISION_FP32 && j->precision != VS_PRECISION_AMP)
		return false;
	j->precision = VS_PRECISION_MASTER16;
	return true;
}

static bool autocast(struct vs_job *j)
{
	if (j->precision != VS_PRECISION_FP32)
		return false;
	j->precision = VS_PRECISION_AMP;
	return true;
}

static bool pure_half(struct vs_job *j)
{
	j->precision = VS_PRECISION_PURE16;
	return true;
}

static bool fused_step(struct vs_job *j)
{
	if (j->optimizer != VS_OPTIMIZER_ADAMW && j->optimizer != VS_OPTIMIZER_ADAMW_LOOP)
		return false;
	j->optimizer = VS_OPTIMIZER_ADAMW_FUSED;
	return true;
}

static bool adam(const struct vs_job *j)
{
	return j->optimizer == VS_OPTIMIZER_ADAMW || j->optimizer == VS_OPTIMIZER_ADAMW_LOOP ||
	       j->optimizer == VS_OPTIMIZER_ADAMW_FUSED;
}

static bool eight_bits(struct vs_job *j)
{
	if (!adam(j))
		return false;
	j->optimizer = VS_OPTIMIZER_ADAMW_8BIT;
	return true;
}

static bool one_moment(struct vs_job *j)
{
	if (!adam(j))
		return false;
	j->optimizer = VS_OPTIMIZER_MOMENTUM;
	return true;
}

static bool fused_attention(struct vs_job *j)
{
	if (j->attention != VS_ATTENTION_EAGER && j->attention != VS_ATTENTION_MATH)
		return false;
	j->attention = VS_ATTENTION_AUTO;
	return true;
}

static bool fused_loss(struct vs_job *j)
{
	j->loss_chunks = 8;
	return true;
}

static bool offload(struct vs_job *j)
{
	j->offload = true;
	return true;
}

static bool adapter(struct vs_job *j)
{
	if (j->lora_rank)
		return false;
	j->lora_rank = 16;
	j->lora_targets = VS_LORA_ALL;
	j->input_grads = true;
	return true;
}

static bool adapter_4bit(struct vs_job *j)
{
	adapter(j);
	j->quantization = VS_QUANTIZATION_NF4;
	j->precision = VS_PRECISION_PURE16;
	return true;
}

static bool shard(struct vs_job *j, enum vs_sharding sharding)
{
	j->sharding = sharding;
	j->ranks = j->ranks < 8 ? 8 : j->ranks;
	return true;
}

static bool zero1(struct vs_job *j)
{
	return shard(j, VS_SHARDING_ZERO1);
}

static bool zero2(struct vs_job *j)
{
	return shard(j, VS_SHARDING_ZERO2);
}

static bool zero3(struct vs_job *j)
{
	return shard(j, VS_SHARDING_ZERO3);
}

static bool fsdp(struct vs_job *j)
{
	return shard(j, VS_SHARDING_FSDP);
}

static const struct {
	const char *name, *price;
	bool (*apply)(struct vs_job *);
} remedies_known[] = {
    {"micro-batch of 1, accumulate gradients", "more steps for the same data", one_by_one},
    {"checkpointing, full", "20-30 % slower", checkpoint},
    {"checkpointing, attention alone", "a few percent slower", selective},
    {"autocast (AMP)", "parameters and states stay fp32", autocast},
    {"16-bit weights and gradients, fp32 master", "little: parameters and states still take 16 bytes", half_weights},
    {"pure bf16, states too", "small updates are lost to rounding", pure_half},
    {"fused optimizer step", "none", fused_step},
    {"8-bit Adam", "may change convergence", eight_bits},
    {"SGD with momentum", "no second moment: other convergence", one_moment},
    {"fused attention (SDPA)", "none", fused_attention},
    {"fused loss in 8 pieces", "another loss function", fused_loss},
    {"optimizer states on the CPU", "the step waits for PCIe", offload},
    {"ZeRO-1 on 8 GPUs", "needs the GPUs", zero1},
    {"ZeRO-2 on 8 GPUs", "needs the GPUs", zero2},
    {"ZeRO-3 on 8 GPUs", "needs the GPUs, gathers every layer", zero3},
    {"FSDP on 8 GPUs", "needs the GPUs, gathers every layer", fsdp},
    {"LoRA, rank 16, all matrices", "trains an adapter, not the model", adapter},
    {"QLoRA, NF4", "trains an adapter on a quantised model", adapter_4bit},
};

static int by_saving(const void *a, const void *b)
{
	const struct vs_remedy *x = a, *y = b;

	return (x->saves < y->saves) - (x->saves > y->saves);
}

size_t vs_plan_remedies(const struct vs_job *job, const struct vs_room *room,
                        struct vs_remedy remedies[VS_REMEDIES_MAX])
{
	size_t count = 0;
	uint64_t now;

	if (vs_plan_peak(job, &now))
		return 0;
	for (size_t i = 0; i < sizeof(remedies_known) / sizeof(remedies_known[0]) && count < VS_REMEDIES_MAX; i++) {
		struct vs_job j = *job;
		struct vs_remedy *r = &remedies[count];

		if (!remedies_known[i].apply(&j) || vs_plan_peak(&j, &r->peak) || r->peak == now)
			continue;
		r->name = remedies_known[i].name;
		r->price = remedies_known[i].price;
		r->saves = (int64_t)(now - r->peak);
		r->fits = holds(&j, room, r->peak);
		count++;
	}
	qsort(remedies, count, sizeof(*remedies), by_saving);
	return count;
}

/* What costs little beside time: the least a job of this model takes while all its parameters train. */
static bool sparing(struct vs_job *j)
{
	one_by_one(j);
	checkpoint(j);
	fused_attention(j);
	if (!j->quantization)
		fused_step(j);
	return true;
}

static bool sparing_8bit(struct vs_job *j)
{
	return sparing(j) && eight_bits(j);
}

static bool sparing_offload(struct vs_job *j)
{
	return sparing(j) && offload(j);
}

static bool sparing_adapter(struct vs_job *j)
{
	return sparing(j) && adapter(j);
}

static bool sparing_adapter_4bit(struct vs_job *j)
{
	return sparing(j) && !j->lora_rank && adapter_4bit(j);
}

static const struct {
	const char *name;
	bool (*apply)(struct vs_job *);
	bool sharded; /* over as few GPUs as will do */
} routes_known[] = {
    {"batch 1, full checkpointing", sparing},
    {"batch 1, full checkpointing, 8-bit Adam", sparing_8bit},
    {"batch 1, full checkpointing, optimizer states on the CPU", sparing_offload},
    {"batch 1, full checkpointing, LoRA of rank 16", sparing_adapter},
    {"batch 1, full checkpointing, QLoRA (NF4) of rank 16", sparing_adapter_4bit},
    {"batch 1, full checkpointing, FSDP", sparing, true},
};
_Static_assert(sizeof(routes_known) / sizeof(routes_known[0]) <= VS_ROUTES_MAX, "room for every route");

size_t vs_plan_routes(const struct vs_job *job, const struct vs_room *room, struct vs_route routes[VS_ROUTES_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(routes_known) / sizeof(routes_known[0]); i++) {
		struct vs_job j = *job;
		struct vs_route *r = &routes[count];

		if (!routes_known[i].apply(&j))
			continue;
		if (routes_known[i].sharded) {
			j.ranks = vs_plan_ranks(&j, VS_SHARDING_FSDP, room);
			j.sharding = VS_SHARDING_FSDP;
		}
		if (!j.ranks || vs_plan_peak(&j, &r->peak) || !holds(&j, room, r->peak))
			continue;
		r->name = routes_known[i].name;
		r->gpus = j.ranks * j.tensor_parallel * j.pipeline_parallel;
		count++;
	}
	return count;
}
