/* SPDX-License-Identifier: MIT
 *
 *   stacks SCENARIO EVENTS SEED
 *
 * Reports allocations from stacks of every kind that a process can have, at random. Run under libvramshim_checked.so,
 * which holds each against a full walk.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
/* Keeps a call from becoming a jump, and what comes before it from moving. */
#define STAY() __asm__ volatile("" ::: "memory")

typedef void report_function(void *, int64_t, uint64_t, uint64_t, uint16_t);
typedef void event_function(void);

static report_function *report;
static event_function *uncovered; /* calls event_here() from code without unwind tables */
static unsigned long limit;
static _Atomic unsigned long events;

struct random_state {
	uint64_t state;
};

static __thread struct random_state own;

static unsigned int roll(unsigned int sides)
{
	/* Marsaglia's xorshift64 */
	own.state ^= own.state << 13;
	own.state ^= own.state >> 7;
	own.state ^= own.state << 17;
	return (unsigned int)((own.state >> 20) % sides);
}

static NOINLINE void event_here(void)
{
	events++;
	report((void *)0x1000, roll(2) ? 512 : -512, 512, 512, 1);
	STAY();
}

static NOINLINE void go(unsigned int depth);

static NOINLINE void small(unsigned int depth)
{
	go(depth);
	STAY();
}

static NOINLINE void large(unsigned int depth)
{
	volatile char room[3000];

	room[depth % sizeof(room)] = 1;
	go(depth);
	STAY();
}

/* The end of the frame is known by rbp alone. */
static NOINLINE void varying(unsigned int depth)
{
	volatile char *room = alloca(8 + roll(5) * 40);

	room[0] = 1;
	go(depth);
	STAY();
}

/* Realigns its stack: the tables have an expression. */
static NOINLINE void aligned(unsigned int depth)
{
	_Alignas(64) char room[64];

	__asm__ volatile("" ::"r"(room) : "memory");
	go(depth);
	STAY();
}

/* rbp is a number here, and saved for the caller. */
static NOINLINE void busy(unsigned int depth)
{
	uint64_t a = own.state, b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;

	go(depth);
	__asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}

static int by_qsort(const void *a, const void *b)
{
	(void)a;
	(void)b;
	go(roll(3));
	return 0;
}

static NOINLINE void through_libc(unsigned int depth)
{
	char two[2] = {0, 1};

	(void)depth;
	qsort(two, 2, 1, by_qsort);
	STAY();
}

static __thread jmp_buf outer;
static __thread int inside;

static NOINLINE __attribute__((noreturn)) void escape(void)
{
	event_here();
	inside = 0;
	longjmp(outer, 1);
}

/* Ends with the call: it would return to the function after. */
static NOINLINE __attribute__((noreturn)) void last(void)
{
	STAY();
	escape();
}

static NOINLINE void thrown(unsigned int depth)
{
	if (inside)
		last();
	inside = 1;
	if (!setjmp(outer)) {
		go(depth);
		inside = 0;
	}
	STAY();
}

static int throws, foreign;

static NOINLINE void go(unsigned int depth)
{
	unsigned int times = 1 + (roll(8) == 0);

	for (unsigned int i = 0; i < times; i++) {
		if (!depth) {
			event_here();
			if (roll(3) == 0)
				event_here();
			continue;
		}
		switch (roll(16)) {
		case 0:
		case 1:
			varying(depth - 1);
			break;
		case 2:
			if (foreign)
				aligned(depth - 1);
			break;
		case 3:
		case 4:
			busy(depth - 1);
			break;
		case 5:
			through_libc(depth - 1);
			break;
		case 6:
			if (throws)
				thrown(depth - 1);
			break;
		case 7:
			if (foreign && uncovered)
				uncovered();
			break;
		case 8:
		case 9:
			large(depth - 1);
			break;
		default:
			small(depth - 1);
		}
	}
	STAY();
}

static int done(void)
{
	return events >= limit;
}

static void scenario_plain(void)
{
	while (!done())
		go(roll(24));
}

static void scenario_foreign(void)
{
	foreign = 1;
	scenario_plain();
}

static void scenario_longjmp(void)
{
	throws = 1;
	scenario_plain();
}

/* The same again, mostly: what was guessed is right until it is not. */
static void scenario_repeated(void)
{
	uint64_t at = own.state;

	foreign = 1;
	for (unsigned int round = 0; !done(); round++) {
		own.state = round * UINT64_C(0x9e3779b97f4a7c15) | 1;
		own.state = at + (roll(3) ? 0 : roll(4));
		for (unsigned int i = 0; i < 20; i++)
			go(i % 12);
	}
}

static NOINLINE void dive(unsigned int depth)
{
	if (depth)
		dive(depth - 1);
	else
		go(3);
	STAY();
}

static void scenario_deep(void)
{
	while (!done())
		dive(roll(4) ? 200 + roll(100) : roll(2000));
}

static void on_signal(int number)
{
	(void)number;
	event_here();
	go(2);
}

/* Half the signals on a stack of their own. */
static void scenario_signals(void)
{
	struct itimerval often = {{0, 200}, {0, 200}};
	stack_t other = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaltstack(&other, NULL);
	sigaction(SIGALRM, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR1, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (!done()) {
		go(roll(10));
		if (roll(50) == 0)
			raise(SIGUSR1);
	}
	often = (struct itimerval){0};
	setitimer(ITIMER_REAL, &often, NULL);
}

static void *small_thread(void *seed)
{
	own.state = (uint64_t)(uintptr_t)seed | 1;
	for (int i = 0; i < 200 && !done(); i++)
		go(roll(6));
	return NULL;
}

static void scenario_threads(void)
{
	unsigned long seed = own.state;

	while (!done()) {
		pthread_t threads[4];
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		/* The least there is, and room for six of our own frames. */
		pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN) + (48 << 10));
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], &attributes, small_thread, (void *)(seed += 2)))
				abort();
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		pthread_attr_destroy(&attributes);
	}
}

static ucontext_t home, away;

static void coroutine(void)
{
	for (;;) {
		go(roll(8));
		swapcontext(&away, &home);
	}
}

/* Stacks that come and go, at addresses used before. */
static void scenario_coroutines(void)
{
	while (!done()) {
		size_t size = (64 + 4 * roll(8)) << 10;
		char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		getcontext(&away);
		away.uc_stack.ss_sp = stack;
		away.uc_stack.ss_size = size;
		away.uc_link = NULL;
		makecontext(&away, coroutine, 0);
		for (unsigned int i = roll(6); i; i--) {
			go(roll(8));
			swapcontext(&home, &away);
		}
		munmap(stack, size);
	}
}

/* push %rbp; mov %rsp, %rbp; call *%rax with the address built in; pop %rbp; ret */
static event_function *make_uncovered(void)
{
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char text[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
	event_function *target = event_here;

	memcpy(text + 6, &target, sizeof(target));
	if (code == MAP_FAILED)
		return NULL;
	memcpy(code, text, sizeof(text));
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	return (event_function *)(uintptr_t)code;
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
    {"plain", scenario_plain},     {"foreign", scenario_foreign},
    {"longjmp", scenario_longjmp}, {"repeated", scenario_repeated},
    {"deep", scenario_deep},       {"signals", scenario_signals},
    {"threads", scenario_threads}, {"coroutines", scenario_coroutines},
};

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	report = (report_function *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
	if (!report)
		return 2;
	uncovered = make_uncovered();
	limit = strtoul(argv[2], NULL, 10);
	own.state = strtoul(argv[3], NULL, 10) | 1;
	for (unsigned int i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (!strcmp(argv[1], scenarios[i].name)) {
			scenarios[i].run();
			printf("%lu\n", events);
			return 0;
		}
	}
	return 2;
}
