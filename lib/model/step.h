/* SPDX-License-Identifier: MIT
 *
 * Whole training steps of a job on a tape: what is live at each named instant, and which of them is the peak.
 */
#ifndef VS_MODEL_STEP_H
#define VS_MODEL_STEP_H

#include "model/job.h"

struct vs_forecast {
	struct vs_peak instants[VS_INSTANT_COUNT]; /* the highest of the steps, each */
	enum vs_instant winner;
	struct vs_peak first;           /* the first step's own peak: no optimizer state yet */
	uint64_t loaded;                /* after the parameters are made */
	uint64_t between[VS_TAG_COUNT]; /* what lives between two steps */
	uint64_t parameters, trainable; /* of this rank, elements */
	uint64_t saved_per_layer;       /* activations a middle layer keeps for its backward */
	uint64_t host;                  /* bytes offloaded to host memory */
};

/* `memory` may be NULL (512-byte rounding alone). -EINVAL: the job does not pass vs_job_check(); -ENOMEM; -E2BIG. */
int vs_forecast_job(const struct vs_job *job, const struct vs_tape_memory *memory, struct vs_forecast *ret);

/* The peak's bytes: of the winning instant. */
uint64_t vs_forecast_peak(const struct vs_forecast *estimate);

#endif
