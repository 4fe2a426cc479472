/* SPDX-License-Identifier: MIT
 *
 * To know whether memory may be read, libunwind writes it into a pipe. Descriptors are the job's: it may close them
 * all and use the numbers again, and libunwind would then read from, write to and close the job's own files; and
 * while it opens its pipe, what the job opens gets other numbers. So its calls for that lead here, and there is no
 * pipe.
 */
#include "shim/libunwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/readable.h"
#include "shim/symbols.h"

/* No descriptor has this number: the highest that fs.nr_open can allow is 64 less (sysctl_nr_open_max, fs/file.c). */
#define NOWHERE INT_MAX

/* The job may have used libunwind before us, and closed the pipe that was made then. So the first of what asks for
 * that is told that it is gone; what follows is to close it, and to make another one. */
static __thread bool replaced __attribute__((tls_model("initial-exec")));

static int no_pipe(int ends[2])
{
	replaced = false;
	ends[0] = ends[1] = NOWHERE;
	return 0;
}

static int no_pipe2(int ends[2], int flags)
{
	(void)flags;
	return no_pipe(ends);
}

/* As an empty pipe does. Of files, libunwind reads more than a byte at a time. */
static ssize_t read_nothing(int fd, void *buffer, size_t size)
{
	if (fd != NOWHERE && size != 1)
		return read(fd, buffer, size);
	replaced = fd != NOWHERE;
	errno = replaced ? EBADF : EAGAIN;
	return -1;
}

static long written(const void *from, size_t size)
{
	if (vs_readable(from, size)) {
		errno = 0; /* libunwind asks again where it finds EINTR, whatever the answer was */
		return (long)size;
	}
	errno = EFAULT;
	return -1;
}

static ssize_t write_nothing(int fd, const void *from, size_t size)
{
	return fd == NOWHERE ? written(from, size) : write(fd, from, size);
}

/* What was an int when it was passed has no upper half to rely on. */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	return (int)number == SYS_write && (int)a == NOWHERE ? written((const void *)b, (size_t)c)
	                                                     : syscall(number, a, b, c, d, e, f);
}

/* It asks so too; what is readable, the above says. A sandbox may think ill of the real ones. */
static int resident(void *address, size_t size, unsigned char *pages)
{
	(void)address;
	(void)size;
	pages[0] = 1;
	return 0;
}

static int synchronized(void *address, size_t size, int flags)
{
	(void)address;
	(void)size;
	(void)flags;
	return 0;
}

static int close_nothing(int fd)
{
	return fd == NOWHERE || replaced ? 0 : close(fd);
}

static int control_nothing(int fd, int command, long argument)
{
	return fd == NOWHERE ? 0 : (int)syscall(SYS_fcntl, fd, command, argument);
}

/* Releases differ in which of them they use. */
static struct vs_symbol_slot calls[] = {
    /* libc's own, below: ThreadSanitizer's end a process where they are called as late in a thread's end as libunwind
     * does. */
    {"pthread_mutex_lock", NULL},  {"pthread_mutex_unlock", NULL},   {"pipe", (void *)no_pipe},
    {"pipe2", (void *)no_pipe2},   {"read", (void *)read_nothing},   {"write", (void *)write_nothing},
    {"syscall", (void *)call},     {"close", (void *)close_nothing}, {"fcntl", (void *)control_nothing},
    {"mincore", (void *)resident}, {"msync", (void *)synchronized},
};

int (*vs_libunwind_open(void))(void **, int)
{
	/* Not linked: as a dependency of a preload it would take over every C++ throw of the job, ten times dearer.
	 * RTLD_LOCAL keeps its exception handling to itself. libunwind.so.8 is every release since 1.1 (2013). */
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL), *frame;
	int (*backtrace)(void **, int) = library ? (int (*)(void **, int))dlsym(library, "unw_backtrace") : NULL;

	if (!backtrace)
		return NULL;
	for (int i = 0; i < 2; i++) {
		calls[i].replacement = vs_symbol_of("libc.so", calls[i].name);
		if (!calls[i].replacement) /* before glibc 2.34 */
			calls[i].replacement = vs_symbol_of("libpthread", calls[i].name);
	}
	vs_symbol_replace((const void *)backtrace, calls, sizeof(calls) / sizeof(calls[0]));
	/* What it makes at its first call, it makes now. */
	backtrace(&frame, 1);
	return backtrace;
}
