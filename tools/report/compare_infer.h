/* SPDX-License-Identifier: MIT
 *
 * What compare takes from the recording where no flag says it.
 */
#ifndef VS_REPORT_COMPARE_INFER_H
#define VS_REPORT_COMPARE_INFER_H

#include "dtype.h"
#include "estimate/request.h"
#include "infer.h"

struct vs_inferred {
	bool parameters; /* their number alone is known: there is no model */
	bool precision, optimizer, l2_decay, checkpointing, attention, adapters;
	const char *model;       /* where the model comes from, in words; "": from flags */
	const char *batch, *seq; /* the same of these */
	bool assumed;            /* of batch, sequence or heads, one is neither said nor told */
	uint64_t count;          /* parameters, by the bytes of the weights */
	struct vs_dtype dtype;
	struct vs_inference facts;
};

/* Fills in the request what its flags leave out, before vs_request_resolve(). On failure one line on stderr, and a
 * negative errno. */
int vs_compare_infer(struct vs_request *request, const struct vs_option *options, size_t count,
                     const struct vs_subject *subject, const struct vs_device_summary *device,
                     struct vs_inferred *ret_inferred);

#endif
