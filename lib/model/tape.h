/* SPDX-License-Identifier: MIT
 *
 * A training step as the allocations and frees an eager autograd framework would make, on paper: tensors with
 * reference counts, nodes that save tensors and allocate gradients, a backward in PyTorch's order. No numbers are
 * computed; only bytes live and die. Nothing here is fitted: every size follows from a shape and an element size.
 *
 * One thread at a time. After the first failure (out of host memory, or more work than the limit) calls do nothing
 * and vs_tape_error() tells.
 */
#ifndef VS_MODEL_TAPE_H
#define VS_MODEL_TAPE_H

#include "tag/tag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A peak can be at any of these; which one it is decides what helps. */
enum vs_instant {
	VS_INSTANT_SETUP,
	VS_INSTANT_FORWARD,
	VS_INSTANT_LOSS_FORWARD,
	VS_INSTANT_LOSS_BACKWARD, /* the loss, the logits and the output projection */
	VS_INSTANT_BACKWARD,
	VS_INSTANT_BACKWARD_END, /* the embedding's gradient, and what is left to reduce */
	VS_INSTANT_OPTIMIZER,
	VS_INSTANT_GATHER, /* parameters of other ranks are being collected */
	VS_INSTANT_COUNT,
};

const char *vs_instant_name(enum vs_instant instant);

struct vs_peak {
	uint64_t bytes;
	uint64_t live[VS_TAG_COUNT]; /* sums to `bytes` */
	uint32_t layer;              /* of the model, from 0; UINT32_MAX outside the layers */
	uint32_t step;               /* 0: the first, without optimizer state */
};

/* A tensor: elements of `size` bytes in a storage, and the node that made it (-1: needs no gradient). */
struct vs_var {
	int storage;
	int node;
	int slot; /* which output of the node */
	uint64_t count;
	uint8_t size;
};

/* Where the bytes come from. NULL members: 512-byte rounding alone. */
struct vs_tape_memory {
	void *context;
	/* Returns the bytes that count as allocated for a request and a handle; 0 bytes: out of memory. */
	uint64_t (*allocate)(void *context, uint64_t bytes, void **ret_handle);
	void (*release)(void *context, void *handle);
};

struct vs_tape;

int vs_tape_new(const struct vs_tape_memory *memory, struct vs_tape **ret_tape);
void vs_tape_free(struct vs_tape *tape); /* accepts NULL */
int vs_tape_error(const struct vs_tape *tape);

void vs_tape_instant(struct vs_tape *tape, enum vs_instant instant);
void vs_tape_layer(struct vs_tape *tape, uint32_t layer);
void vs_tape_step(struct vs_tape *tape, uint32_t step);
const struct vs_peak *vs_tape_peak(const struct vs_tape *tape, enum vs_instant instant);
/* What lives now. */
const uint64_t *vs_tape_live(const struct vs_tape *tape);
uint64_t vs_tape_total(const struct vs_tape *tape);
/* Forget the peaks so far. */
void vs_tape_reset_peaks(struct vs_tape *tape);

/* Tensors. Each handle owns a reference: vs_keep() makes another, vs_drop() gives one back. */
struct vs_var vs_new(struct vs_tape *tape, uint64_t count, uint8_t size, enum vs_tag tag);
struct vs_var vs_keep(struct vs_tape *tape, struct vs_var var);
void vs_drop(struct vs_tape *tape, struct vs_var var);
/* An allocation that is freed at once: a workspace. */
void vs_touch(struct vs_tape *tape, uint64_t bytes, enum vs_tag tag);
/* The same tensor as a leaf without history, as detach() or requires_grad_() give. */
struct vs_var vs_leaf(struct vs_tape *tape, struct vs_var var, bool needs_gradient);

/* Parameters live from their making to the tape's end. */
struct vs_param_spec {
	uint64_t count;
	uint64_t rows; /* of a matrix; 0: a vector */
	uint8_t size;  /* bytes an element; its gradient has the same */
	bool trainable;
	uint64_t extra_bytes;  /* beside the elements: quantisation constants, as one more block */
	uint64_t stored_bytes; /* not 0: what the elements take, if not count x size (4-bit weights, shares) */
	bool on_host;          /* ... and not on the device */
};
int vs_tape_param(struct vs_tape *tape, const struct vs_param_spec *spec);
size_t vs_tape_param_count(const struct vs_tape *tape);
const struct vs_param_spec *vs_tape_param_spec(const struct vs_tape *tape, int param);
struct vs_var vs_tape_param_var(struct vs_tape *tape, int param);
bool vs_tape_has_gradient(const struct vs_tape *tape, int param);
/* zero_grad(set_to_none=True). */
void vs_tape_drop_gradients(struct vs_tape *tape);
/* The whole gradient, if there is one, gives way to this rank's share of it, `bytes`. */
void vs_tape_reduce_gradient(struct vs_tape *tape, int param, uint64_t bytes);
/* autocast's copy of a parameter in `size` bytes an element, made once between two vs_tape_uncache(). */
struct vs_var vs_tape_cast_param(struct vs_tape *tape, int param, uint8_t size);
void vs_tape_uncache(struct vs_tape *tape);

/* One operator: begin, name what its backward allocates and saves, end. Between the two nothing else may begin. */
void vs_op_begin(struct vs_tape *tape);
/* The backward gives `input` a gradient: `bytes` allocated by the operator, or the incoming one passed on (0). A
 * broadcast input's gradient is then summed to `reduced` bytes (0: it is not broadcast). */
void vs_op_input(struct vs_tape *tape, struct vs_var input, uint64_t bytes, uint64_t reduced);
/* The gradient that vs_op_input() named last is made as a transposed view. */
void vs_op_last_input_is_view(struct vs_tape *tape);
/* The sum to the shape of the input named last takes this much beside its result. */
void vs_op_last_input_reduce_workspace(struct vs_tape *tape, uint64_t bytes);
/* Kept until the backward, if there is one. */
void vs_op_save(struct vs_tape *tape, struct vs_var var);
/* Bytes the backward allocates beside its results, while it makes them. */
void vs_op_backward_workspace(struct vs_tape *tape, uint64_t bytes);
/* The forward allocates beside its result, while it makes it. */
void vs_op_workspace(struct vs_tape *tape, uint64_t bytes);
/* Makes the output. */
struct vs_var vs_op_end(struct vs_tape *tape, uint64_t count, uint8_t size);
/* Ends with a view of `base` (same storage). */
struct vs_var vs_op_end_view(struct vs_tape *tape, struct vs_var base);
/* Another output of the operator that ended last (slot 1, 2, ...): a view of the first one's storage, or new. */
struct vs_var vs_op_more_view(struct vs_tape *tape, struct vs_var first, int slot);
/* The operator that made `output` keeps it, or other bytes it made, until its backward. */
void vs_op_save_output(struct vs_tape *tape, struct vs_var output);
void vs_op_save_bytes(struct vs_tape *tape, struct vs_var output, uint64_t bytes);
/* It made the gradient of `input` in its forward already, `bytes`, and keeps it: the backward hands it on. */
void vs_op_save_gradient(struct vs_tape *tape, struct vs_var output, struct vs_var input, uint64_t bytes);

/* A view of x whose backward first runs `hook`: where a framework's own hooks act. */
typedef void vs_tape_hook(struct vs_tape *tape, void *context);
struct vs_var vs_op_hook(struct vs_tape *tape, struct vs_var x, vs_tape_hook *hook, void *context);

/* Runs the backward from `loss`, whose gradient has its size. */
void vs_tape_backward(struct vs_tape *tape, struct vs_var loss);
/* What follows is another graph beside this one (the next micro-batch of a pipeline): parameters collect their
 * gradients of each by itself. */
void vs_tape_next_graph(struct vs_tape *tape);
/* Forget the graph: no variable of it is used any more. */
void vs_tape_clear_graph(struct vs_tape *tape);

/* torch.utils.checkpoint(use_reentrant=False): runs body(context, inputs) keeping only the inputs, `count` of them
 * and VS_TAPE_INPUTS at most, and once more in the backward. */
#define VS_TAPE_INPUTS 3
typedef struct vs_var vs_tape_body(struct vs_tape *tape, void *context, const struct vs_var *inputs);
struct vs_var vs_tape_checkpoint(struct vs_tape *tape, vs_tape_body *body, void *context, const struct vs_var *inputs,
                                 size_t count);

#endif
