/* SPDX-License-Identifier: MIT
 *
 * The arithmetic that people do on paper before they train a transformer: bytes a parameter, and activations by
 * layer. Pure functions. What it leaves out (attention kernels that keep no scores, the loss over the vocabulary,
 * allocator, CUDA context) is what a report shows beside it.
 */
#ifndef VS_MODEL_PAPER_H
#define VS_MODEL_PAPER_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes a parameter in mixed-precision training with Adam: 16 in all. (fp32 training takes 4 + 4 + 8: 16 as well.) */
enum {
	VS_PAPER_WEIGHTS = 2,
	VS_PAPER_GRADIENTS = 2,
	VS_PAPER_MASTER = 4,  /* fp32 copy of the weights */
	VS_PAPER_MOMENTS = 8, /* Adam's two, fp32 */
	VS_PAPER_FIXED = 16,
};

/* A transformer and what is put through it. All at least 1. */
struct vs_paper_shape {
	uint64_t layers, hidden, heads;
	uint64_t batch, sequence;
};

struct vs_paper_activations {
	uint64_t linear_elements; /* of one layer: 19 B S H */
	uint64_t score_elements;  /* of one layer: 3 B A S^2 */
	uint64_t layer_bytes;     /* 2 (19 B S H + 3 B A S^2): 16-bit elements */
	uint64_t bytes;           /* of all layers; of one layer with checkpointing */
};

/* parameters x bytes_per_parameter. -ERANGE: does not fit 64 bits. */
int vs_paper_fixed(uint64_t parameters, uint64_t bytes_per_parameter, uint64_t *ret_bytes);

/* -EINVAL: a size of the shape is 0; -ERANGE: does not fit 64 bits. */
int vs_paper_activations(const struct vs_paper_shape *shape, bool checkpointing,
                         struct vs_paper_activations *ret_activations);

#endif
