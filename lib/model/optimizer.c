/* SPDX-License-Identifier: MIT */
#include "model/optimizer.h"

/* bitsandbytes 0.50: states of fewer elements stay fp32; blocks of 256 share an fp32 constant; paged from 1e5 up. */
#define BNB_MIN_8BIT 4096
#define BNB_BLOCK    256
#define BNB_PAGED    100000
/* torchao: 4-bit states in blocks of 128. */
#define AO_4BIT_BLOCK 128

static size_t put(uint64_t *blocks, size_t count, size_t room, uint64_t bytes)
{
	if (count < room && bytes)
		blocks[count++] = bytes;
	return count;
}

/* Two moments as bytes, and a constant a block for each. */
static size_t quantized(uint64_t *blocks, size_t room, uint64_t count, uint64_t block, unsigned bits)
{
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		n = put(blocks, n, room, (count * bits + 7) / 8);
		n = put(blocks, n, room, (count + block - 1) / block * 4);
	}
	return n;
}

size_t vs_optimizer_blocks(enum vs_optimizer optimizer, uint64_t count, uint64_t rows, uint8_t size, uint64_t *blocks,
                           size_t room)
{
	size_t n = 0;

	switch (optimizer) {
	case VS_OPTIMIZER_SGD:
	case VS_OPTIMIZER_COUNT:
		return 0;
	case VS_OPTIMIZER_MOMENTUM:
	case VS_OPTIMIZER_LION:
		return put(blocks, 0, room, count * size);
	case VS_OPTIMIZER_MUON: /* matrices have a momentum, everything else AdamW's two moments */
		n = put(blocks, 0, room, count * size);
		return rows > 1 ? n : put(blocks, n, room, count * size);
	case VS_OPTIMIZER_ADAFACTOR: /* a row and a column of variances; vectors keep theirs whole */
		if (rows <= 1)
			return put(blocks, 0, room, count * size);
		n = put(blocks, 0, room, rows * size);
		return put(blocks, n, room, count / rows * size);
	case VS_OPTIMIZER_ADAMW_8BIT:
	case VS_OPTIMIZER_ADAMW_8BIT_PAGED:
		if (count >= BNB_MIN_8BIT)
			return quantized(blocks, room, count, BNB_BLOCK, 8);
		n = put(blocks, 0, room, count * 4);
		return put(blocks, n, room, count * 4);
	case VS_OPTIMIZER_ADAMW_4BIT:
		if (count >= BNB_MIN_8BIT)
			return quantized(blocks, room, count, AO_4BIT_BLOCK, 4);
		n = put(blocks, 0, room, count * size);
		return put(blocks, n, room, count * size);
	case VS_OPTIMIZER_ADAMW:
	case VS_OPTIMIZER_ADAMW_FUSED:
	case VS_OPTIMIZER_ADAMW_LOOP:
		break;
	}
	n = put(blocks, 0, room, count * size);
	n = put(blocks, n, room, count * size);
	if (optimizer == VS_OPTIMIZER_ADAMW_FUSED)
		n = put(blocks, n, room, 4); /* the step counter lives on the device */
	return n;
}

double vs_optimizer_bytes(enum vs_optimizer optimizer, uint8_t size)
{
	switch (optimizer) {
	case VS_OPTIMIZER_SGD:
	case VS_OPTIMIZER_ADAFACTOR:
	case VS_OPTIMIZER_COUNT:
		return 0;
	case VS_OPTIMIZER_MOMENTUM:
	case VS_OPTIMIZER_LION:
	case VS_OPTIMIZER_MUON:
		return size;
	case VS_OPTIMIZER_ADAMW_8BIT:
	case VS_OPTIMIZER_ADAMW_8BIT_PAGED:
		return 2 * (1 + 4.0 / BNB_BLOCK);
	case VS_OPTIMIZER_ADAMW_4BIT:
		return 2 * (0.5 + 4.0 / AO_4BIT_BLOCK);
	case VS_OPTIMIZER_ADAMW:
	case VS_OPTIMIZER_ADAMW_FUSED:
	case VS_OPTIMIZER_ADAMW_LOOP:
		break;
	}
	return 2 * size;
}

unsigned vs_optimizer_lists(enum vs_optimizer optimizer, bool l2_decay)
{
	switch (optimizer) {
	/* torch/optim/adam.py: exp_avg_sq_sqrt = torch._foreach_sqrt(exp_avg_sqs); the copies of the gradients, which
	 * decay makes, are deleted before. */
	case VS_OPTIMIZER_ADAMW:
		return 1;
	case VS_OPTIMIZER_SGD: /* in place, but for device_grads = torch._foreach_add(device_grads, device_params) */
	case VS_OPTIMIZER_MOMENTUM:
		return l2_decay;
	default:
		return 0;
	}
}

bool vs_optimizer_takes_l2(enum vs_optimizer optimizer)
{
	return optimizer <= VS_OPTIMIZER_MOMENTUM;
}

uint64_t vs_optimizer_temporary(enum vs_optimizer optimizer, bool l2_decay, uint64_t count, uint64_t rows,
                                uint8_t size)
{
	uint64_t columns = rows ? count / rows : count, narrow = rows < columns ? rows : columns;

	switch (optimizer) {
	case VS_OPTIMIZER_ADAMW_LOOP: /* denom = (exp_avg_sq.sqrt() / c).add_(eps): the root and the quotient */
		return (2 + l2_decay) * count * size;
	case VS_OPTIMIZER_LION: /* lion-pytorch: a copy of the average, and its sum with the gradient */
		return 2 * count * size;
	case VS_OPTIMIZER_ADAFACTOR: /* the variance as a whole, which becomes the update */
		return count * size;
	case VS_OPTIMIZER_MUON: /* the update, Newton-Schulz's X and its successor in 16 bits, and two Gram matrices
	                         */
		return rows > 1 ? count * size + 2 * count * 2 + 2 * narrow * narrow * 2 : 2 * count * size;
	default:
		return 0;
	}
}
