/* SPDX-License-Identifier: MIT */
#include "message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void vs_complain(const char *format, ...)
{
	char line[2048];
	int prefix = snprintf(line, sizeof(line), "%.64s: ", program_invocation_short_name);
	va_list args;

	va_start(args, format);
	/* One byte is kept for the newline. */
	vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, args);
	va_end(args);

	size_t size = strlen(line);
	for (size_t i = 0; i < size; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	line[size++] = '\n';
	if (write(STDERR_FILENO, line, size) < 0)
		return; /* nobody listens: nothing more can be done */
}
