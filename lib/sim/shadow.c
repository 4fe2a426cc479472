/* SPDX-License-Identifier: MIT */
#include "sim/shadow.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* Metadata is small: DistributedDataParallel's largest is 8 bytes a parameter tensor of the model. */
enum { ENTRIES = 64, BYTES = 16384 };

static struct entry {
	uint64_t address;
	uint64_t size; /* 0: empty */
	unsigned char bytes[BYTES];
} entries[ENTRIES];
static unsigned int next; /* the oldest, replaced first */
static _Atomic unsigned int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(uint64_t address, uint64_t size)
{
	for (int i = 0; i < ENTRIES; i++) {
		struct entry *entry = &entries[i];

		if (entry->size && entry->address < address + size && address < entry->address + entry->size) {
			entry->size = 0;
			known--;
		}
	}
}

static void add(uint64_t address, const void *from, uint64_t size)
{
	struct entry *entry = &entries[next++ % ENTRIES];

	if (!entry->size)
		known++;
	entry->address = address;
	entry->size = size;
	memcpy(entry->bytes, from, size);
}

static const unsigned char *find(uint64_t address, uint64_t size)
{
	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &entries[i];

		if (entry->size && address >= entry->address && size <= entry->size &&
		    address - entry->address <= entry->size - size)
			return entry->bytes + (address - entry->address);
	}
	return NULL;
}

void vs_shadow_write(uint64_t address, const void *from, uint64_t size)
{
	bool keep = from && size && size <= BYTES;

	if (!keep && !known)
		return;
	pthread_mutex_lock(&lock);
	drop(address, size);
	if (keep)
		add(address, from, size);
	pthread_mutex_unlock(&lock);
}

void vs_shadow_move(uint64_t to, uint64_t from, uint64_t size)
{
	const unsigned char *bytes;
	unsigned char copy[BYTES];

	if (!known || to == from)
		return;
	pthread_mutex_lock(&lock);
	bytes = size <= BYTES ? find(from, size) : NULL;
	if (bytes)
		memcpy(copy, bytes, size);
	drop(to, size);
	if (bytes)
		add(to, copy, size);
	pthread_mutex_unlock(&lock);
}

bool vs_shadow_read(void *to, uint64_t address, uint64_t size)
{
	const unsigned char *bytes;

	if (!known)
		return false;
	pthread_mutex_lock(&lock);
	bytes = find(address, size);
	if (bytes)
		memcpy(to, bytes, size);
	pthread_mutex_unlock(&lock);
	return bytes;
}

void vs_shadow_forget(void)
{
	if (!known)
		return;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < ENTRIES; i++)
		entries[i].size = 0;
	known = 0;
	pthread_mutex_unlock(&lock);
}
