/* SPDX-License-Identifier: MIT
 *
 * PyTorch's operators as they appear on a tape: what each allocates, saves and gives back. Every function returns a
 * new handle and leaves its inputs to the caller. Sizes of saved tensors and gradients are those of torch 2.x's
 * autograd (tools/autograd/derivatives.yaml) and of its CUDA kernels.
 */
#ifndef VS_MODEL_OPS_H
#define VS_MODEL_OPS_H

#include "model/tape.h"

enum vs_attention {
	VS_ATTENTION_AUTO,  /* what scaled_dot_product_attention chooses */
	VS_ATTENTION_EAGER, /* matmul, softmax, matmul */
	VS_ATTENTION_FLASH,
	VS_ATTENTION_EFFICIENT,
	VS_ATTENTION_MATH,
};

struct vs_ops {
	struct vs_tape *tape;
	uint8_t autocast; /* bytes an element autocast computes in; 0: off */
	bool fp16;        /* the 16-bit type is fp16, not bf16 */
	uint32_t multiprocessors, threads_per_sm;
	uint64_t gemm_workspace; /* that cuBLAS takes from the allocator in every call; 0: kept elsewhere */
};

/* y = x w^T + b over the last dimension; b: -1 for none. */
struct vs_linear {
	int weight, bias;
	int lora_a, lora_b; /* -1: no adapter */
	uint64_t in, out;
	uint32_t rank;
	bool quantized; /* 4-bit: dequantised into a temporary in forward and backward */
};

#define VS_NO_LINEAR ((struct vs_linear){.weight = -1, .bias = -1, .lora_a = -1, .lora_b = -1})

/* What summing `rows` x `cols` over the rows allocates beside its result. */
uint64_t vs_reduce_workspace(const struct vs_ops *ops, uint64_t rows, uint64_t cols);

struct vs_var vs_op_cast(struct vs_ops *ops, struct vs_var x, uint8_t size);
struct vs_var vs_op_linear(struct vs_ops *ops, const struct vs_linear *linear, struct vs_var x);
/* The larger shape and type win; the other's gradient is reduced to its own. */
struct vs_var vs_op_add(struct vs_ops *ops, struct vs_var x, struct vs_var y);
struct vs_var vs_op_mul(struct vs_ops *ops, struct vs_var x, struct vs_var y);
/* One kernel that keeps nothing: times a number, plus a constant; result in `size` bytes an element (0: as x). */
struct vs_var vs_op_pointwise(struct vs_ops *ops, struct vs_var x, uint8_t size);
/* One kernel that keeps its input (silu, gelu) or its output (relu, tanh, exp). */
struct vs_var vs_op_unary_input(struct vs_ops *ops, struct vs_var x);
struct vs_var vs_op_unary_output(struct vs_ops *ops, struct vs_var x);
struct vs_var vs_op_power(struct vs_ops *ops, struct vs_var x);
/* The tanh form of GELU spelled out in Python: eight kernels. */
struct vs_var vs_op_gelu_python(struct vs_ops *ops, struct vs_var x);
struct vs_var vs_op_dropout(struct vs_ops *ops, struct vs_var x, double probability);
struct vs_var vs_op_softmax(struct vs_ops *ops, struct vs_var x, uint8_t size);
struct vs_var vs_op_layer_norm(struct vs_ops *ops, int weight, int bias, struct vs_var x);
/* Llama's, Gemma's and T5's RMSNorm as Python spells them; `width` elements in a row. */
struct vs_var vs_op_rms_norm(struct vs_ops *ops, int weight, struct vs_var x);
struct vs_var vs_op_rms_norm_gemma(struct vs_ops *ops, int weight, struct vs_var x);
struct vs_var vs_op_rms_norm_t5(struct vs_ops *ops, int weight, struct vs_var x);
/* Sequence parallel, as torch.distributed.tensor does it: from this rank's share of the tokens to all of them, and
 * what every rank has of all of them summed to the shares. Along the sequence, so each copies once more in its own
 * order. */
struct vs_var vs_op_gather(struct vs_ops *ops, struct vs_var x, uint32_t ranks);
struct vs_var vs_op_scatter(struct vs_ops *ops, struct vs_var x, uint32_t ranks);
struct vs_var vs_op_embedding(struct vs_ops *ops, int weight, uint64_t rows, uint64_t width);
/* A copy in memory order; a broadcast one (`count` elements) sums in the backward. */
struct vs_var vs_op_copy(struct vs_ops *ops, struct vs_var x, uint64_t count);
/* Batched matrix product with `count` elements; autocast applies. */
struct vs_var vs_op_bmm(struct vs_ops *ops, struct vs_var a, struct vs_var b, uint64_t count);
/* rotate_half and two products: rotary positions; cos and sin in `table_size` bytes. */
struct vs_var vs_op_rotary(struct vs_ops *ops, struct vs_var x, uint8_t table_size);

struct vs_heads {
	uint64_t batch, seq, keys; /* keys: positions attended to */
	uint64_t heads, kv_heads, dim, v_dim;
	double dropout;
	bool causal;               /* a mask exists: eager adds it */
	bool fp32_softmax;         /* the model asks softmax for fp32 and casts back */
	bool contiguous;           /* ... and its inputs are whole tensors, not views of one projection */
	bool softcap;              /* scores go through tanh */
	const struct vs_var *bias; /* added to the scores, of one sequence's size; NULL: none */
	bool bias_whole;           /* ... in memory order already: the kernel takes it as it is */
	bool repeat;               /* keys and values are repeated to `heads` before the kernel */
};

/* Scores, softmax and weighted sum. q, k, v: B S A d, B S K d, B S K dv. `kind` is none of AUTO. */
struct vs_var vs_op_attention(struct vs_ops *ops, const struct vs_heads *heads, enum vs_attention kind,
                              struct vs_var q, struct vs_var k, struct vs_var v);

/* The head's product and its loss at once, in pieces of 1/chunks of the rows (Liger's fused linear cross-entropy):
 * the gradients of both are made in the forward, the logits never exist whole. */
struct vs_var vs_op_fused_loss(struct vs_ops *ops, const struct vs_linear *head, struct vs_var x, uint32_t chunks);

/* Cross-entropy; `upcast`: of logits.float(), as Hugging Face's causal language models compute it. Autocast computes
 * log_softmax in the logits' type and nll_loss in fp32. `sharded`: over the vocabulary, as loss_parallel() does. */
struct vs_var vs_op_cross_entropy(struct vs_ops *ops, struct vs_var logits, bool upcast, bool sharded);

#endif
