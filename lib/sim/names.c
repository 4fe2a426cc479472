/* SPDX-License-Identifier: MIT
 *
 * CUDA's libraries by their file names. Whoever opens one by name or by path, and asks for its functions there, is
 * given the simulated device, as whoever is linked to one is given it by the order of the loader's search.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/dlopen_gateway.h"
#include "base/path.h"
#include "sim/sim.h"

static const struct library {
	const char *name;   /* with any version behind it */
	const char *export; /* what is called so and has this, is it */
} libraries[] = {
    {"libcuda.so", NULL}, /* the driver's: of the machine, not of the job */
    {"libnvidia-ml.so", NULL},
    {"libcudart.so", "cudaMalloc"},
    {"libcublas.so", "cublasCreate_v2"},
    {"libcublasLt.so", "cublasLtCreate"},
    {"libcudnn.so", "cudnnCreate"},
    {"libcufft.so", "cufftPlan1d"},
    {"libcupti.so", "cuptiGetVersion"},
    {"libcusolver.so", "cusolverDnCreate"},
    {"libcusparse.so", "cusparseCreate"},
    {"libnccl.so", "ncclCommInitRank"},
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

static const struct library *find(const char *path)
{
	const char *file = vs_path_file(path);

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		size_t length = strlen(libraries[i].name);

		if (!strncmp(file, libraries[i].name, length) && (!file[length] || file[length] == '.'))
			return &libraries[i];
	}
	return NULL;
}

/* Whether the simulated device is to be given for what `file` names: not for a file that is not there, nor for
 * somebody else's library of the same name. The job's own copy is loaded beside it, if it is not yet: others are
 * linked to it, and it tells its version. */
static bool stands_for(const struct library *library, const char *file, int mode, void *(*next)(const char *, int),
                       const char *self)
{
	bool path = strchr(file, '/');
	void *own, *theirs, *ours;

	if (!library->export)
		return !path || access(file, F_OK) == 0;
	/* By its name alone it would be searched where the caller's RPATH says, which is not known here. */
	own = next(file, path ? mode : RTLD_LAZY | RTLD_NOLOAD);
	if (!own)
		return !path;
	theirs = dlsym(own, library->export);
	ours = dlsym(next(self, RTLD_LAZY | RTLD_NOLOAD), library->export);
	return theirs && theirs != ours;
}

void *vs_dlopen_prepare(struct vs_dlopen_call *call)
{
	void *(*next)(const char *, int) = vs_dlopen_next();
	const struct library *library = call->file && next ? find(call->file) : NULL;
	Dl_info info;

	if (library && dladdr(&vramsim_active, &info) &&
	    stands_for(library, call->file, call->mode, next, info.dli_fname))
		call->file = info.dli_fname;
	return (void *)next;
}
