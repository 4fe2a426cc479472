/* SPDX-License-Identifier: MIT */
#include "dtype.h"

#include <string.h>

/* Optimizer state of 16-bit weights with fp32 master copies is 12 / 2 = 6 times the weights; Adam's two moments in
 * the weights' own type are 2 times, whichever type that is. */
#define MASTER_RATIO 5

enum element { ELEMENT_FP32, ELEMENT_16BIT, ELEMENTS };

/* Matrix products name their element type in their template arguments, and they allocate (workspace) below that name.
 */
static void count_products(const struct vs_subject *subject, unsigned long counts[ELEMENTS])
{
	const struct vramshim_trace *trace = subject->process->trace;

	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++) {
		const struct vs_frame *frames;
		size_t count;

		if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
			continue;
		for (size_t i = 0; i < count && frames[i].kind == VS_FRAME_NATIVE; i++) {
			const char *gemm = strstr(frames[i].function, "gemm");
			if (!gemm || !strchr(gemm, '<'))
				continue;
			const char *type = strchr(gemm, '<') + 1;
			if (!strncmp(type, "float", 5))
				counts[ELEMENT_FP32]++;
			else if (!strncmp(type, "c10::BFloat16", 13) || !strncmp(type, "c10::Half", 9))
				counts[ELEMENT_16BIT]++;
			break;
		}
	}
}

struct vs_dtype vs_dtype_conclude(const struct vs_subject *subject, const struct vs_device_summary *device)
{
	const struct vs_point *peak = &device->peak, *end = &device->end;
	uint64_t weights = peak->tags[VS_TAG_WEIGHTS], optimizer = peak->tags[VS_TAG_OPTIMIZER];
	unsigned long products[ELEMENTS] = {0};

	/* The peak may come before the first step has made the optimizer's state. */
	if (end->tags[VS_TAG_OPTIMIZER] > optimizer && end->tags[VS_TAG_WEIGHTS]) {
		weights = end->tags[VS_TAG_WEIGHTS];
		optimizer = end->tags[VS_TAG_OPTIMIZER];
	}
	if (peak->details[VS_DETAIL_OPTIMIZER_MASTER])
		return (struct vs_dtype){2, "the optimizer keeps fp32 master copies", false};
	for (size_t i = 0; i < device->step_count; i++) {
		if (device->steps[i].details[VS_DETAIL_ACTIVATIONS_CAST])
			return (struct vs_dtype){4, "autocast makes 16-bit copies of them", false};
	}
	if (weights && optimizer / weights >= MASTER_RATIO)
		return (struct vs_dtype){2, "the optimizer's state is six times their size", false};
	count_products(subject, products);
	if (products[ELEMENT_FP32] > products[ELEMENT_16BIT])
		return (struct vs_dtype){4, "the matrix products are fp32", false};
	if (products[ELEMENT_16BIT])
		return (struct vs_dtype){2, "the matrix products are 16-bit, without autocast", false};
	return (struct vs_dtype){4, "assumed to be fp32: --param-bytes 2 for 16-bit weights", true};
}
