/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace/process.h>
#include <unistd.h>

enum { FIELD_NAME = 2, FIELD_START = 22 };

uint64_t vs_process_start(uint32_t pid)
{
	char text[1024]; /* 52 numbers and a name of 15 bytes (64 for a kernel thread) */
	ssize_t size;
	char *at;
	int fd;

	snprintf(text, sizeof(text), "/proc/%u/stat", pid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = 0;
	at = strrchr(text, ')'); /* the name may itself hold spaces and parentheses */
	if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return 0;
	for (int field = FIELD_NAME; at && field < FIELD_START; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}
