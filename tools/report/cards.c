/* SPDX-License-Identifier: MIT */
#include "cards.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

/* A row of the table, column by column. */
static const struct row {
	const char *key, *name;
	uint32_t memory_mib, context_kib, major, minor, processors, l2_kib, shared_sm_kib, shared_optin_kib,
	    threads_sm, blocks_sm, bus_bits, clock_mhz, memory_clock_mhz, ecc, pci_id;
} rows[] = {
#include "sim/gpus.def"
};

#define COUNT (sizeof(rows) / sizeof(rows[0]))

static struct vs_card cards[COUNT];

static int by_memory(const void *left, const void *right)
{
	const struct vs_card *a = left, *b = right;

	return a->memory < b->memory ? -1 : a->memory > b->memory;
}

static void fill(void)
{
	if (cards[0].key)
		return;
	for (size_t i = 0; i < COUNT; i++)
		cards[i] = (struct vs_card){rows[i].key, rows[i].name, (uint64_t)rows[i].memory_mib << 20,
		                            (uint64_t)rows[i].context_kib << 10};
	qsort(cards, COUNT, sizeof(cards[0]), by_memory);
}

/* Letters and digits alone, whatever their case: "A100 80" and "a100-80" are the same. A "g" for GB may follow. */
static bool same(const char *left, const char *right)
{
	for (;;) {
		while (*left && !isalnum((unsigned char)*left))
			left++;
		while (*right && !isalnum((unsigned char)*right))
			right++;
		if (!*left && !*right)
			return true;
		if (!*right)
			return tolower((unsigned char)*left) == 'g' &&
			       (!left[1] || (tolower((unsigned char)left[1]) == 'b' && !left[2]));
		if (tolower((unsigned char)*left) != tolower((unsigned char)*right))
			return false;
		left++;
		right++;
	}
}

const struct vs_card *vs_card_find(const char *name)
{
	fill();
	for (size_t i = 0; i < COUNT; i++) {
		if (same(name, cards[i].key) || same(name, cards[i].name))
			return &cards[i];
	}
	return NULL;
}

const struct vs_card *vs_card_at(size_t index)
{
	fill();
	return index < COUNT ? &cards[index] : NULL;
}
