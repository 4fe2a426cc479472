/* SPDX-License-Identifier: MIT */
#include "infer.h"

int vs_infer(const struct vs_subject *subject, const struct vs_device_summary *device, unsigned element, uint64_t seq,
             struct vs_inference *ret_inference)
{
	struct vs_inference inference = {.family = -1, .optimizer = -1, .attention = -1};
	struct vs_attention_blocks attention = {0};
	int error = vs_infer_stacks(subject, device, &inference, &attention);

	if (!error)
		error = vs_infer_blocks(device, element, seq, &attention, &inference);
	if (!error)
		*ret_inference = inference;
	return error;
}
