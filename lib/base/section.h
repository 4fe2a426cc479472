/* SPDX-License-Identifier: MIT
 *
 * Stretches of our code inside a job's thread that must run to their end: those that hold a lock, or leave something
 * half done. A signal handler of the job's may jump out of what it interrupts, fork, or end the process, and a
 * cancelled thread vanishes at the next system call; with a lock of ours held, the next event would wait for ever.
 */
#ifndef VS_BASE_SECTION_H
#define VS_BASE_SECTION_H

#include <signal.h>

struct vs_section {
	sigset_t signals;
	int state, type; /* of the thread's cancellation */
};

/* Hold back signals, but for those that the thread's own instructions raise, and cancellation. Two system calls for a
 * pair: for rare paths. May be nested; the calling thread's only. errno is kept. */
void vs_section_enter(struct vs_section *ret_section);
/* As it was before. The thread may be cancelled here, if it asked for that to happen at any time. */
void vs_section_leave(const struct vs_section *section);

#endif
