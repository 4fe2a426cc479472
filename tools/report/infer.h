/* SPDX-License-Identifier: MIT
 *
 * What a recording tells of the model and the job that were run, by its call stacks and by the sizes of its blocks.
 * A field that it does not tell stays -1 or 0.
 */
#ifndef VS_REPORT_INFER_H
#define VS_REPORT_INFER_H

#include <stdbool.h>
#include <stdint.h>

#include "subject.h"

struct vs_inference {
	/* By the stacks. */
	int family;        /* enum vs_family: the transformers module whose code ran; else -1 */
	int optimizer;     /* enum vs_optimizer, -1 */
	int attention;     /* enum vs_attention, -1 */
	int checkpointing; /* enum vs_checkpointing */
	bool autocast;
	bool l2_decay; /* the optimizer makes copies of the gradients, to which it adds weight decay */
	/* By the blocks. `exact`: no other size of the feed-forward or the vocabulary gives the same blocks. */
	uint64_t layers, hidden, ffn, vocab;
	uint64_t query, key; /* width of all heads together, of the queries and of the keys */
	uint64_t head_dim;   /* of one */
	bool tied, exact;
	/* Adapters (peft's LoRA) beside the weights: tensors, bytes, those of the first; then what they come to. */
	uint64_t adapters, adapter_bytes, adapter_first;
	uint64_t adapters_from;           /* the event that made the first; UINT64_MAX */
	uint64_t lora_rank, lora_modules; /* modules: adapted in each layer; 0 not told */
	uint64_t tokens;                  /* batch times sequence, by the input ids; 0 unknown */
};

/* `element`: bytes of a weight; `seq`: tokens of a sequence, 0 unknown. The device was analysed with VS_BLOCKS_PEAK.
 * Works for any recording; -ENOMEM. */
int vs_infer(const struct vs_subject *subject, const struct vs_device_summary *device, unsigned element, uint64_t seq,
             struct vs_inference *ret_inference);

/* Its two parts, and what the first one passes on to the second. Bytes; 0: there is none. */
struct vs_attention_blocks {
	uint64_t row_sums; /* of a fused kernel: 4 bytes a head and token */
	uint64_t scores;   /* the largest block of eager attention */
};
int vs_infer_stacks(const struct vs_subject *subject, const struct vs_device_summary *device,
                    struct vs_inference *inference, struct vs_attention_blocks *attention);
int vs_infer_blocks(const struct vs_device_summary *device, unsigned element, uint64_t seq,
                    const struct vs_attention_blocks *attention, struct vs_inference *inference);

#endif
