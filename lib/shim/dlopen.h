/* SPDX-License-Identifier: MIT
 *
 * The exported dlopen(): the real one, with RTLD_NODELETE once the process is recorded.
 */
#ifndef VS_SHIM_DLOPEN_H
#define VS_SHIM_DLOPEN_H

/* From now on libraries stay mapped once loaded, those that are loaded already as well: a library at the address of
 * an unloaded one would make libunwind's per-thread cache return wrong stacks, and the trace's module table
 * ambiguous. Once a process image; later calls do nothing. Those that are loaded already follow at a later call
 * where another thread is loading one (libraries.h). */
void vs_dlopen_keep(void);

#endif
