/* SPDX-License-Identifier: MIT
 *
 * libunwind as a guest: it is opened, and leaves the job's descriptors alone.
 */
#ifndef VS_SHIM_LIBUNWIND_H
#define VS_SHIM_LIBUNWIND_H

/* unw_backtrace(), ready for use; NULL where it is not installed. Loads a library: hold no lock. */
int (*vs_libunwind_open(void))(void **frames, int size);

#endif
