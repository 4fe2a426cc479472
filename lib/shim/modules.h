/* SPDX-License-Identifier: MIT */
#ifndef VS_SHIM_MODULES_H
#define VS_SHIM_MODULES_H

#include <stdbool.h>

struct vs_process;

/* Record the libraries loaded since the last call. Cheap when there are none. Takes the loader's lock: hold
 * none of ours. */
void vs_modules_record(struct vs_process *process);

/* The path of the first loaded library whose file name begins with `name`, into `path`. 0 or -ENOENT. */
int vs_modules_find(const char *name, char *path, unsigned long size);

/* Whether the address lies in a loaded library whose file name begins with `name`. Takes the loader's lock. */
bool vs_modules_holds(const char *name, const void *address);

#endif
