/* SPDX-License-Identifier: MIT
 *
 * Stacks to ids.
 */
#ifndef VS_SHIM_STACK_H
#define VS_SHIM_STACK_H

#include <stddef.h>
#include <stdint.h>
#include <vramshim/events.h>

struct vs_process;
struct vs_stacks;
struct vs_native_stack;
struct vs_python_stack;

/* A thread's last stack, and what may come next: 200 KiB, of which what is used is touched, and what the
 * guesses take (stack_guess.h). NULL when there is no memory. May allocate. */
struct vs_stacks *vs_stacks_new(void);
/* All of the thread's is forgotten: the recording is another one. */
void vs_stacks_restart(struct vs_stacks *stacks);
/* Accepts NULL. */
void vs_stacks_free(struct vs_stacks *stacks);

/* The id of the calling thread's stack, native and Python as the level says for this type of event; 0: none
 * taken, or one too many. No lock is held while walking. */
uint32_t vs_stack_capture(struct vs_process *process, enum vramshim_event_type type);
/* The id of a stack that was walked. Level light: count 0 of native ones. */
uint32_t vs_stack_id(struct vs_process *process, const struct vs_native_stack *native,
                     const struct vs_python_stack *python);
/* The id of a string, each text once a process; 0 when there is no room. */
uint32_t vs_stack_string(struct vs_process *process, const char *text, size_t size);

/* Bytes that the calling thread has left of its own stack. 0: not known, as on a stack that the job made for a
 * coroutine. Inside a hook only. */
size_t vs_stack_left(void);

#endif
