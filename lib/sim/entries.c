/* SPDX-License-Identifier: MIT
 *
 * Which export is meant by a base name from which CUDA version on: entries.def,
 * made from cudaTypedefs.h. A file of its own, because the exports are known
 * to it by name only.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

struct entry {
	const char *base;
	int since; /* CUDA version, 1000 * major + 10 * minor */
	void (*function)(void);
};

#define E(base, since, function) extern void function(void);
#include "sim/entries.def"
#undef E

static const struct entry entries[] = {
/* By base name, then version: the search relies on it. */
#define E(base, since, function) {#base, since, function},
#include "sim/entries.def"
#undef E
};

static int by_base(const void *key, const void *entry)
{
	return strcmp(key, ((const struct entry *)entry)->base);
}

void *vs_entry_point(const char *name, int version)
{
	const struct entry *end = entries + sizeof(entries) / sizeof(entries[0]);
	const struct entry *entry =
	    bsearch(name, entries, sizeof(entries) / sizeof(entries[0]), sizeof(*entry), by_base);
	void *found = NULL;

	if (!entry)
		return NULL;
	while (entry > entries && !strcmp(entry[-1].base, name))
		entry--;
	for (; entry < end && !strcmp(entry->base, name) && entry->since <= version; entry++)
		found = (void *)entry->function;
	return found;
}
