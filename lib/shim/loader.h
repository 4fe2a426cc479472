/* SPDX-License-Identifier: MIT
 *
 * libc's own dlsym() and dlvsym(), which this library stands before.
 */
#ifndef VS_SHIM_LOADER_H
#define VS_SHIM_LOADER_H

/* Of whoever defines them after us: libc, or another interposer. Filled by vs_loader_resolve(). Calls through these
 * see what the loader sees, never our wrappers in place of it; RTLD_NEXT then means "after this library". Without
 * dlvsym() this is a program of another C library than glibc: there is no CUDA for those, and all is passed through.
 */
struct vs_loader {
	void *(*dlsym)(void *handle, const char *name);
	void *(*dlvsym)(void *handle, const char *name, const char *version);
};
extern struct vs_loader vs_loader __attribute__((visibility("hidden")));

/* Any time, any number of times. May take the lock of the loader's list of libraries, the first time. */
void vs_loader_resolve(void) __attribute__((visibility("hidden")));

/* The next definition of one of libc's functions after ours; NULL if there is none. */
void *vs_loader_next(const char *name) __attribute__((visibility("hidden")));

#endif
