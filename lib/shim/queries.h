/* SPDX-License-Identifier: MIT
 *
 * What the recorder itself asks of CUDA's driver: reads that are allowed at any time, also while a stream is
 * captured.
 */
#ifndef VS_SHIM_QUERIES_H
#define VS_SHIM_QUERIES_H

#include <stdint.h>

/* Each returns 0, or -1 where the driver has no such call or refuses. Inside a hook only; errno is kept. */

/* The memory pool that a stream-ordered allocation came from, and its device. */
int vs_query_pool_of(uint64_t address, uint64_t *ret_pool, int *ret_device);
/* Bytes that a pool, or the graphs of a device, have from the card now. */
int vs_query_pool_held(uint64_t pool, uint64_t *ret_bytes);
int vs_query_graphs_held(int device, uint64_t *ret_bytes);
/* Whether work for a stream goes into a graph instead. */
int vs_query_capturing(void *stream, int *ret_capturing);
/* Whether the device's primary context is there; does not make it. */
int vs_query_primary(int device, int *ret_active);
/* The calling thread's context, 0: none. */
int vs_query_context(uint64_t *ret_context);

#endif
