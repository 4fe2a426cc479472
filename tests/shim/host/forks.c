/* SPDX-License-Identifier: MIT
 *
 * Children of all kinds, while other threads allocate.
 */
#include "host.h"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static atomic_int stop;

/* Always at a stack that is new for a while, so that the recorder's locks are held much of the time. */
static void *busy(void *argument)
{
	for (unsigned int i = 0; !stop; i++) {
		host_give(host_take(512), 512);
		host_report(i % 200);
		if (i % 64 == 0)
			usleep(20); /* a fork copies what they touch: let it get on */
	}
	return argument;
}

static void start(pthread_t *threads, int count, void *(*function)(void *))
{
	stop = 0;
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, function, NULL) == 0);
}

static void finish(pthread_t *threads, int count)
{
	stop = 1;
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

static void child_works(void)
{
	for (unsigned int i = 0; i < 5; i++) {
		host_give(host_take(256), 256);
		host_report(i);
	}
}

static void wait_for(pid_t pid, int status)
{
	int got;

	CHECK(pid > 0 && waitpid(pid, &got, 0) == pid && got == status << 8);
}

static void fork_amid(void)
{
	pthread_t threads[4];

	start(threads, 4, busy);
	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(30);
			child_works();
			if (i % 2)
				_exit(3);
			exit(3);
		}
		wait_for(pid, 3);
	}
	finish(threads, 4);
	puts("done");
}

/* A library that registers functions for the end of the process: in the child, the list's lock stays locked. */
int __cxa_atexit(void (*function)(void *), void *argument, void *library);

static void nothing(void *argument)
{
	(void)argument;
}

static void *registering(void *argument)
{
	for (int i = 0; !stop && i < 200000; i++)
		CHECK(__cxa_atexit(nothing, NULL, NULL) == 0);
	while (!stop)
		usleep(1000);
	return argument;
}

static void fork_atexit(void)
{
	pthread_t threads[2];

	start(threads, 1, registering);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(30);
			child_works();
			_exit(0);
		}
		wait_for(pid, 0);
	}
	finish(threads, 1);
	host_counted();
}

static atomic_int inside;

static int stay(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)info;
	(void)size;
	inside = 1;
	while (!stop)
		usleep(1000);
	return *(int *)data;
}

static void *reading_list(void *argument)
{
	int found = 1;

	CHECK(dl_iterate_phdr(stay, &found) == 1);
	return argument;
}

/* While another thread is in the loader's list of libraries, whose lock then stays locked in the child: before the
 * parent has done anything, and after it. A child of a child knows no better. */
static void fork_list_held(void)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		pid_t pid;

		inside = 0;
		start(&thread, 1, reading_list);
		while (!inside)
			usleep(1000);
		pid = fork();
		if (pid == 0) {
			alarm(30);
			child_works();
			pid = fork();
			if (pid)
				wait_for(pid, 0);
			child_works();
			_exit(0);
		}
		wait_for(pid, 0);
		finish(&thread, 1);
		child_works();
	}
	host_counted();
}

static void *forking(void *argument)
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(30);
		child_works();
		exit(5);
	}
	wait_for(pid, 5);
	return argument;
}

/* By threads that are not the first one, which already have a log. */
static void fork_in_thread(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 10; i++) {
		child_works();
		start(threads, 4, forking);
		finish(threads, 4);
	}
	host_counted();
}

static void nested(int depth)
{
	pid_t pid;

	child_works();
	if (!depth)
		return;
	pid = fork();
	if (pid == 0) {
		nested(depth - 1);
		exit(0);
	}
	wait_for(pid, 0);
	child_works();
}

static void fork_nested(void)
{
	nested(6);
	host_counted();
}

static void spawn(void)
{
	char *echo[] = {"echo", "spawned", NULL}, *empty[] = {NULL};
	pthread_t threads[2];
	pid_t pid;
	FILE *pipe;
	char line[64];

	setvbuf(stdout, NULL, _IONBF, 0);
	start(threads, 2, busy);
	for (int i = 0; i < 5; i++) {
		pid = vfork();
		if (pid == 0) {
			execve("/bin/true", (char *[]){"true", NULL}, environ);
			_exit(1);
		}
		wait_for(pid, 0);
		CHECK(posix_spawn(&pid, "/bin/echo", NULL, NULL, echo, environ) == 0);
		wait_for(pid, 0);
		/* Without our variables it is no recorded process. */
		CHECK(posix_spawn(&pid, "/bin/echo", NULL, NULL, echo, empty) == 0);
		wait_for(pid, 0);
		CHECK(system("echo shell; exit 4") == 4 << 8);
		pipe = popen("echo through a pipe", "r");
		CHECK(pipe && fgets(line, sizeof(line), pipe) && pclose(pipe) == 0);
		printf("%s", line);
	}
	finish(threads, 2);
}

/* A vfork child runs in this memory: what it does on the GPU before exec is this process's. */
static void vfork_works(void)
{
	static int i; /* out of the shared stack's reach */

	for (i = 0; i < 20; i++) {
		pid_t pid;

		child_works();
		pid = vfork();
		if (pid == 0) {
			host_give(host_take(64), 64);
			_exit(0);
		}
		wait_for(pid, 0);
		child_works();
	}
	host_counted();
}

static void daemonize(void)
{
	int ends[2];
	char line[32] = "";
	pid_t pid;

	child_works();
	CHECK(pipe(ends) == 0);
	pid = fork();
	if (pid == 0) {
		setsid();
		if (fork())
			_exit(0);
		CHECK(chdir("/") == 0);
		umask(077);
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		child_works();
		/* The lowest numbers are the daemon's, as before. */
		CHECK(open("/dev/null", O_RDWR) == 0 && open("/dev/null", O_RDWR) == 1);
		child_works();
		CHECK(write(ends[1], "daemon worked\n", 14) == 14);
		_exit(0);
	}
	wait_for(pid, 0);
	close(ends[1]);
	CHECK(read(ends[0], line, sizeof(line) - 1) == 14 && read(ends[0], line + 14, 1) == 0);
	printf("%s", line);
	host_counted();
}

/* A handler that forks, in the middle of whatever; the child goes on where the parent was. */
static volatile sig_atomic_t forks_left, child;

static void fork_in_handler(int number)
{
	(void)number;
	if (child || forks_left <= 0)
		return;
	forks_left--;
	pid_t pid = fork();
	if (pid == 0) {
		child = 1;
		alarm(30);
	} else {
		int status;
		waitpid(pid, &status, 0);
		if (status)
			dprintf(STDOUT_FILENO, "child: %x\n", (unsigned int)status);
	}
}

static void fork_in_signal(void)
{
	struct itimerval timer = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
	pthread_t threads[2];

	host_report(0);
	forks_left = 60;
	signal(SIGVTALRM, fork_in_handler);
	/* The others' signals are not for them. */
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGVTALRM);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	start(threads, 2, busy);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	setitimer(ITIMER_VIRTUAL, &timer, NULL);
	for (unsigned int i = 0; forks_left > 0 && !child; i++)
		host_report(i % 200);
	if (child) {
		child_works();
		_exit(0);
	}
	setitimer(ITIMER_VIRTUAL, &off, NULL);
	finish(threads, 2);
	puts("done");
}

const struct scenario host_forks[] = {
    {"fork-amid", fork_amid},
    {"fork-atexit", fork_atexit},
    {"fork-list-held", fork_list_held},
    {"fork-in-thread", fork_in_thread},
    {"fork-nested", fork_nested},
    {"spawn", spawn},
    {"vfork-works", vfork_works},
    {"daemonize", daemonize},
    {"fork-in-signal", fork_in_signal},
    {NULL, NULL},
};
