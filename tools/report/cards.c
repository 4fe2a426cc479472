/* SPDX-License-Identifier: MIT */
#include "cards.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* More than the table of GPUs has. */
#define CARDS_MAX 128

static struct vs_gpu_memory cards[CARDS_MAX];
static size_t count;

static int by_memory(const void *left, const void *right)
{
	const struct vs_gpu_memory *a = left, *b = right;

	return (a->total > b->total) - (a->total < b->total);
}

static void fill(void)
{
	if (count)
		return;
	while (count < CARDS_MAX && vs_gpu_memory_at(count, &cards[count]))
		count++;
	qsort(cards, count, sizeof(cards[0]), by_memory);
}

/* The length of "a100-40" in "a100-40g" and "a100-40GB"; 0: nothing to leave out. */
static size_t without_unit(const char *name)
{
	size_t size = strlen(name);

	if (size && tolower((unsigned char)name[size - 1]) == 'b')
		size--;
	return size && tolower((unsigned char)name[size - 1]) == 'g' ? size - 1 : 0;
}

const struct vs_gpu_memory *vs_card_find(const char *name)
{
	struct vs_gpu_memory found;
	char text[64];
	size_t size = without_unit(name);

	if (vs_gpu_memory_find(name, &found) < 0) {
		if (!size || size >= sizeof(text))
			return NULL;
		memcpy(text, name, size);
		text[size] = '\0';
		if (vs_gpu_memory_find(text, &found) < 0)
			return NULL;
	}
	for (size_t i = 0; vs_card_at(i); i++) {
		if (cards[i].key == found.key)
			return &cards[i];
	}
	return NULL;
}

const struct vs_gpu_memory *vs_card_at(size_t index)
{
	fill();
	return index < count ? &cards[index] : NULL;
}
