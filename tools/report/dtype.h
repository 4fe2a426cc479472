/* SPDX-License-Identifier: MIT
 *
 * How many bytes a weight takes, concluded from a recording, which has sizes but no types.
 */
#ifndef VS_REPORT_DTYPE_H
#define VS_REPORT_DTYPE_H

#include <stdbool.h>

#include "subject.h"

struct vs_dtype {
	unsigned bytes;    /* of one weight */
	const char *basis; /* static: why */
	bool assumed;      /* nothing in the recording decides it */
};

struct vs_dtype vs_dtype_conclude(const struct vs_subject *subject, const struct vs_device_summary *device);

#endif
