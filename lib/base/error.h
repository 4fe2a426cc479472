/* SPDX-License-Identifier: MIT
 *
 * The project's error convention: 0 or a negative errno.
 */
#ifndef VS_BASE_ERROR_H
#define VS_BASE_ERROR_H

#include <errno.h>

/* -errno of the call that has just failed; -EIO where a library forgot to set it, so that a failure never reads as
 * success. */
static inline int vs_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

#endif
