/* SPDX-License-Identifier: MIT
 *
 * Signals that strike anywhere, and handlers that do what they should not.
 */
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define WANTED 200 /* strikes, for a scenario */

static volatile sig_atomic_t strikes;
static sigjmp_buf back;

static void on(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	CHECK(sigaction(number, &action, NULL) == 0);
}

static volatile sig_atomic_t timers, pause_us;

/* One strike; the handler orders the next, so that whatever it interrupts gets on in between, however long the
 * handler itself takes. */
static void strike_again(void)
{
	struct itimerval value = {{0, 0}, {0, pause_us}};

	setitimer(timers, &value, NULL);
}

static void timer(int which, int microseconds)
{
	timers = which;
	pause_us = microseconds;
	strike_again();
}

/* Afterwards everything is seen again: sizes that nothing else has. */
static void at_last(void)
{
	for (int i = 0; i < 10; i++)
		host_give(host_take(777), 777);
	puts("done");
}

static void allocate(int number)
{
	int saved = errno;

	(void)number;
	strikes++;
	host_give(host_take(64), 64);
	strike_again();
	errno = saved;
}

static void storm_on(int which, int number, int flags)
{
	sigset_t before, after;

	host_give(host_take(512), 512);
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
	on(number, allocate, SA_RESTART | flags);
	timer(which, 150);
	for (unsigned int i = 0; strikes < WANTED; i++) {
		host_give(host_take(512), 512);
		host_report(i % 300);
	}
	timer(which, 0);
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0 && !memcmp(&before, &after, sizeof(before)));
	at_last();
}

static void alarms(void)
{
	storm_on(ITIMER_REAL, SIGALRM, 0);
}

static void profiler(void)
{
	storm_on(ITIMER_PROF, SIGPROF, 0);
}

static void use_alternate_stack(void)
{
	stack_t stack = {.ss_size = 256 * 1024};

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
}

/* Above or below the thread's own, wherever the kernel puts it. */
static void alternate_stack(void)
{
	use_alternate_stack();
	storm_on(ITIMER_REAL, SIGALRM, SA_ONSTACK);
}

static void *storm_in_thread(void *argument)
{
	alternate_stack();
	return argument;
}

/* A thread's stack lies below most mappings made before it. */
static void alternate_stack_above(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, storm_in_thread, NULL) == 0);
	/* The signals are for that thread. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void jump(int number)
{
	(void)number;
	strikes++;
	strike_again();
	siglongjmp(back, 1);
}

/* The handler never returns: whatever was interrupted stays half done. PyTorch's reports only, for CUDA's own locks
 * would not survive that either. */
static void jumps(void)
{
	static unsigned int i;

	for (i = 0; i < 300; i++)
		host_report(i);
	on(SIGALRM, jump, SA_NODEFER);
	if (sigsetjmp(back, 1) == 0) /* before the first strike, which comes here */
		timer(ITIMER_REAL, 150);
	if (strikes < WANTED)
		for (;;)
			host_report(i++ % 600);
	timer(ITIMER_REAL, 0);
	at_last();
}

/* Likewise, out of what is kept of pools. */
static void jumps_by_pools(void)
{
	static const struct {
		int type, handle_types, location, device;
		char more[72];
	} props = {1, 0, 1, 0, {0}};
	static void *pool;

	host_give(host_take(512), 512);
	on(SIGALRM, jump, SA_NODEFER);
	if (sigsetjmp(back, 1) == 0) /* before the first strike, which comes here */
		timer(ITIMER_REAL, 150);
	if (strikes < WANTED)
		for (;; cuMemPoolDestroy(pool))
			cuMemPoolCreate(&pool, &props);
	timer(ITIMER_REAL, 0);
	CHECK(cuMemPoolCreate(&pool, &props) == 0 && cuMemPoolDestroy(pool) == 0);
	at_last();
}

/* Threads of a job's own making, on memory of all kinds. */
static ucontext_t fibers[2];

static void worker(void)
{
	for (unsigned int i = 0;; i++) {
		host_give(host_take(512), 512);
		host_report(i % 20);
		swapcontext(&fibers[1], &fibers[0]);
	}
}

static void other_stacks(void)
{
	enum { SIZE = 65536 };
	static char in_the_program[SIZE];
	char on_the_stack[SIZE];
	void *stacks[] = {malloc(SIZE), in_the_program, on_the_stack,
	                  mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};

	for (unsigned int i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		CHECK(getcontext(&fibers[1]) == 0);
		fibers[1].uc_stack.ss_size = SIZE;
		fibers[1].uc_stack.ss_sp = stacks[i];
		makecontext(&fibers[1], worker, 0);
		for (int j = 0; j < 50; j++) {
			swapcontext(&fibers[0], &fibers[1]);
			host_give(host_take(512), 512);
		}
	}
	CHECK(munmap(stacks[3], SIZE) == 0);
	free(stacks[0]);
	host_give(host_take(512), 512);
	host_counted();
}

static void jump_out(void)
{
	siglongjmp(back, 1);
}

/* Out of the real call, from other depths than where the next call comes from. */
static __attribute__((noinline)) void call_and_jump(int depth)
{
	volatile char space[200];
	void *pointer;

	memset((char *)space, depth, sizeof(space));
	if (depth)
		call_and_jump(depth - 1);
	else
		cudaMalloc(&pointer, 512);
	__asm__ volatile("" : : "r"(space) : "memory");
}

static void jump_inside(void)
{
	static volatile int i;

	for (i = 0; i < 20; i++) {
		if (sigsetjmp(back, 1) == 0) {
			mock_set_inside(jump_out);
			call_and_jump(i);
		}
		mock_set_inside(NULL);
		host_give(host_take(512), 512);
	}
	host_counted();
}

static volatile char *nowhere; /* not mapped */

static void recover(int number)
{
	(void)number;
	strikes++;
	siglongjmp(back, 1);
}

static void recover_and_allocate(int number)
{
	host_give(host_take(64), 64);
	recover(number);
}

static void faults(void (*handler)(int))
{
	static volatile int i;

	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	use_alternate_stack();
	on(SIGSEGV, handler, SA_ONSTACK);
	for (i = 0; i < 100; i++) {
		host_give(host_take(512), 512);
		if (sigsetjmp(back, 1) == 0)
			*nowhere = 1;
	}
	printf("%d faults\n", (int)strikes);
	host_counted();
}

/* As runtimes do that probe memory: faults are none of our business. */
static void probing(void)
{
	faults(recover);
}

static void allocating_while_faulting(void)
{
	faults(recover_and_allocate);
}

static void say_and_die(int number)
{
	(void)number;
	static const char line[] = "the job's own handler\n";

	if (write(STDOUT_FILENO, line, sizeof(line) - 1) < 0)
		_exit(1);
	signal(SIGSEGV, SIG_DFL);
}

static void crash(void)
{
	on(SIGSEGV, say_and_die, 0);
	host_give(host_take(512), 512);
	host_counted();
	*(volatile char *)0 = 1;
}

static void leave(int number)
{
	(void)number;
	strike_again();
	if (++strikes == 50)
		_exit(6);
	if (strikes == 40)
		exit(7);
}

/* exit() in a handler, in the middle of the recorder. */
static void exit_in_signal(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	on(SIGALRM, leave, SA_NODEFER);
	timer(ITIMER_REAL, 100);
	for (unsigned int i = 0;; i++)
		host_report(i % 600);
}

static void interrupted(int number)
{
	(void)number;
	strike_again();
	strikes++;
}

/* Without SA_RESTART every blocking call of ours may be interrupted; the first event makes the most. */
static void interruptions(void)
{
	on(SIGALRM, interrupted, 0);
	timer(ITIMER_REAL, 50);
	for (unsigned int i = 0; i < 3000; i++)
		host_report(i % 1000);
	timer(ITIMER_REAL, 0);
	host_counted();
}

const struct scenario host_signals[] = {
    {"alarms", alarms},
    {"profiler", profiler},
    {"alternate-stack", alternate_stack},
    {"alternate-stack-above", alternate_stack_above},
    {"jumps", jumps},
    {"jumps-by-pools", jumps_by_pools},
    {"other-stacks", other_stacks},
    {"jump-inside", jump_inside},
    {"probing", probing},
    {"allocating-while-faulting", allocating_while_faulting},
    {"crash", crash},
    {"exit-in-signal", exit_in_signal},
    {"interruptions", interruptions},
    {NULL, NULL},
};
