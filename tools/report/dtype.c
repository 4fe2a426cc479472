/* SPDX-License-Identifier: MIT */
#include "dtype.h"

#include <stdint.h>
#include <string.h>

/* Optimizer state of 16-bit weights with fp32 master copies is 12 / 2 = 6 times the weights; Adam's two moments in
 * the weights' own type are 2 times, whichever type that is. */
#define MASTER_RATIO 5

/* Frames of PyTorch below which it allocates (workspace, copies), and what they say of the elements at work. */
enum evidence { EVIDENCE_FP32, EVIDENCE_16BIT, EVIDENCE_AUTOCAST, EVIDENCE_COUNT };

static const struct {
	const char *function;
	enum evidence evidence;
} signs[] = {
    {"gemm_internal_cublas_bfloat16_helper", EVIDENCE_16BIT},
    {"gemm_internal_cublas_half_helper", EVIDENCE_16BIT},
    {"::gemm_internal_cublas<", EVIDENCE_FP32}, /* the 16-bit ones go on to their helper */
    {"at::autocast::cached_cast", EVIDENCE_AUTOCAST},
};

static bool find_sign(const struct vs_frame *frame, enum evidence *ret_evidence)
{
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (strstr(frame->function, signs[i].function)) {
			*ret_evidence = signs[i].evidence;
			return true;
		}
	}
	return false;
}

/* Stacks by what their innermost sign says. */
static void count_signs(const struct vs_subject *subject, unsigned long counts[EVIDENCE_COUNT])
{
	const struct vramshim_trace *trace = subject->process->trace;

	for (uint32_t id = 1; id <= vramshim_trace_stack_count(trace); id++) {
		const struct vs_frame *frames;
		enum evidence evidence;
		size_t count;

		if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
			continue;
		for (size_t i = 0; i < count && frames[i].kind == VS_FRAME_NATIVE; i++) {
			if (find_sign(&frames[i], &evidence)) {
				counts[evidence]++;
				break;
			}
		}
	}
}

struct vs_dtype vs_dtype_conclude(const struct vs_subject *subject, const struct vs_device_summary *device)
{
	const struct vs_point *peak = &device->peak, *end = &device->end;
	uint64_t weights = peak->tags[VS_TAG_WEIGHTS], optimizer = peak->tags[VS_TAG_OPTIMIZER];
	unsigned long signs_seen[EVIDENCE_COUNT] = {0};

	/* The peak may come before the first step has made the optimizer's state. */
	if (end->tags[VS_TAG_OPTIMIZER] > optimizer && end->tags[VS_TAG_WEIGHTS]) {
		weights = end->tags[VS_TAG_WEIGHTS];
		optimizer = end->tags[VS_TAG_OPTIMIZER];
	}
	if (peak->details[VS_DETAIL_OPTIMIZER_MASTER])
		return (struct vs_dtype){2, "the optimizer keeps fp32 master copies", false};
	if (weights && optimizer / weights >= MASTER_RATIO)
		return (struct vs_dtype){2, "the optimizer's state is six times their size", false};
	count_signs(subject, signs_seen);
	if (signs_seen[EVIDENCE_AUTOCAST] && signs_seen[EVIDENCE_16BIT])
		return (struct vs_dtype){4, "autocast computes with 16-bit copies of them", false};
	if (signs_seen[EVIDENCE_FP32] > signs_seen[EVIDENCE_16BIT])
		return (struct vs_dtype){4, "the matrix products are fp32", false};
	if (signs_seen[EVIDENCE_16BIT])
		return (struct vs_dtype){2, "the matrix products are 16-bit, without autocast", false};
	return (struct vs_dtype){4, "assumed to be fp32: --param-bytes 2 for 16-bit weights", true};
}
