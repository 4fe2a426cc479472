/* SPDX-License-Identifier: MIT
 *
 * From a pickle's values to the arrays of a snapshot.
 */
#ifndef VS_SNAPSHOT_LAYOUT_H
#define VS_SNAPSHOT_LAYOUT_H

#include "snapshot/pickle.h"
#include "snapshot/snapshot.h"

/* Texts kept: copies that live as long as the snapshot. */
struct vs_snapshot_texts;

/* What vs_snapshot_free() gets: the public part first. */
struct vs_snapshot_owned {
	struct vs_snapshot snapshot;
	struct vs_snapshot_texts *texts;
	uint32_t *stack_frames; /* what the stacks point into */
};

/* Fill an owned snapshot that was all zeros. Errors as vs_snapshot_parse(); the caller frees it all the same. */
int vs_snapshot_layout(struct vs_pickle *pickle, struct vs_snapshot_owned *owned, struct vs_snapshot_error *error);
/* Accepts NULL. */
void vs_snapshot_texts_free(struct vs_snapshot_texts *texts);

#endif
