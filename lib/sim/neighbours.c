/* SPDX-License-Identifier: MIT */
#include "sim/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/books.h"

enum { SLOTS = 128 }; /* processes on one machine at the same time */

/* What the file holds: zeros to begin with. A slot belongs to whoever put its pid there, until that process is gone;
 * a pid that was given out again is taken for the old owner, which only a long-lived file can meet. */
struct slot {
	_Atomic int pid;
	_Atomic uint64_t used[VS_DEVICES];
};

static uint64_t planted[VS_DEVICES];
static struct slot *slots; /* NULL: nothing is shared */
static _Atomic(struct slot *) mine;

int vs_neighbours_open(const uint64_t *bytes, int count, const char *path)
{
	void *memory = MAP_FAILED;
	int fd;

	memcpy(planted, bytes, (size_t)count * sizeof(*bytes));
	if (!path)
		return 0;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* Every process makes it the same size: what is there stays. */
	if (ftruncate(fd, SLOTS * sizeof(*slots)) == 0)
		memory = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	slots = memory;
	return 0;
}

static bool is_alive(int pid)
{
	return pid && (kill(pid, 0) == 0 || errno != ESRCH);
}

/* A forked child is another process, with a slot of its own. NULL where all are taken: then it is not seen. */
static struct slot *my_slot(void)
{
	struct slot *slot = atomic_load(&mine);
	int pid = getpid();

	if (slot && atomic_load(&slot->pid) == pid)
		return slot;
	for (int i = 0; i < SLOTS; i++) {
		int owner = atomic_load(&slots[i].pid);

		if (owner != pid && (is_alive(owner) || !atomic_compare_exchange_strong(&slots[i].pid, &owner, pid)))
			continue;
		for (int device = 0; owner != pid && device < VS_DEVICES; device++)
			atomic_store(&slots[i].used[device], 0);
		atomic_store(&mine, &slots[i]);
		return &slots[i];
	}
	return NULL;
}

static bool is_other(const struct slot *slot, int installed, struct vs_neighbour *ret_neighbour)
{
	uint64_t bytes = atomic_load(&slot->used[installed]);
	int pid = atomic_load(&slot->pid);

	if (!bytes || pid == getpid() || !is_alive(pid))
		return false;
	*ret_neighbour = (struct vs_neighbour){(unsigned int)pid, bytes};
	return true;
}

uint64_t vs_neighbours_held(int installed)
{
	uint64_t others = planted[installed];
	struct vs_neighbour neighbour;

	for (int i = 0; slots && i < SLOTS; i++)
		if (is_other(&slots[i], installed, &neighbour))
			others += neighbour.bytes;
	return others;
}

uint64_t vs_neighbours_exchange(int installed, uint64_t used)
{
	struct slot *slot = slots ? my_slot() : NULL;

	if (slot)
		atomic_store(&slot->used[installed], used);
	return vs_neighbours_held(installed);
}

unsigned int vs_neighbours_list(int installed, struct vs_neighbour *ret_list, unsigned int size)
{
	unsigned int count = 0;

	if (planted[installed] && count < size)
		ret_list[count++] = (struct vs_neighbour){VS_PLANTED_PID, planted[installed]};
	for (int i = 0; slots && i < SLOTS && count < size; i++)
		count += is_other(&slots[i], installed, &ret_list[count]);
	return count;
}
