/* SPDX-License-Identifier: MIT
 *
 * CUDA's libraries by their file names. Whoever opens one by name or by path, and asks for its functions there, is
 * given the simulated device, as whoever is linked to one is given it by the order of the loader's search.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/dlopen_gateway.h"
#include "sim/sim.h"

static const struct {
	const char *name; /* with any version behind it */
	bool driver;      /* of the machine, not of the job */
} libraries[] = {
    {"libcuda.so", true},      {"libnvidia-ml.so", true}, {"libcudart.so", false}, {"libcublas.so", false},
    {"libcublasLt.so", false}, {"libcudnn.so", false},    {"libcufft.so", false},  {"libcupti.so", false},
    {"libcusolver.so", false}, {"libcusparse.so", false}, {"libnccl.so", false},
};

void *(*vs_dlopen_next(void))(const char *, int)
{
	static _Atomic(void *) next;
	void *known = atomic_load_explicit(&next, memory_order_relaxed);

	/* Every thread that gets here finds the same. */
	if (!known)
		atomic_store_explicit(&next, known = dlsym(RTLD_NEXT, "dlopen"), memory_order_relaxed);
	return (void *(*)(const char *, int))known;
}

/* Index in libraries, or -1. */
static int find(const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	for (unsigned int i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		size_t length = strlen(libraries[i].name);

		if (!strncmp(file, libraries[i].name, length) && (!file[length] || file[length] == '.'))
			return (int)i;
	}
	return -1;
}

void *vs_dlopen_prepare(struct vs_dlopen_call *call)
{
	void *(*next)(const char *, int) = vs_dlopen_next();
	int library = call->file ? find(call->file) : -1;
	Dl_info info;

	if (library >= 0 && dladdr(&vramsim_active, &info)) {
		/* The job's own copy is loaded beside it: others are linked to it, and it tells its version. */
		if (!libraries[library].driver && strchr(call->file, '/') && next)
			next(call->file, call->mode);
		call->file = info.dli_fname;
	}
	return (void *)next;
}
