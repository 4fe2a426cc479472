/* SPDX-License-Identifier: MIT
 *
 * /dev/nvidia0 and its like: programs look for them to see whether a card is there, before they try CUDA. They are
 * there to be seen, not to be opened: who opens them is the driver.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim/sim.h"

#define PREFIX "/dev/nvidia"

/* Numbers of Linux' devices.txt: major 195, the card's number as minor, 255 the one for control. */
enum { MAJOR = 195, MINOR_CONTROL = 255 };

/* Minor number of a device file of the simulated cards, or -1. */
static int minor_of(const char *path)
{
	const struct vs_sim *sim;
	const char *rest;
	unsigned long number;
	char *end;

	if (!path || strncmp(path, PREFIX, strlen(PREFIX)))
		return -1;
	sim = vs_sim_get();
	rest = path + strlen(PREFIX);
	if (!sim)
		return -1;
	if (!strcmp(rest, "ctl"))
		return MINOR_CONTROL;
	number = strtoul(rest, &end, 10);
	return *rest >= '0' && *rest <= '9' && !*end && number < (unsigned long)sim->installed ? (int)number : -1;
}

/* What an export answers, or this: the file is none of ours. */
#define REAL 1

static int describe(const char *path, struct stat *ret)
{
	int number = minor_of(path);

	if (number < 0 || !ret)
		return REAL;
	*ret = (struct stat){.st_mode = S_IFCHR | 0666,
	                     .st_nlink = 1,
	                     .st_blksize = 4096,
	                     .st_rdev = makedev(MAJOR, (unsigned)number)};
	return 0;
}

static int describe_more(const char *path, struct statx *ret)
{
	int number = minor_of(path);

	if (number < 0 || !ret)
		return REAL;
	*ret = (struct statx){.stx_mask = STATX_BASIC_STATS,
	                      .stx_blksize = 4096,
	                      .stx_nlink = 1,
	                      .stx_mode = S_IFCHR | 0666,
	                      .stx_rdev_major = MAJOR,
	                      .stx_rdev_minor = (unsigned)number};
	return 0;
}

/* Readable and writable by all, and no program. */
static int allow(const char *path, int mode)
{
	if (minor_of(path) < 0)
		return REAL;
	if (!(mode & X_OK))
		return 0;
	errno = EACCES;
	return -1;
}

/* The real function behind an export of the same name; where there is none (glibc before 2.33 had other names), the
 * call fails as one that the kernel does not know. */
#define NEXT(name, ...)                                                                                              \
	__extension__({                                                                                              \
		static _Atomic(void *) next;                                                                         \
		void *known = atomic_load_explicit(&next, memory_order_relaxed);                                     \
                                                                                                                     \
		if (!known)                                                                                          \
			atomic_store_explicit(&next, known = dlsym(RTLD_NEXT, #name), memory_order_relaxed);         \
		known ? ((__typeof__(&known_##name))known)(__VA_ARGS__) : (errno = ENOSYS, -1);                      \
	})

/* Under a name of its own in C, as the headers declare some of these in ways of their own. */
#define EXPORT(name, answer, parameters, ...)                                                                        \
	extern int known_##name parameters;                                                                          \
	VS_API int export_##name parameters __asm__(#name);                                                          \
	int export_##name parameters                                                                                 \
	{                                                                                                            \
		int r = answer;                                                                                      \
                                                                                                                     \
		return r != REAL ? r : NEXT(name, __VA_ARGS__);                                                      \
	}

#define STAT(name) EXPORT(name, describe(path, out), (const char *path, struct stat *out), path, out)
#define STAT_OLD(name)                                                                                               \
	EXPORT(name, describe(path, out), (int version, const char *path, struct stat *out), version, path, out)
#define STAT_AT(name)                                                                                                \
	EXPORT(name, describe(path, out), (int folder, const char *path, struct stat *out, int flags), folder, path, \
	       out, flags)

STAT(stat)
STAT(stat64) /* where addresses have 64 bits, struct stat64 is struct stat */
STAT(lstat)
STAT(lstat64)
STAT_OLD(__xstat) /* of programs that were linked to glibc before 2.33 */
STAT_OLD(__xstat64)
STAT_OLD(__lxstat)
STAT_OLD(__lxstat64)
STAT_AT(fstatat)
STAT_AT(fstatat64)
EXPORT(statx, describe_more(path, out),
       (int folder, const char *path, int flags, unsigned int mask, struct statx *out), folder, path, flags, mask,
       out)
EXPORT(access, allow(path, mode), (const char *path, int mode), path, mode)
EXPORT(euidaccess, allow(path, mode), (const char *path, int mode), path, mode)
EXPORT(faccessat, allow(path, mode), (int folder, const char *path, int mode, int flags), folder, path, mode, flags)
