/* SPDX-License-Identifier: MIT
 *
 * Symbols of what is loaded, without dlsym().
 */
#ifndef VS_SHIM_SYMBOLS_H
#define VS_SHIM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

struct dl_phdr_info;

/* What one library defines, for a callback of dl_iterate_phdr(); NULL if it does not. */
void *vs_symbol_in(const struct dl_phdr_info *info, const char *name);
/* Whether an address lies in a library. */
bool vs_symbol_holds(const struct dl_phdr_info *info, const void *address);
/* The first definition of `name` in the program and its libraries, in the order in which they were loaded; NULL if
 * there is none, or the list is lost (libraries.h). For functions and data of no particular version.
 *
 * dlsym() waits while another thread loads a library and runs its constructors. Those may be waiting for a lock of
 * the job's, such as that of PyTorch's allocator, which is held where a hook is called. This takes only the lock of
 * the list of libraries, which is never held while foreign code runs but for dl_iterate_phdr()'s own callbacks. */
void *vs_symbol_find(const char *name);
/* The same, and how many bytes the definition has. */
void *vs_symbol_data(const char *name, size_t *ret_size);
/* What the first library whose file's name begins so defines; NULL if there is none. */
void *vs_symbol_of(const char *file, const char *name);
/* The same while the process starts: it takes no lock, so no library may come or go, and calls nothing that may be
 * somebody else's and not ready yet. */
void *vs_symbol_early(const char *file, const char *name);
/* Something that a library calls by this name, and what it is to call instead. */
struct vs_symbol_slot {
	const char *name;
	void *replacement; /* NULL: that stays */
};
/* Of the library that holds `inside`: its own calls, nobody else's, and as far as they go through its tables. What it
 * looks up by the first calls of all must have been looked up (RTLD_NOW). */
void vs_symbol_replace(const void *inside, const struct vs_symbol_slot *slots, unsigned int count);
/* How often a library was loaded so far: nothing new is found before that changes. 0: not known (libraries.h). */
unsigned long long vs_symbol_loads(void);

#endif
