/* SPDX-License-Identifier: MIT
 *
 * What other settings of the allocator, or another card, would have made of an out-of-memory error: by replay.
 */
#ifndef VS_REPORT_OOM_REPLAY_H
#define VS_REPORT_OOM_REPLAY_H

#include "oom/oom.h"
#include "oom/remedies.h"
#include "whatif.h"

struct vs_oom_replayed {
	char name[32];      /* as whatif --sweep calls it */
	char settings[128]; /* for PYTORCH_CUDA_ALLOC_CONF */
	uint64_t reserved;  /* peak, bytes */
	bool serves;        /* the request gets its memory, and so did those before */
};

struct vs_oom_sweep {
	const char *missing; /* static: why there is no replay; NULL: there is one */
	struct vs_oom_replayed
	    list[VS_WHATIF_SCENARIOS]; /* other than recorded, those that serve first, the least first */
	size_t count;
	bool partly;                          /* the time was too short for all */
	bool searched;                        /* the smallest card was looked for */
	const struct vs_gpu_memory *smallest; /* ... on which the run fits as recorded; NULL: none of the table */
	char remedies[2][192];                /* what the remedies below say */
};

/* Replay the run (or snapshot) at `path` under the settings that people are told to try, on the card as it was when
 * `oom` was the last error of PyTorch on `device`. `until_ns`: of CLOCK_MONOTONIC, 0 no limit. */
void vs_oom_sweep_run(const char *path, int device, const struct vs_oom *oom, uint64_t until_ns,
                      struct vs_oom_sweep *ret_sweep);

/* Put what the replay proves among the remedies: `sweep` must live as long as they. */
void vs_oom_sweep_remedies(const struct vs_oom *oom, struct vs_oom_sweep *sweep, struct vs_oom_remedies *remedies);

#endif
