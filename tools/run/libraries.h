/* SPDX-License-Identifier: MIT
 *
 * Where the libraries that go into the job are: beside the program in a build tree, or where it was installed.
 */
#ifndef VS_RUN_LIBRARIES_H
#define VS_RUN_LIBRARIES_H

#include <stddef.h>

/* The absolute, resolved path of the library `name`: 0, -ENOENT when no place has it, -ENAMETOOLONG. */
int vs_library_find(const char *name, char *ret_path, size_t size);

#endif
