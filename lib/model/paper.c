/* SPDX-License-Identifier: MIT */
#include "model/paper.h"

#include <errno.h>
#include <stddef.h>

/* Whole [B, S, H] tensors kept for the backward of a layer: its inputs, q, k, v, the attention's output, the two
 * stages of the MLP (4 H wide each), the residuals. */
#define LINEAR_TENSORS 19
/* [B, A, S, S] tensors: scores, their softmax, the dropout's mask or result. */
#define SCORE_TENSORS 3
#define ELEMENT_BYTES 2 /* fp16, bf16 */

static int product(uint64_t *ret_product, const uint64_t *factors, size_t count)
{
	uint64_t result = 1;

	for (size_t i = 0; i < count; i++) {
		if (__builtin_mul_overflow(result, factors[i], &result))
			return -ERANGE;
	}
	*ret_product = result;
	return 0;
}

int vs_paper_fixed(uint64_t parameters, uint64_t bytes_per_parameter, uint64_t *ret_bytes)
{
	return product(ret_bytes, (uint64_t[]){parameters, bytes_per_parameter}, 2);
}

int vs_paper_activations(const struct vs_paper_shape *shape, bool checkpointing,
                         struct vs_paper_activations *ret_activations)
{
	struct vs_paper_activations result;
	uint64_t batch = shape->batch, sequence = shape->sequence, elements;

	if (!shape->layers || !shape->hidden || !shape->heads || !batch || !sequence)
		return -EINVAL;
	if (product(&result.linear_elements, (uint64_t[]){LINEAR_TENSORS, batch, sequence, shape->hidden}, 4) < 0 ||
	    product(&result.score_elements, (uint64_t[]){SCORE_TENSORS, batch, shape->heads, sequence, sequence}, 5) <
	        0 ||
	    __builtin_add_overflow(result.linear_elements, result.score_elements, &elements) ||
	    product(&result.layer_bytes, (uint64_t[]){ELEMENT_BYTES, elements}, 2) < 0 ||
	    product(&result.bytes, (uint64_t[]){result.layer_bytes, checkpointing ? 1 : shape->layers}, 2) < 0)
		return -ERANGE;
	*ret_activations = result;
	return 0;
}
