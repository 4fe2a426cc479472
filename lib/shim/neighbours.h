/* SPDX-License-Identifier: MIT
 *
 * What each process holds on a card, as NVML says: the one source that knows of memory no call of ours shows.
 */
#ifndef VS_SHIM_NEIGHBOURS_H
#define VS_SHIM_NEIGHBOURS_H

#include <stdint.h>

/* Bytes of this process and of all others on device `device`; both are left alone where NVML is absent, does not tell
 * (MIG, some containers), or is switched off (VRAMSHIM_NVML=0). Takes milliseconds on a real card. */
void vs_neighbours_held(int device, uint64_t *ret_own, uint64_t *ret_others);

/* Free bytes of device `device`, where the thread has no context to ask the driver. Negative errno as above. */
int vs_neighbours_free(int device, uint64_t *ret_bytes);

/* "GPU-..." of a device, as NVML and CUDA_VISIBLE_DEVICES name it. Negative errno where the driver does not tell. */
#define VS_UUID_SIZE 41 /* bytes, with the final 0 */
int vs_neighbours_uuid(int device, char ret_uuid[VS_UUID_SIZE]);

#endif
