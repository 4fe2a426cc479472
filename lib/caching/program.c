/* SPDX-License-Identifier: MIT */
#include "caching/program.h"

#include <stdlib.h>

#define MAX_POOLS UINT16_MAX

static int grow(void *array_pointer, size_t count, size_t *capacity, size_t width)
{
	void **array = array_pointer;
	size_t grown = *capacity ? *capacity * 2 : 64;
	void *fresh;

	if (count < *capacity)
		return 0;
	fresh = reallocarray(*array, grown, width);
	if (!fresh)
		return -ENOMEM;
	*array = fresh;
	*capacity = grown;
	return 0;
}

int vs_program_add(struct vs_replay_program *program, const struct vs_op *op)
{
	if (grow(&program->ops, program->count, &program->capacity, sizeof(*program->ops)) < 0)
		return -ENOMEM;
	program->ops[program->count++] = *op;
	return 0;
}

int vs_program_pool(struct vs_replay_program *program, const uint64_t pool[2], uint16_t *ret_index)
{
	for (size_t i = program->pool_count; i-- > 0;) {
		if (program->pools[i].first == pool[0] && program->pools[i].second == pool[1]) {
			*ret_index = (uint16_t)i;
			return 0;
		}
	}
	if (program->pool_count == MAX_POOLS)
		return -EOVERFLOW;
	if (grow(&program->pools, program->pool_count, &program->pool_capacity, sizeof(*program->pools)) < 0)
		return -ENOMEM;
	program->pools[program->pool_count] = (struct vs_program_pool){pool[0], pool[1]};
	*ret_index = (uint16_t)program->pool_count++;
	return 0;
}

void vs_replay_program_free(struct vs_replay_program *program)
{
	if (!program)
		return;
	free(program->ops);
	free(program->pools);
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
