/* SPDX-License-Identifier: MIT */
#include "infer.h"

/* peft makes A (rank x the hidden size) before B, for q or whatever comes first, in fp32. */
static void infer_adapters(struct vs_inference *r)
{
	uint64_t row = r->hidden * 4;

	if (!r->adapters || !row || r->adapter_first < row || r->adapter_first % row >= 512)
		return;
	r->lora_rank = r->adapter_first / row;
	if (r->layers && r->adapters % (2 * r->layers) == 0)
		r->lora_modules = r->adapters / 2 / r->layers;
}

int vs_infer(const struct vs_subject *subject, const struct vs_device_summary *device, unsigned element, uint64_t seq,
             struct vs_inference *ret_inference)
{
	struct vs_inference inference = {.family = -1, .optimizer = -1, .attention = -1, .adapters_from = UINT64_MAX};
	struct vs_attention_blocks attention = {0};
	int error = vs_infer_stacks(subject, device, &inference, &attention);

	if (!error)
		error = vs_infer_blocks(device, element, seq, &attention, &inference);
	if (error)
		return error;
	infer_adapters(&inference);
	*ret_inference = inference;
	return error;
}
