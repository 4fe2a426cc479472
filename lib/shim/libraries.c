/* SPDX-License-Identifier: MIT */
#include "shim/libraries.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/symbols.h"

typedef int each_function(int (*see)(struct dl_phdr_info *info, size_t size, void *data), void *data);

static bool started;

/* A sanitizer's, which comes before libc's own, crashes while it is starting, when it already calls our dlsym(). */
static each_function *each(void)
{
	each_function *own = NULL;

	if (!__atomic_load_n(&started, __ATOMIC_RELAXED))
		own = (each_function *)vs_symbol_early("libc.so", "dl_iterate_phdr");
	return own ? own : dl_iterate_phdr;
}

void vs_libraries_started(void)
{
	__atomic_store_n(&started, true, __ATOMIC_RELAXED);
}

/* The lock lies in the loader's private data, at a place that differs by version. It is the one mutex there which is
 * held, by this thread, while dl_iterate_phdr() calls back, and by nobody afterwards. */
struct search {
	char *begin, *end;
	int thread;
	pthread_mutex_t *held[2]; /* a second one says that the search is no good */
	unsigned int count;
};

static pthread_mutex_t *list_lock; /* NULL: not found, and the list is taken to be sound */
static pthread_mutex_t *load_lock; /* NULL: not found, and taken without a look */

static bool held_by(const pthread_mutex_t *mutex, int thread)
{
	return mutex->__data.__lock && mutex->__data.__owner == thread && mutex->__data.__count == 1 &&
	       mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP;
}

static bool is_free(const pthread_mutex_t *mutex)
{
	return !mutex->__data.__lock && !mutex->__data.__owner && !mutex->__data.__count &&
	       mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP;
}

static int search_held(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;

	(void)info;
	(void)size;
	for (char *at = search->begin; at + sizeof(pthread_mutex_t) <= search->end; at += _Alignof(pthread_mutex_t)) {
		pthread_mutex_t *mutex = (pthread_mutex_t *)(void *)at;

		if (held_by(mutex, search->thread) && search->count < 2)
			search->held[search->count++] = mutex;
	}
	return 1;
}

void vs_libraries_find_lock(void *loader_data, size_t size)
{
	struct search search = {loader_data, (char *)loader_data + size, (int)syscall(SYS_gettid), {NULL}, 0};

	each()(search_held, &search);
	if (search.count == 1 && !held_by(search.held[0], search.thread))
		list_lock = search.held[0];
	/* _dl_load_lock lies right before _dl_load_write_lock (struct rtld_global, sysdeps/generic/ldsodefs.h). */
	if (list_lock && (char *)(list_lock - 1) >= search.begin && is_free(list_lock - 1))
		load_lock = list_lock - 1;
}

/* The thread that took it here; of another one of ours it is known that it gives the lock back soon. */
static int ours;

bool vs_libraries_hold(void)
{
	if (!load_lock)
		return true;
	while (pthread_mutex_trylock(load_lock) != 0) {
		int owner = __atomic_load_n(&load_lock->__data.__owner, __ATOMIC_RELAXED);

		if (!owner || owner != __atomic_load_n(&ours, __ATOMIC_RELAXED))
			return false;
		sched_yield();
	}
	__atomic_store_n(&ours, load_lock->__data.__owner, __ATOMIC_RELAXED);
	return true;
}

void vs_libraries_release(void)
{
	if (!load_lock)
		return;
	if (load_lock->__data.__count == 1)
		__atomic_store_n(&ours, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(load_lock);
}

bool vs_libraries_lost(void)
{
	int holder = 0, saved = errno;
	bool gone;

	/* Between taking it and writing down by whom lie a few instructions. Whoever stays between them was left
	 * behind by a fork. */
	for (int i = 0; i < 100 && !holder; i++) {
		if (!list_lock || !__atomic_load_n(&list_lock->__data.__lock, __ATOMIC_RELAXED))
			return false;
		holder = __atomic_load_n(&list_lock->__data.__owner, __ATOMIC_RELAXED);
		if (!holder)
			sched_yield();
	}
	gone = !holder || (syscall(SYS_tgkill, getpid(), holder, 0) < 0 && errno == ESRCH);
	errno = saved;
	return gone;
}

int vs_libraries_each(int (*see)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
	return vs_libraries_lost() ? 0 : each()(see, data);
}
