/* SPDX-License-Identifier: MIT */
#include "estimate.h"

#include <errno.h>

#include "dtype.h"

/* Both ways of mixed precision add up to 16: 16-bit weights and gradients with fp32 master copies and moments, or all
 * in fp32 without copies. */
static const unsigned half_split[] = {VS_PAPER_WEIGHTS, VS_PAPER_GRADIENTS, VS_PAPER_MASTER + VS_PAPER_MOMENTS,
                                      VS_PAPER_FIXED};
static const unsigned full_split[] = {4, 4, VS_PAPER_MOMENTS, VS_PAPER_FIXED};

const char *vs_estimate_name(enum vs_estimate_line line)
{
	static const char *const names[] = {
	    [VS_ESTIMATE_WEIGHTS] = "weights",
	    [VS_ESTIMATE_GRADIENTS] = "gradients",
	    [VS_ESTIMATE_OPTIMIZER] = "optimizer",
	    [VS_ESTIMATE_FIXED] = "fixed",
	    [VS_ESTIMATE_ACTIVATIONS] = "activations",
	    [VS_ESTIMATE_OTHER] = "other",
	    [VS_ESTIMATE_TOTAL] = "total",
	};

	return names[line];
}

static int count_parameters(const struct vs_subject *subject, const struct vs_device_summary *device,
                            const struct vs_estimate_request *request, struct vs_estimate *estimate)
{
	const struct vs_point *peak = &device->peak;
	/* Gathered weights are copies of sharded ones. */
	uint64_t copies = peak->details[VS_DETAIL_WEIGHTS_GATHERED];
	uint64_t weights = peak->tags[VS_TAG_WEIGHTS] > copies ? peak->tags[VS_TAG_WEIGHTS] - copies : 0;
	struct vs_dtype dtype = {.bytes = request->parameter_bytes, .basis = "said by --param-bytes"};

	if (request->parameters) {
		estimate->parameters = request->parameters;
		estimate->basis = "said by --params";
		/* Which split of the 16 bytes: by the size that comes nearest to what the weights take. */
		estimate->parameter_bytes = request->parameter_bytes             ? request->parameter_bytes
		                            : weights / 3 >= request->parameters ? 4
		                                                                 : 2;
		return 0;
	}
	if (weights < 8) /* less than one parameter of the largest size */
		return -ENODATA;
	if (!request->parameter_bytes) {
		if (peak->details[VS_DETAIL_WEIGHTS_QUANTIZED])
			return -EOPNOTSUPP;
		dtype = vs_dtype_conclude(subject, device);
	}
	estimate->parameters = weights / dtype.bytes;
	estimate->parameter_bytes = dtype.bytes;
	estimate->basis = dtype.basis;
	estimate->assumed = dtype.assumed;
	return 0;
}

int vs_estimate_make(const struct vs_subject *subject, const struct vs_device_summary *device,
                     const struct vs_estimate_request *request, struct vs_estimate *ret_estimate)
{
	struct vs_estimate estimate = {.activations = request->shape.layers != 0};
	const uint64_t *tags = device->peak.tags;
	uint64_t *paper = estimate.paper, *measured = estimate.measured;
	int r = count_parameters(subject, device, request, &estimate);

	if (r < 0)
		return r;
	const unsigned *split = estimate.parameter_bytes >= 4 ? full_split : half_split;
	for (unsigned i = 0; i <= VS_ESTIMATE_FIXED; i++) {
		estimate.per_parameter[i] = split[i];
		r = vs_paper_fixed(estimate.parameters, split[i], &paper[i]);
		if (r < 0)
			return r;
	}
	if (estimate.activations) {
		r = vs_paper_activations(&request->shape, request->checkpointing, &estimate.layer);
		if (r < 0)
			return r;
		paper[VS_ESTIMATE_ACTIVATIONS] = estimate.layer.bytes;
	}
	if (__builtin_add_overflow(paper[VS_ESTIMATE_FIXED], paper[VS_ESTIMATE_ACTIVATIONS],
	                           &paper[VS_ESTIMATE_TOTAL]))
		return -ERANGE;
	measured[VS_ESTIMATE_WEIGHTS] = tags[VS_TAG_WEIGHTS];
	measured[VS_ESTIMATE_GRADIENTS] = tags[VS_TAG_GRADIENTS];
	measured[VS_ESTIMATE_OPTIMIZER] = tags[VS_TAG_OPTIMIZER];
	measured[VS_ESTIMATE_FIXED] = tags[VS_TAG_WEIGHTS] + tags[VS_TAG_GRADIENTS] + tags[VS_TAG_OPTIMIZER];
	measured[VS_ESTIMATE_ACTIVATIONS] = tags[VS_TAG_ACTIVATIONS] + tags[VS_TAG_OUTPUTS];
	for (unsigned i = 0; i < VS_TAG_COUNT; i++)
		measured[VS_ESTIMATE_TOTAL] += tags[i];
	measured[VS_ESTIMATE_OTHER] =
	    measured[VS_ESTIMATE_TOTAL] - measured[VS_ESTIMATE_FIXED] - measured[VS_ESTIMATE_ACTIVATIONS];
	*ret_estimate = estimate;
	return 0;
}
