/* SPDX-License-Identifier: MIT
 *
 * What code that reads a truth value back from the card finds. Kernels do not
 * run, so device memory reads as zeros; but a job that asks whether something
 * holds for *all* elements branches on the answer, and "no" is the rare branch:
 * attention masks are built only if some token is padding, or some sequence is
 * packed. So all() answers as it would over nothing, true; any() too, false;
 * and 64-bit integers, which is what counts of elements are, compare as equal.
 */
#ifndef VS_SIM_READBACK_H
#define VS_SIM_READBACK_H

#include <stddef.h>

/* A kernel of a fat binary: its host stub and its mangled name. Any thread. */
void vs_readback_register(const void *function, const char *name);
/* The calling thread launched `function`; its arguments by address, or NULL. */
void vs_readback_launched(const void *function, void *const *arguments);
/* The calling thread copied `size` bytes within the card. */
void vs_readback_copied(size_t size);
/* The byte of which `size` bytes of device memory consist, as read by the calling thread now. */
int vs_readback_byte(size_t size);

#endif
