/* SPDX-License-Identifier: MIT
 *
 * Whether memory may be read, for whoever follows pointers that may lead anywhere.
 */
#ifndef VS_SHIM_READABLE_H
#define VS_SHIM_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `size` bytes at `address` may be read, `size` from 1 to 4096. Any thread, any time: one system call, two
 * where they lie in two pages. No descriptor, no lock, no handler; errno is kept. */
bool vs_readable(const void *address, size_t size);

#endif
