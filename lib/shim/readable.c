/* SPDX-License-Identifier: MIT
 *
 * The kernel is asked to take a signal mask from there and to do what it does not know with it: it reads the mask
 * first (kernel/signal.c, rt_sigprocmask), and so do those that stand in for a kernel (gVisor). Of all calls that
 * read memory it is the one that no sandbox can forbid: every program makes it whenever it starts a thread.
 */
#include "shim/readable.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's signal mask, bytes: 64 signals. */
#define MASK_SIZE 8
/* Neither SIG_BLOCK nor SIG_UNBLOCK nor SIG_SETMASK. */
#define NO_SUCH_CHANGE (-1)

static bool word_is_readable(uintptr_t address)
{
	return syscall(SYS_rt_sigprocmask, NO_SUCH_CHANGE, address & ~(uintptr_t)(MASK_SIZE - 1), NULL, MASK_SIZE) <
	           0 &&
	       errno == EINVAL;
}

bool vs_readable(const void *address, size_t size)
{
	uintptr_t first = (uintptr_t)address, last = first + size - 1;
	int saved = errno;
	bool readable = last >= first && word_is_readable(first) &&
	                (first / MASK_SIZE == last / MASK_SIZE || word_is_readable(last));

	errno = saved;
	return readable;
}
