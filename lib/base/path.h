/* SPDX-License-Identifier: MIT
 *
 * What is told of a path. Nothing is copied: what comes back points into it.
 */
#ifndef VS_BASE_PATH_H
#define VS_BASE_PATH_H

#include <stddef.h>
#include <string.h>

/* The file's name, without its folders. */
static inline const char *vs_path_file(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What follows the folder where Python's packages are installed, by which they are imported; NULL: not in one. */
static inline const char *vs_path_in_packages(const char *path)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		const char *found = strstr(path, folders[i]);

		if (found)
			return found + strlen(folders[i]);
	}
	return NULL;
}

#endif
