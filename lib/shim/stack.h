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

/* The id of the calling thread's stack, native and Python as the level says for this type of event; 0: none
 * taken, or one too many. No lock is held while walking. */
uint32_t vs_stack_capture(struct vs_process *process, enum vramshim_event_type type);
/* The id of a string, each text once a process; 0 when there is no room. */
uint32_t vs_stack_string(struct vs_process *process, const char *text, size_t size);

#endif
