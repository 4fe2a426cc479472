/* SPDX-License-Identifier: MIT
 *
 * What the little CUDA programs here share: each keeps its own account of what it asked CUDA for, and states it at
 * its marks, where the account that is made of its trace (books.c) must read the same.
 */
#ifndef VS_TESTS_CLIENT_H
#define VS_TESTS_CLIENT_H

#include <stdint.h>
#include <stdio.h>

#include <vramshim/events.h>

enum { CLIENT_KINDS = VRAMSHIM_MEMORY_GRAPHS + 1 };

struct client_books {
	uint64_t bytes[CLIENT_KINDS]; /* by enum vramshim_memory */
	uint64_t used;                /* of the card, contexts included */
};

/* One line, all kinds that have bytes. */
void client_print(FILE *out, const char *name, const struct client_books *books);

/* An instant of the program: a mark in the trace, if there is one, and a line on standard output. */
void client_mark(const char *name, const struct client_books *books);

/* Exit status 1 and a line on standard error where a call of CUDA's failed. */
void client_check(int result, const char *call, int line);
#define CHECK(call) client_check(call, #call, __LINE__)

/* Work that takes time and no memory. The recorder asks for the free memory seldom: never in a program that is over
 * in a millisecond. CLIENT_WORK_MS milliseconds, or 300. */
void client_work(void);

#endif
