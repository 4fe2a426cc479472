/* SPDX-License-Identifier: MIT
 *
 * Write a snapshot as torch 2.11 does, for PyTorch's own viewer and tools.
 */
#ifndef VS_SNAPSHOT_WRITE_H
#define VS_SNAPSHOT_WRITE_H

#include "snapshot/snapshot.h"

#include <stdio.h>

/* Segments are written with their blocks, events with their category where they have one. -EIO, -ENOMEM. */
int vs_snapshot_write(const struct vs_snapshot *snapshot, FILE *out);

/* "alloc", "free_requested", ...; "" for VS_SNAPSHOT_OTHER. */
const char *vs_snapshot_action_name(enum vs_snapshot_action action);

#endif
