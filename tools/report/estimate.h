/* SPDX-License-Identifier: MIT
 *
 * The estimate on paper (lib/model/paper.h) beside what was measured at the peak.
 */
#ifndef VS_REPORT_ESTIMATE_H
#define VS_REPORT_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/paper.h"
#include "subject.h"

struct vs_estimate_request {
	uint64_t parameters;         /* 0: count them from the weights */
	uint64_t parameter_bytes;    /* of one weight; 0: conclude it from the recording */
	struct vs_paper_shape shape; /* layers 0: not given, no line for the activations */
	bool checkpointing;
};

enum vs_estimate_line {
	VS_ESTIMATE_WEIGHTS,
	VS_ESTIMATE_GRADIENTS,
	VS_ESTIMATE_OPTIMIZER,
	VS_ESTIMATE_FIXED, /* the three together */
	VS_ESTIMATE_ACTIVATIONS,
	VS_ESTIMATE_OTHER, /* what the paper leaves out: temporaries, workspace, ... */
	VS_ESTIMATE_TOTAL,
	VS_ESTIMATE_LINES
};

struct vs_estimate {
	uint64_t parameters;
	uint64_t parameter_bytes;             /* of one weight: which way the 16 bytes are split */
	const char *basis;                    /* how the size was concluded, static: "said by --param-bytes", ... */
	bool assumed;                         /* the recording does not decide it */
	bool activations;                     /* the shape is known */
	uint64_t paper[VS_ESTIMATE_LINES];    /* bytes; ACTIVATIONS is 0 where unknown, OTHER always */
	uint64_t measured[VS_ESTIMATE_LINES]; /* bytes at the peak */
	unsigned per_parameter[VS_ESTIMATE_FIXED + 1]; /* bytes a parameter on paper */
	struct vs_paper_activations layer;
};

/* Static: "weights", ..., "total". */
const char *vs_estimate_name(enum vs_estimate_line line);

/* -ENODATA: there are no weights to count parameters from; -EOPNOTSUPP: they are quantized, so their bytes do not say
 * how many they are (both: ask for --params); -ERANGE: numbers beyond 64 bits. */
int vs_estimate_make(const struct vs_subject *subject, const struct vs_device_summary *device,
                     const struct vs_estimate_request *request, struct vs_estimate *ret_estimate);

#endif
