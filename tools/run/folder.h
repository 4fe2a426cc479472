/* SPDX-License-Identifier: MIT
 *
 * The folder that the traces of one run go to.
 */
#ifndef VS_RUN_FOLDER_H
#define VS_RUN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

struct vs_folder {
	char path[4096]; /* absolute */
	bool created;    /* by us: removed again when nothing could be started */
};

/* Make `name` (its parents too) or take it if it is an empty folder; with `force`, a filled one too, where what is
 * there stays. `name` NULL: vramshim-YYYYmmdd-HHMMSS here, with -2, -3 ... where that exists. Says what is wrong on
 * stderr and returns a negative errno. */
int vs_folder_prepare(const char *name, bool force, struct vs_folder *ret_folder);
/* Remove the folder if we made it and nothing is in it. */
void vs_folder_undo(const struct vs_folder *folder);

#endif
