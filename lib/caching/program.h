/* SPDX-License-Identifier: MIT
 *
 * A recording without addresses: what the program asked for, in order.
 */
#ifndef VS_CACHING_PROGRAM_H
#define VS_CACHING_PROGRAM_H

#include "caching/initial.h"
#include "caching/pool_index.h"
#include "caching/replay.h"

enum vs_op_kind {
	VS_OP_MALLOC,  /* makes block `id` */
	VS_OP_REFUSED, /* a request that the recording refused; it makes no block */
	VS_OP_FREE,
	VS_OP_DEFER, /* freed, a stream still uses it */
	VS_OP_COMPLETE,
	VS_OP_EMPTY_CACHE,
	VS_OP_POOL_FREEABLE, /* `pool` */
	VS_OP_OUTSIDE_ALLOC, /* makes outside piece `id` */
	VS_OP_OUTSIDE_FREE,
};

struct vs_op {
	uint64_t size;
	uint64_t stream;
	uint32_t event; /* of the recording */
	uint32_t id;
	uint16_t pool; /* index into the program's pools */
	uint8_t kind;
};

struct vs_replay_program {
	struct vs_op *ops;
	size_t count, capacity;
	struct vs_pool_index pools; /* [0] is {0, 0} */
	uint32_t blocks;            /* ids are below it; the first are those of the start */
	uint32_t outside;           /* likewise for outside pieces */
	struct vs_initial initial; /* pieces' blocks are not valid here: their ids go by their order among the live */
	struct vs_caching_settings settings;
	uint64_t total;
};

int vs_program_add(struct vs_replay_program *program, const struct vs_op *op);
/* The index of a pool, added where it is new. */
int vs_program_pool(struct vs_replay_program *program, const uint64_t pool[2], uint16_t *ret_index);

#endif
