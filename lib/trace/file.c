/* SPDX-License-Identifier: MIT */
#include <base/clock.h>
#include <base/error.h>
#include <base/section.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <trace/file.h>
#include <trace/process.h>
#include <unistd.h>

enum {
	FIRST_STEP = 16, /* chunks: 1 MiB, so that a short job's trace stays small */
	LAST_STEP = 256, /* chunks: 16 MiB, so that a busy job rarely waits for the disk */
	HIGH_FD = 256,   /* keep out of the low numbers, which some programs count on */
	LOW_FD = 3,      /* or at least out of the standard streams': what the job writes there is not for a trace */
	RETRIES = 64,    /* of a call interrupted by a signal */
};

/* Raw system calls where the C library's own would be a cancellation point: a job's thread must not vanish with our
 * lock held. */
static int allocate(int fd, off_t from, off_t size)
{
	static const uint8_t zeros[4096];

	for (int i = 0; i < RETRIES; i++) {
		if (syscall(SYS_fallocate, fd, 0, from, size) == 0)
			return 0;
		if (errno != EINTR)
			break;
	}
	if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM && errno != EACCES)
		return vs_errno();
	/* A file system without fallocate (NFS before 4.2, some FUSE), or a sandbox: only written blocks are sure to
	 * exist. */
	for (off_t end = from + size; from < end;) {
		size_t length = (size_t)(end - from) < sizeof(zeros) ? (size_t)(end - from) : sizeof(zeros);
		long written = syscall(SYS_pwrite64, fd, zeros, length, from);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? vs_errno() : -ENOSPC;
		from += written;
	}
	return 0;
}

/* A file-size limit does not only refuse: it sends SIGXFSZ, which ends the job. So never ask for more than it allows.
 */
static uint32_t chunks_allowed(const struct vs_file *file)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur / VS_CHUNK_SIZE < file->limit)
		return (uint32_t)(limit.rlim_cur / VS_CHUNK_SIZE);
	return file->limit;
}

/* Add space; less and less of it while the disk refuses. */
static int grow(struct vs_file *file)
{
	uint32_t allowed = chunks_allowed(file);
	uint32_t step = file->allocated < FIRST_STEP ? FIRST_STEP : file->allocated;
	int r = -EFBIG;

	if (step > LAST_STEP)
		step = LAST_STEP;
	if (file->allocated >= allowed)
		return r;
	if (step > allowed - file->allocated)
		step = allowed - file->allocated;
	for (; step; step /= 2) {
		r = allocate(file->fd, (off_t)file->allocated * VS_CHUNK_SIZE, (off_t)step * VS_CHUNK_SIZE);
		if (r == 0) {
			file->allocated += step;
			return 0;
		}
	}
	return r;
}

static bool is_ours(const struct vs_file *file, int fd)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode;
}

/* -EMFILE: no number that could be used is free. */
static int to_high_fd(int fd)
{
	struct rlimit limit;
	int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);

	/* Where the limit is lower, as high as it goes. */
	if (high < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > LOW_FD)
		high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, (int)limit.rlim_cur - 1);
	if (high < 0 && fd >= LOW_FD)
		return fd;
	syscall(SYS_close, fd);
	return high < 0 ? -EMFILE : high;
}

static bool check_fd(struct vs_file *file)
{
	int fd;

	if (is_ours(file, file->fd))
		return true;
	fd = (int)syscall(SYS_openat, AT_FDCWD, file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	file->fd = fd < 0 ? fd : to_high_fd(fd);
	return is_ours(file, file->fd);
}

static uint8_t *map_chunk(const struct vs_file *file, uint32_t index)
{
	/* Populated at once: sixteen page faults later, one by one inside the job's hooks, would cost more. */
	void *mapped = mmap(NULL, VS_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file->fd,
	                    (off_t)index * VS_CHUNK_SIZE);

	return mapped == MAP_FAILED ? NULL : mapped;
}

static void fill_header(struct vs_file *file, uint64_t max_size)
{
	struct vs_trace_header *header = file->header;
	struct vs_chunk_header definitions = {.kind = VS_CHUNK_DEFINITIONS};

	header->version = VS_TRACE_VERSION;
	header->header_size = VS_HEADER_SIZE;
	header->chunk_size = VS_CHUNK_SIZE;
	header->time_shift = VS_TIME_SHIFT;
	header->pid = (uint32_t)getpid();
	header->start_ticks = vs_process_start(header->pid);
	header->started_ns = vs_clock_ask(CLOCK_REALTIME);
	header->started_mono_ns = vs_clock_ask(CLOCK_MONOTONIC);
	header->max_size = max_size;
	header->chunks = 1;
	vs_chunk_begin((struct vs_chunk_header *)((uint8_t *)header + VS_HEADER_SIZE), &definitions, 0, NULL);
}

int vs_file_create(struct vs_file *file, const char *path, uint64_t max_size)
{
	struct stat status;
	uint8_t *mapped;
	int r;

	if (strlen(path) >= sizeof(file->path))
		return -ENAMETOOLONG;
	if (max_size / VS_CHUNK_SIZE < 2) /* chunk 0 and one for events */
		return -EINVAL;
	strcpy(file->path, path);
	pthread_mutex_init(&file->lock, NULL);
	file->limit = max_size / VS_CHUNK_SIZE < UINT32_MAX ? (uint32_t)(max_size / VS_CHUNK_SIZE) : UINT32_MAX;
	file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (file->fd < 0)
		return vs_errno();
	file->fd = to_high_fd(file->fd);
	if (file->fd < 0 || fstat(file->fd, &status) < 0) {
		r = file->fd < 0 ? file->fd : vs_errno();
		goto fail;
	}
	file->device = status.st_dev;
	file->inode = status.st_ino;
	r = grow(file);
	if (r < 0)
		goto fail;
	mapped = map_chunk(file, 0);
	if (!mapped) {
		r = vs_errno();
		goto fail;
	}
	file->header = (struct vs_trace_header *)mapped;
	fill_header(file, max_size);
	return 0;

fail:
	unlink(path);
	if (file->fd >= 0)
		syscall(SYS_close, file->fd);
	return r;
}

void vs_file_publish(struct vs_file *file)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(file->header->magic, VS_TRACE_MAGIC, sizeof(file->header->magic));
}

uint8_t *vs_file_claim(struct vs_file *file, uint32_t *ret_index)
{
	int saved = errno;
	struct vs_section section;
	uint8_t *mapped = NULL;
	uint32_t index;

	vs_section_enter(&section);
	pthread_mutex_lock(&file->lock);
	index = file->header->chunks;
	if (!file->closed && check_fd(file) && (index < file->allocated || grow(file) == 0))
		mapped = map_chunk(file, index);
	if (mapped) {
		/* The chunk has space on disk and nothing but zeros in it: a reader that sees it early is fine. */
		__atomic_store_n(&file->header->chunks, index + 1, __ATOMIC_RELEASE);
		*ret_index = index;
	} else {
		file->closed = true;
	}
	pthread_mutex_unlock(&file->lock);
	vs_section_leave(&section);
	errno = saved;
	return mapped;
}

void vs_file_close(struct vs_file *file)
{
	int saved = errno;

	/* Never wait: who holds it may be this thread, in a signal handler that ends the process. What is left undone
	 * is only a saving, as where ftruncate() fails: zeros at the end. */
	if (pthread_mutex_trylock(&file->lock) != 0)
		return;
	file->closed = true;
	if (check_fd(file)) {
		if (ftruncate(file->fd, (off_t)file->header->chunks * VS_CHUNK_SIZE) == 0)
			file->allocated = file->header->chunks;
		syscall(SYS_close, file->fd);
	}
	file->fd = -1;
	pthread_mutex_unlock(&file->lock);
	errno = saved;
}

void vs_chunk_begin(struct vs_chunk_header *at, const struct vs_chunk_header *chunk, uint32_t index,
                    struct vs_chunk_header *previous)
{
	*at = *chunk;
	at->first = previous ? previous->first : index;
	at->ordinal = previous ? previous->ordinal + 1 : 0;
	at->next = 0;
	at->magic = 0;
	__atomic_store_n(&at->magic, (uint32_t)VS_CHUNK_MAGIC, __ATOMIC_RELEASE);
	if (!previous)
		return;
	__atomic_store_n(&previous->next, index, __ATOMIC_RELEASE);
	if (previous->first || previous->ordinal) /* chunk 0 shares its mapping with the file's header */
		munmap(previous, VS_CHUNK_SIZE);
}
