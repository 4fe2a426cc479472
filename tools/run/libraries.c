/* SPDX-License-Identifier: MIT */
#include "libraries.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the folder of the program. VS_LIBDIR_FROM_BINDIR is meson's libdir, multiarch part included. */
static const char *const places[] = {
    "../lib/shim", /* build tree */
    "../lib/sim",  /* build tree */
    VS_LIBDIR_FROM_BINDIR "/vramshim",
    "../lib/vramshim",
    "../lib64/vramshim",
};

int vs_library_find(const char *name, char *ret_path, size_t size)
{
	char self[PATH_MAX], path[PATH_MAX + 256], folder[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return -errno;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(path, sizeof(path), "%s/%s", self, places[i]) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		/* Only the folder is resolved: a library may be a link, and its name is what the loader matches. */
		if (!realpath(path, folder))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		if (access(path, R_OK) < 0)
			continue;
		return snprintf(ret_path, size, "%s", path) >= (int)size ? -ENAMETOOLONG : 0;
	}
	return -ENOENT;
}
