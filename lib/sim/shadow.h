/* SPDX-License-Identifier: MIT
 *
 * What the host has just put into device memory. Device memory has no
 * contents, but a few small values travel through it untouched by kernels, and
 * frameworks rely on them: DistributedDataParallel compares parameter counts
 * and agrees on buckets that way, and crashes on zeros. So small copies are
 * remembered until any kernel is launched, which might have changed them.
 */
#ifndef VS_SIM_SHADOW_H
#define VS_SIM_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

/* The host wrote `size` bytes to `address`; `from` NULL: something unknown did. */
void vs_shadow_write(uint64_t address, const void *from, uint64_t size);

/* Device to device: what is known of `from` is known of `to` now. */
void vs_shadow_move(uint64_t to, uint64_t from, uint64_t size);

/* Fill `to` with what is known of all `size` bytes; false where they are not known. */
bool vs_shadow_read(void *to, uint64_t address, uint64_t size);

/* A kernel ran: nothing is known any more. */
void vs_shadow_forget(void);

#endif
