/* SPDX-License-Identifier: MIT
 *
 * What a snapshot without native frames still tells of an operator: blocks that one line of Python makes in the sizes
 * of others, as zeros_like() or clone() of all weights do.
 */
#ifndef VS_REPORT_IMPORT_SHAPES_H
#define VS_REPORT_IMPORT_SHAPES_H

#include <stdbool.h>

#include "caching/from_snapshot.h"

/* The name of the frame that says so, for the rules of lib/tag. */
#define VS_SHAPES_FILE  "<made one after another>"
#define VS_SHAPES_FRAME "in the shapes of other tensors"

/* One byte an event of the recording, malloc'ed: 1 for an allocation of such a row. -ENOMEM. */
int vs_shapes_find(const struct vs_snapshot *snapshot, const struct vs_snapshot_recording *recording,
                   unsigned char **ret_marked);

#endif
