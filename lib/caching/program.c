/* SPDX-License-Identifier: MIT */
#include "caching/program.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"

#define MAX_POOLS UINT16_MAX

int vs_program_add(struct vs_replay_program *program, const struct vs_op *op)
{
	if (vs_grow(&program->ops, &program->capacity, program->count + 1, sizeof(*program->ops)) < 0)
		return -ENOMEM;
	program->ops[program->count++] = *op;
	return 0;
}

int vs_program_pool(struct vs_replay_program *program, const uint64_t pool[2], uint16_t *ret_index)
{
	uint32_t index;
	int r = vs_pool_index_get(&program->pools, pool[0], pool[1], &index);

	if (r < 0 || index >= MAX_POOLS)
		return r < 0 ? r : -EOVERFLOW;
	*ret_index = (uint16_t)index;
	return 0;
}

void vs_replay_program_free(struct vs_replay_program *program)
{
	if (!program)
		return;
	free(program->ops);
	vs_pool_index_done(&program->pools);
	vs_initial_done(&program->initial);
	free(program);
}

void vs_replay_scale(struct vs_replay_program *program, const unsigned char *marked, double factor)
{
	for (size_t i = 0; i < program->count; i++) {
		struct vs_op *op = &program->ops[i];
		double size = (double)op->size * factor;

		if ((op->kind == VS_OP_MALLOC || op->kind == VS_OP_REFUSED) && marked[op->event])
			op->size = size < 0x1p63 ? (uint64_t)size : UINT64_C(1) << 63;
	}
}
