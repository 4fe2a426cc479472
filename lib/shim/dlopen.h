/* SPDX-License-Identifier: MIT
 *
 * The exported dlopen(): the real one, with RTLD_NODELETE.
 */
#ifndef VS_SHIM_DLOPEN_H
#define VS_SHIM_DLOPEN_H

/* From now on libraries stay mapped once loaded: a library at the address of an unloaded one would make
 * libunwind's per-thread cache return wrong stacks, and the trace's module table ambiguous. */
void vs_dlopen_keep(void);

#endif
