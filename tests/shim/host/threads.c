/* SPDX-License-Identifier: MIT
 *
 * Threads: many, short, small, cancelled, and their last words.
 */
#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_key_t late;

struct last_words {
	void *pointer;
	int rounds;
};

/* Frees in the `rounds`th round of the thread's destructors, of which there are four at the most. */
static void free_late(void *value)
{
	struct last_words *words = value;

	if (--words->rounds) {
		pthread_setspecific(late, words);
		return;
	}
	host_give(words->pointer, 512);
	free(words);
}

static unsigned int last_round = 4;

static void *short_thread(void *argument)
{
	struct last_words *words = malloc(sizeof(*words));

	for (int i = 0; i < 4; i++)
		host_give(host_take(1024), 1024);
	words->pointer = host_take(512);
	words->rounds = 1 + (int)((uintptr_t)argument % last_round);
	pthread_setspecific(late, words);
	return NULL;
}

static void storm(void)
{
	pthread_t threads[50];

	/* ThreadSanitizer's own thread is over before the last rounds. */
	if (getenv("HOST_ROUNDS"))
		last_round = (unsigned int)atoi(getenv("HOST_ROUNDS"));
	CHECK(pthread_key_create(&late, free_late) == 0);
	for (uintptr_t i = 0; i < 1000; i += 50) {
		for (uintptr_t j = 0; j < 50; j++)
			CHECK(pthread_create(&threads[j], NULL, short_thread, (void *)(i + j)) == 0);
		for (uintptr_t j = 0; j < 50; j++)
			CHECK(pthread_join(threads[j], NULL) == 0);
	}
	host_counted();
}

/* What a C++ thread_local with a destructor is made of. */
int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library);
extern void *__dso_handle;

static void destroy(void *object)
{
	host_give(object, 512);
}

static void *thread_with_objects(void *argument)
{
	for (int i = 0; i < 3; i++)
		CHECK(__cxa_thread_atexit_impl(destroy, host_take(512), &__dso_handle) == 0);
	return argument;
}

static void *at_the_end;

static void free_at_exit(void)
{
	host_give(at_the_end, 4096);
	host_counted();
}

static void thread_locals(void)
{
	pthread_t thread;

	for (int i = 0; i < 20; i++) {
		CHECK(pthread_create(&thread, NULL, thread_with_objects, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	at_the_end = host_take(4096);
	atexit(free_at_exit);
	thread_with_objects(NULL); /* the first thread's objects go before that */
}

/* The whole of the recorder's work has to fit in what a thread with little stack has left. */
#define SMALL_STACK 65536

static void *small_thread(void *argument)
{
	for (unsigned int i = 0; i < 20; i++) {
		host_give(host_take(512), 512);
		host_report(i);
	}
	_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1 << 30, 512, 2 << 20, 1);
	return argument;
}

static void threads_of(size_t stack)
{
	pthread_attr_t attributes;
	pthread_t thread;

	/* Also the first event of all, which does the most. */
	CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack) == 0);
	for (int i = 0; i < 8; i++) {
		CHECK(pthread_create(&thread, &attributes, small_thread, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	host_counted();
}

static void small_stacks(void)
{
	threads_of(SMALL_STACK);
}

/* As little as a thread can have, the thread's own data included; what tells of a refusal runs there, too. */
static void least_stacks(void)
{
	threads_of((size_t)sysconf(_SC_THREAD_STACK_MIN));
}

/* Cancelled anywhere at all, also within the recorder. */
static void *cancelled_thread(void *argument)
{
	int old;

	host_uncounted(1);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (unsigned int i = 0;; i++)
		host_report(i % 50);
	return argument;
}

static void cancellation(void)
{
	pthread_t thread;
	void *result;

	host_report(0);
	for (useconds_t i = 0; i < 200; i++) {
		CHECK(pthread_create(&thread, NULL, cancelled_thread, NULL) == 0);
		usleep(i * 7);
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	}
	for (int i = 0; i < 10; i++)
		host_give(host_take(777), 777);
	puts("done");
}

static void leave(void)
{
	mock_set_inside(NULL);
	pthread_exit((void *)1);
}

static void *leaving_thread(void *argument)
{
	void *pointer;

	mock_set_inside(leave);
	cudaMalloc(&pointer, 512);
	return argument;
}

/* The thread ends within the real call, as one does that is cancelled there. */
static void exit_inside(void)
{
	pthread_t thread;
	void *result;

	for (int i = 0; i < 10; i++) {
		CHECK(pthread_create(&thread, NULL, leaving_thread, NULL) == 0);
		CHECK(pthread_join(thread, &result) == 0 && result == (void *)1);
		host_give(host_take(512), 512);
	}
	host_counted();
}

static pthread_barrier_t barrier;

static void *first_event(void *argument)
{
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < 40; i++)
		host_report((unsigned int)(uintptr_t)argument * 40 + i);
	return NULL;
}

/* All threads' first events at once, each stack new: everything that is interned is interned in a race. */
static void race(void)
{
	pthread_t threads[5];

	pthread_barrier_init(&barrier, NULL, 5);
	for (uintptr_t i = 0; i < 5; i++)
		CHECK(pthread_create(&threads[i], NULL, first_event, (void *)(i % 3)) == 0);
	for (int i = 0; i < 5; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	host_counted();
}

const struct scenario host_threads[] = {
    {"storm", storm},
    {"thread-locals", thread_locals},
    {"small-stacks", small_stacks},
    {"least-stacks", least_stacks},
    {"cancellation", cancellation},
    {"exit-inside", exit_inside},
    {"race", race},
    {NULL, NULL},
};
