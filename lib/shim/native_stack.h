/* SPDX-License-Identifier: MIT
 *
 * Native stacks of the calling thread, by libunwind.
 */
#ifndef VS_SHIM_NATIVE_STACK_H
#define VS_SHIM_NATIVE_STACK_H

#include <stdint.h>

/* Deep enough for Python 3.8-3.10, where 40 Python frames are about 98 native ones. */
#define VS_MAX_NATIVE 256

/* Find libunwind, once a process. May load a library: hold no lock. */
void vs_native_prepare(void);
/* NULL, or why there are no native stacks. */
const char *vs_native_missing(void);
/* Return addresses, innermost first: *ret_first is the hook's caller, in `frames`. The count; 0 without libunwind.
 * Never allocates on the fast path; may take the loader's lock for code it sees first: hold no lock. */
unsigned int vs_native_walk(uint64_t frames[VS_MAX_NATIVE], const uint64_t **ret_first);

#endif
