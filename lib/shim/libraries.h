/* SPDX-License-Identifier: MIT
 *
 * The loader's list of libraries, which its lock guards: dl_iterate_phdr() takes it, and so does dlopen() of what is
 * not loaded yet. glibc does not make it anew in a forked child (2.36; it does so for its other locks): where another
 * thread held it at that moment, it stays held in the child for ever, and whoever takes it there hangs.
 */
#ifndef VS_SHIM_LIBRARIES_H
#define VS_SHIM_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

struct dl_phdr_info;

/* Find the list's lock in the loader's own data, so that it can be looked at. By the first thread, before it has
 * forked. */
void vs_libraries_find_lock(void *loader_data, size_t size) __attribute__((visibility("hidden")));

/* From now on the list is asked for by whoever stands before libc. When what a process starts with is set up. */
void vs_libraries_started(void) __attribute__((visibility("hidden")));

/* As dl_iterate_phdr(), and 0 without a call of `see` where the list is lost. Takes the list's lock. */
int vs_libraries_each(int (*see)(struct dl_phdr_info *info, size_t size, void *data), void *data)
    __attribute__((visibility("hidden")));

/* Whether the list's lock is held by nobody of this process, in which nothing but dlopen() of what is loaded already
 * (RTLD_NOLOAD), dlsym() and dladdr() end. Any time, any thread; no lock is taken. */
bool vs_libraries_lost(void) __attribute__((visibility("hidden")));

/* The loader's other lock, which dlopen(), dlsym(), dlvsym() and dladdr() take: a thread holds it for as long as it
 * loads a library and runs its constructors. Those may be waiting for a lock of the job's, such as that of PyTorch's
 * allocator, which is held where a hook is called. So a hook never waits for it. False: another thread has it, and
 * none of these may be called now. True: they may, up to vs_libraries_release(). May be nested; with signals held
 * back (base/section.h), as nobody may jump out in between. */
bool vs_libraries_hold(void) __attribute__((visibility("hidden")));
void vs_libraries_release(void) __attribute__((visibility("hidden")));

#endif
