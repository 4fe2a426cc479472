/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const kinds[CLIENT_KINDS] = {
    [VRAMSHIM_MEMORY_DEVICE] = "device",   [VRAMSHIM_MEMORY_MANAGED] = "managed",
    [VRAMSHIM_MEMORY_PINNED] = "pinned",   [VRAMSHIM_MEMORY_ARRAY] = "array",
    [VRAMSHIM_MEMORY_POOL] = "pool",       [VRAMSHIM_MEMORY_PHYSICAL] = "physical",
    [VRAMSHIM_MEMORY_MAPPED] = "mapped",   [VRAMSHIM_MEMORY_RESERVED] = "reserved",
    [VRAMSHIM_MEMORY_FOREIGN] = "foreign", [VRAMSHIM_MEMORY_HELD] = "held",
    [VRAMSHIM_MEMORY_CONTEXT] = "context", [VRAMSHIM_MEMORY_CODE] = "code",
    [VRAMSHIM_MEMORY_GRAPHS] = "graphs",
};

void client_print(FILE *out, const char *name, const struct client_books *books)
{
	fprintf(out, "%s:", name);
	for (int kind = 1; kind < CLIENT_KINDS; kind++)
		if (books->bytes[kind] && kind != VRAMSHIM_MEMORY_CONTEXT)
			fprintf(out, " %s %" PRIu64 ",", kinds[kind], books->bytes[kind]);
	fprintf(out, " used %" PRIu64 "\n", books->used);
}

void client_mark(const char *name, const struct client_books *books)
{
	void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "vramshim_mark");

	if (mark)
		mark(name);
	client_print(stdout, name, books);
}

void client_check(int result, const char *call, int line)
{
	if (!result)
		return;
	fprintf(stderr, "line %d: %s: %d\n", line, call, result);
	exit(1);
}

void client_work(void)
{
	const char *milliseconds = getenv("CLIENT_WORK_MS");

	usleep(1000 * (milliseconds ? (useconds_t)atoi(milliseconds) : 300));
}
