/* SPDX-License-Identifier: MIT
 *
 * Kernel launches and occupancy, shared by the runtime and the driver API.
 */
#ifndef VS_SIM_LAUNCH_H
#define VS_SIM_LAUNCH_H

#include "sim/cuda_api.h"

/* What is assumed of a kernel whose code is not looked at: it may fill a block, and does not limit occupancy. */
#define VS_KERNEL_THREADS   1024
#define VS_KERNEL_REGISTERS 32

/* Check a launch as CUDA does and put it on the stream. */
int vs_launch(struct vs_dim3 grid, struct vs_dim3 block, size_t shared, void *stream);

/* Blocks of `block` threads and `shared` bytes that one multiprocessor holds. */
int vs_occupancy(int block, size_t shared);

/* Clusters of such blocks that the card holds at once. */
int vs_occupancy_clusters(struct vs_dim3 block, size_t shared);

#endif
