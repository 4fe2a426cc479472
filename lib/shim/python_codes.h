/* SPDX-License-Identifier: MIT
 *
 * Whether code objects have died: while none has, the address of one that was seen tells which one it is, and nothing
 * else of it need be read.
 */
#ifndef VS_SHIM_PYTHON_CODES_H
#define VS_SHIM_PYTHON_CODES_H

#include <stdint.h>

/* Of nothing that was seen: what is not equal to any epoch. */
#define VS_PYTHON_NO_EPOCH UINT64_MAX

/* Changes with each death. A code object on a stack is alive, so what is read of it after the epoch belongs to that
 * epoch. 0, which is never noted: deaths are not seen. */
extern uint64_t vs_python_deaths __attribute__((visibility("hidden")));

static inline uint64_t vs_python_epoch(void)
{
	/* Acquire: an object that took the place of a dead one is met after it died. */
	return __atomic_load_n(&vs_python_deaths, __ATOMIC_ACQUIRE);
}

/* For later comparison with the epoch of then. */
static inline uint64_t vs_python_epoch_noted(uint64_t epoch)
{
	return epoch ? epoch : VS_PYTHON_NO_EPOCH;
}

/* From now on deaths are seen. `code_type` is PyCode_Type, `object_type` where objects have their type. Any thread,
 * once a process image. */
void vs_python_watch_codes(void *code_type, uint16_t object_type);

#endif
