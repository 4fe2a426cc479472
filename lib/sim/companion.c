/* SPDX-License-Identifier: MIT
 *
 * libcuda.so.1 and libnvidia-ml.so.1: dlopen() asks for these names. Symbols
 * are looked up in what a library needs as well, so this one only needs
 * libvramsim.so.
 */

/* An object file must hold something. */
extern const int vramsim_active;
__attribute__((visibility("hidden"))) const int *const vs_companion = &vramsim_active;
