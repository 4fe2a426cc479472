/* SPDX-License-Identifier: MIT
 *
 * The libraries that the simulated ones stand in for are loaded all the same;
 * the job's own copies tell which version it came with.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "sim/sim.h"

void *vs_real(const char *const *sonames, const char *symbol)
{
	void *(*open)(const char *, int) = vs_dlopen_next();
	void *ours = dlsym(RTLD_DEFAULT, symbol);

	for (; open && *sonames; sonames++) {
		void *library = open(*sonames, RTLD_LAZY | RTLD_NOLOAD);
		void *found;

		if (!library)
			continue;
		found = dlsym(library, symbol);
		dlclose(library);
		if (found && found != ours)
			return found;
	}
	return NULL;
}
