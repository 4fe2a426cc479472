/* SPDX-License-Identifier: MIT
 *
 * Which pool each event was about, for recordings that do not say.
 */
#ifndef VS_CACHING_LIVES_H
#define VS_CACHING_LIVES_H

#include "caching/program.h"

#define VS_NO_POOL UINT16_MAX
#define VS_NO_LIFE UINT32_MAX

/* A segment from the event that made it, or from the start, to the one that released it, or to the end. */
struct vs_life {
	uint64_t address;
	uint64_t size;   /* of an expandable segment: as far as it was ever mapped */
	uint64_t mapped; /* bytes; at 0 it is gone */
	uint64_t stream;
	bool expandable, small, released;
	uint16_t pool; /* of the program */
};

struct vs_lives {
	struct vs_life *all;
	size_t count, capacity;
	uint32_t *of_event;   /* VS_NO_LIFE: none */
	uint32_t *of_initial; /* ... and of each segment of the start */
	uint32_t *alive;      /* by address */
	size_t alive_count, alive_capacity;
};

/* *ret_pools: the program's pool of each event, malloc'ed, VS_NO_POOL for refusals that nothing tells about; NULL
 * where all are in the default pools. The segments of the start get theirs too. -ENOMEM. */
int vs_lives_find_pools(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                        uint16_t **ret_pools);

#endif
