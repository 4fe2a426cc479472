/* SPDX-License-Identifier: MIT
 *
 * The tests' second library, libvramshim_checked.so, holds every stack against a full walk that remembers and guesses
 * nothing, and says at the end how many were right. In the real one these are nothing.
 */
#ifndef VS_SHIM_CHECK_H
#define VS_SHIM_CHECK_H

#include <stdint.h>

struct vs_process;

enum vs_check_way {
	VS_CHECK_GUESSED,
	VS_CHECK_BY_RULES,
	VS_CHECK_BY_LIBUNWIND,
	VS_CHECK_WAYS,
};

#ifdef VS_CHECK_STACKS
/* A native stack came about in this way. */
void vs_check_count(enum vs_check_way way);
/* A stack is about to be taken. */
void vs_check_begin(void);
/* `id` is what was made of the calling thread's stack, without its native part where `light`. Not compared where
 * another thread found the interpreter since the beginning, so that only the second walk has Python's frames. */
void vs_check_stack(struct vs_process *process, uint32_t id, int light);
#else
static inline void vs_check_count(enum vs_check_way way)
{
	(void)way;
}

static inline void vs_check_begin(void)
{
}

static inline void vs_check_stack(struct vs_process *process, uint32_t id, int light)
{
	(void)process;
	(void)id;
	(void)light;
}
#endif

#endif
