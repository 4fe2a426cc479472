/* SPDX-License-Identifier: MIT */
#include "shim/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

int vs_with_high_descriptors(void (*work)(void))
{
	bool taken[VS_HIGH_FD] = {false};
	int first = open("/", O_PATH | O_CLOEXEC), fd = first, r = -EMFILE;

	while (fd >= 0 && fd < VS_HIGH_FD) {
		taken[fd] = true;
		fd = fcntl(first, F_DUPFD_CLOEXEC, 0);
	}
	if (fd >= 0) {
		syscall(SYS_close, fd);
		work();
		r = 0;
	}
	for (int i = 0; i < VS_HIGH_FD; i++)
		if (taken[i])
			syscall(SYS_close, i);
	return r;
}
