/* SPDX-License-Identifier: MIT */
#include "trace_helper.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *scratch_make(void)
{
	const char *base = getenv("TMPDIR");
	char *folder = NULL;

	assert_true(asprintf(&folder, "%s/vramshim-test-XXXXXX", base ? base : "/tmp") > 0);
	assert_non_null(mkdtemp(folder));
	return folder;
}

void scratch_remove(char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		unlinkat(dirfd(entries), entry->d_name, 0);
	if (entries)
		closedir(entries);
	rmdir(folder);
	free(folder);
}

char *scratch_path(const char *folder, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
	return path;
}

uint8_t *read_whole(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	uint8_t *data;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	data = malloc((size_t)status.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)status.st_size), status.st_size);
	close(fd);
	*ret_size = (size_t)status.st_size;
	return data;
}

void write_whole(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	if (size)
		assert_int_equal(write(fd, data, size), size);
	close(fd);
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
	/* splitmix64 */
	uint64_t word = *state += UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (word ^ (word >> 31)) % limit;
}

/* Numbers of all magnitudes, the extremes included. */
static uint64_t random_number(uint64_t *state, unsigned bits)
{
	uint64_t most = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	switch (random_below(state, 8)) {
	case 0:
		return 0;
	case 1:
		return most;
	default:
		return (random_below(state, UINT64_MAX) >> random_below(state, 64)) & most;
	}
}

static uint64_t random_bytes(uint64_t *state)
{
	return random_below(state, 4) ? (random_number(state, 64) & ~UINT64_C(511)) : random_number(state, 64);
}

struct vramshim_event random_event(uint64_t *state)
{
	struct vramshim_event event = {.type = 1 + (int)random_below(state, VRAMSHIM_EXIT)};

	event.device =
	    (int16_t)(random_below(state, 4) ? (int)random_below(state, 3) - 1 : (int)random_number(state, 16));
	event.stack = random_below(state, 2) ? (uint32_t)random_below(state, 20) : (uint32_t)random_number(state, 32);
	switch (event.type) {
	case VRAMSHIM_TORCH_ALLOC:
	case VRAMSHIM_TORCH_FREE:
		event.address = random_below(state, 2) ? 512 * random_below(state, 50) : random_bytes(state);
		event.size = random_below(state, 2) ? 512 * random_below(state, 10) : random_bytes(state);
		event.allocated = random_bytes(state);
		event.reserved = random_bytes(state);
		break;
	case VRAMSHIM_TORCH_OOM:
		event.size = random_bytes(state);
		event.allocated = random_bytes(state);
		event.reserved = random_bytes(state);
		break;
	case VRAMSHIM_CUDA_ALLOC:
	case VRAMSHIM_CUDA_FREE:
	case VRAMSHIM_CUDA_FAIL:
		event.memory = (int)random_below(state, VRAMSHIM_MEMORY_FOREIGN + 1);
		event.name = (uint32_t)random_number(state, 32);
		event.result = (int32_t)random_number(state, 32);
		event.address = random_bytes(state);
		event.handle = random_number(state, 64);
		event.size = random_bytes(state);
		break;
	case VRAMSHIM_MARK:
		event.name = (uint32_t)random_number(state, 32);
		break;
	case VRAMSHIM_MEMINFO:
		event.stack = 0;
		event.size = random_bytes(state);
		event.allocated = random_bytes(state);
		event.reserved = random_bytes(state);
		break;
	case VRAMSHIM_EXIT:
		event.device = 0;
		event.stack = 0;
		event.result = (int32_t)random_number(state, 32);
		break;
	}
	return event;
}

void assert_same_content(const struct vramshim_event *got, const struct vramshim_event *wanted)
{
	assert_int_equal(got->type, wanted->type);
	assert_int_equal(got->memory, wanted->memory);
	assert_int_equal(got->device, wanted->device);
	assert_int_equal(got->stack, wanted->stack);
	assert_int_equal(got->name, wanted->name);
	assert_int_equal(got->result, wanted->result);
	assert_int_equal(got->address, wanted->address);
	assert_int_equal(got->handle, wanted->handle);
	assert_int_equal(got->size, wanted->size);
	assert_int_equal(got->allocated, wanted->allocated);
	assert_int_equal(got->reserved, wanted->reserved);
}

uint64_t count_events(struct vramshim_trace *trace)
{
	struct vramshim_event event;
	uint64_t count = 0, sequence = 0, time = 0;

	while (vramshim_trace_next(trace, &event)) {
		assert_true(event.sequence > sequence);
		assert_true(event.time_ns >= time);
		sequence = event.sequence;
		time = event.time_ns;
		count++;
	}
	return count;
}
