/* SPDX-License-Identifier: MIT
 *
 * Questions about a job and a card: does it fit, on how many, what is the largest that does, what would help.
 */
#ifndef VS_MODEL_PLAN_H
#define VS_MODEL_PLAN_H

#include "model/gpu.h"
#include "model/step.h"

/* What a card has for a process's tensors. */
struct vs_room {
	uint64_t total;        /* bytes of the card; 0: no card is given, everything fits */
	uint64_t context;      /* CUDA context: assumed */
	uint64_t communicator; /* NCCL's buffers with more than one rank: assumed */
};

struct vs_room vs_room_on(const struct vs_gpu_memory *gpu);
/* Bytes for PyTorch, with this job's number of ranks. */
uint64_t vs_room_usable(const struct vs_room *room, const struct vs_job *job);
/* The job takes the kernels that this GPU offers. */
void vs_job_on(struct vs_job *job, const struct vs_gpu_memory *gpu);

/* Peak bytes; a negative errno as vs_forecast_job(). */
int vs_plan_peak(const struct vs_job *job, uint64_t *ret_bytes);
/* What PyTorch's allocator would hold for it, segments and all, where nothing limits it. */
int vs_plan_reserved(const struct vs_job *job, uint64_t *ret_bytes);
/* Does it get through its steps with the card's memory, PyTorch giving cached segments back where that helps? */
bool vs_plan_fits(const struct vs_job *job, const struct vs_room *room);
/* The largest batch, sequence (in steps of 64 tokens) that fits, all else equal; 0: not even the smallest. */
uint64_t vs_plan_largest_batch(const struct vs_job *job, const struct vs_room *room);
uint64_t vs_plan_largest_seq(const struct vs_job *job, const struct vs_room *room);
/* The largest preset of the same family that fits; NULL: none. */
const char *vs_plan_largest_model(const struct vs_job *job, const struct vs_room *room);
/* The smallest number of ranks, to 4096, with which the job fits under this sharding; 0: none does. */
uint32_t vs_plan_ranks(const struct vs_job *job, enum vs_sharding sharding, const struct vs_room *room);

struct vs_remedy {
	const char *name, *price;
	uint64_t peak; /* with it */
	int64_t saves; /* of the peak; below 0: it costs */
	bool fits;
};

/* Several remedies together, for a job that no single one helps. */
struct vs_route {
	const char *name;
	uint32_t gpus;
	uint64_t peak; /* of one GPU */
};

#define VS_ROUTES_MAX   6
#define VS_REMEDIES_MAX 24

/* What the usual remedies do to this job, most helpful first; those that change nothing here are left out. */
size_t vs_plan_remedies(const struct vs_job *job, const struct vs_room *room,
                        struct vs_remedy remedies[VS_REMEDIES_MAX]);

/* The ways that make the job fit, on the fewest GPUs first; 0: none does. They keep the model and the sequence. */
size_t vs_plan_routes(const struct vs_job *job, const struct vs_room *room, struct vs_route routes[VS_ROUTES_MAX]);

#endif
