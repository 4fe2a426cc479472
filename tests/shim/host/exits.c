/* SPDX-License-Identifier: MIT
 *
 * Every way to end.
 */
#include "host.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void work(void)
{
	for (unsigned int i = 0; i < 10; i++) {
		host_give(host_take(512), 512);
		host_report(i);
	}
}

static void work_and_count(void)
{
	work();
	host_counted();
}

static void returning(void)
{
	work_and_count();
}

static void exiting(void)
{
	printf("buffered, ");
	work();
	atexit(work_and_count);
	exit(11);
}

static void exiting_at_once(void)
{
	printf("never written");
	work_and_count();
	_exit(12);
}

static void exiting_by_the_kernel(void)
{
	work_and_count();
	syscall(SYS_exit_group, 13);
}

static void exiting_quickly(void)
{
	work();
	at_quick_exit(work_and_count);
	quick_exit(14);
}

static void aborting(void)
{
	work_and_count();
	abort();
}

static void terminated(void)
{
	work_and_count();
	raise(SIGTERM);
}

static void *last_thread(void *argument)
{
	usleep(20000); /* the first thread is gone by then */
	work_and_count();
	return argument;
}

static void first_thread_leaves(void)
{
	pthread_t thread;

	work();
	CHECK(pthread_create(&thread, NULL, last_thread, NULL) == 0);
	pthread_exit(NULL);
}

static void *exiting_thread(void *argument)
{
	work_and_count();
	exit(15);
	return argument;
}

static void exit_in_thread(void)
{
	pthread_t thread;

	work();
	CHECK(pthread_create(&thread, NULL, exiting_thread, NULL) == 0);
	pause();
}

static void *working_for_ever(void *argument)
{
	for (unsigned int i = 0;; i++)
		host_report(i % 100);
	return argument;
}

static void threads_at_the_end(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&thread, NULL, working_for_ever, NULL) == 0);
	usleep(5000);
	puts("done");
}

static void executing(void)
{
	work_and_count();
	execl("/bin/sh", "sh", "-c", "echo another program; exit 16", (char *)NULL);
}

static void executing_without_environment(void)
{
	char *none[] = {NULL};

	work_and_count();
	execve("/bin/sh", (char *[]){"sh", "-c", "echo \"[$LD_PRELOAD]\"; exit 17", NULL}, none);
}

const struct scenario host_exits[] = {
    {"returning", returning},
    {"exiting", exiting},
    {"exiting-at-once", exiting_at_once},
    {"exiting-by-the-kernel", exiting_by_the_kernel},
    {"exiting-quickly", exiting_quickly},
    {"aborting", aborting},
    {"terminated", terminated},
    {"first-thread-leaves", first_thread_leaves},
    {"exit-in-thread", exit_in_thread},
    {"threads-at-the-end", threads_at_the_end},
    {"executing", executing},
    {"executing-without-environment", executing_without_environment},
    {NULL, NULL},
};
