/* SPDX-License-Identifier: MIT
 *
 * Little of everything: memory, descriptors, file sizes, rights, system calls. The job goes on as it would anyway;
 * how much of it is recorded is another matter.
 */
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(void)
{
	for (unsigned int i = 0; i < 30; i++) {
		host_give(host_take(512), 512);
		host_report(i);
	}
}

static void *work_in_thread(void *argument)
{
	work();
	return argument;
}

static void work_everywhere(void)
{
	pthread_t thread;

	work();
	if (pthread_create(&thread, NULL, work_in_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

static void work_in_a_child(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		work_everywhere();
		_exit(8);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 8 << 8);
}

static void limit(int resource, rlim_t value)
{
	struct rlimit limit = {value, value};

	CHECK(setrlimit(resource, &limit) == 0);
}

/* Bytes of address space this program has by now. */
static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return (rlim_t)pages * 4096;
}

/* Nothing more to be had, a little, a little more: every mmap() of ours fails in turn, at the first event. */
static void no_memory(void)
{
	for (rlim_t more = 0; more < (4 << 20); more += 96 << 10) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			limit(RLIMIT_AS, address_space() + more);
			work();
			_exit(8);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 8 << 8);
	}
	puts("done");
}

static void memory_ends(void)
{
	struct rlimit old, tight;

	work();
	CHECK(getrlimit(RLIMIT_AS, &old) == 0);
	tight.rlim_max = old.rlim_max;
	tight.rlim_cur = address_space();
	CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
	for (unsigned int i = 0; i < 6000; i++) {
		host_give(host_take(512), 512);
		host_report(i % 3000);
	}
	CHECK(setrlimit(RLIMIT_AS, &old) == 0);
	work_everywhere();
	puts("done");
}

/* A larger file ends the job by SIGXFSZ: ours may never be what ends it. */
static void small_files(rlim_t bytes)
{
	limit(RLIMIT_FSIZE, bytes);
	for (unsigned int i = 0; i < 12000; i++)
		host_report(i % 1000);
	work_everywhere();
	puts("done");
}

static void no_files(void)
{
	small_files(0);
}

static void tiny_files(void)
{
	small_files(100000);
}

static void files_of_a_megabyte(void)
{
	small_files(1 << 20);
}

static void file_limit_comes_late(void)
{
	work();
	limit(RLIMIT_FSIZE, 70000);
	for (unsigned int i = 0; i < 20000; i++)
		host_report(i % 1000);
	puts("done");
}

static void no_descriptors(void)
{
	limit(RLIMIT_NOFILE, 3);
	work_everywhere();
	puts("done");
}

static void few_descriptors(void)
{
	limit(RLIMIT_NOFILE, 16);
	work_everywhere();
	CHECK(open("/dev/null", O_RDONLY) == 3);
	puts("done");
}

/* Files that the job opens get the numbers they always got, and hold what it wrote. */
static void own_files(int copy)
{
	enum { first = 0 };
	char path[3][64], text[64];

	for (int i = 0; i < 3; i++) {
		snprintf(path[i], sizeof(path[i]), "/tmp/vramshim-host-%d-%d", (int)getpid(), i);
		CHECK(open(path[i], O_RDWR | O_CREAT | O_EXCL, 0600) == first + i);
	}
	work_everywhere();
	for (int i = 0; i < 3; i++)
		CHECK(write(first + i, "the job's\n", 10) == 10);
	work();
	for (int i = 0; i < 3; i++) {
		struct stat status;

		CHECK(pread(first + i, text, sizeof(text), 0) == 10 && !memcmp(text, "the job's\n", 10));
		CHECK(fstat(first + i, &status) == 0 && status.st_size == 10);
		close(first + i);
		unlink(path[i]);
	}
	CHECK(dup2(copy, STDOUT_FILENO) == STDOUT_FILENO);
	puts("done");
}

/* As a daemon starts: the standard streams' numbers are free, and soon belong to files of its own. */
static void closed_streams(void)
{
	int copy = fcntl(STDOUT_FILENO, F_DUPFD, 100);

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (copy != 100)
		_exit(95);
	work();
	own_files(copy);
}

/* The same where no high number can be had either, so that the recorder's file has nowhere to go but there. */
static void closed_streams_and_few(void)
{
	int copy = fcntl(STDOUT_FILENO, F_DUPFD, 100);
	struct stat before, after;

	limit(RLIMIT_NOFILE, 101);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	work();
	/* Writing where nothing is open fails, as ever. */
	CHECK(write(STDOUT_FILENO, "x", 1) == -1 && errno == EBADF && write(STDERR_FILENO, "x", 1) == -1);
	CHECK(fstat(0, &before) == -1);
	work_everywhere();
	CHECK(fstat(0, &after) == -1 && copy == 100);
	own_files(copy);
}

/* The recorder cannot write its file, which it says on stderr; but number 2 is the job's database by now. */
static void stderr_is_a_file(void)
{
	char path[64], text[8];
	int copy = fcntl(STDERR_FILENO, F_DUPFD, 100);

	CHECK(setenv("VRAMSHIM_TEST", "1", 1) == 0);
	snprintf(path, sizeof(path), "/tmp/vramshim-host-%d", (int)getpid());
	close(STDERR_FILENO);
	CHECK(open(path, O_RDWR | O_CREAT | O_EXCL, 0600) == STDERR_FILENO);
	work();
	_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1 << 30, 512, 2 << 20, 1);
	if (pread(STDERR_FILENO, text, sizeof(text), 0) != 0)
		puts("somebody wrote into the job's file");
	unlink(path);
	dup2(copy, STDERR_FILENO);
	puts("done");
}

/* Everything but the standard streams is closed, and the numbers are taken by others. */
static void descriptors_taken(void)
{
	int first;

	work();
	syscall(SYS_close_range, 3, ~0u, 0);
	first = open("/dev/zero", O_RDWR);
	CHECK(first == 3);
	for (int fd = 4; fd < 600; fd++)
		CHECK(dup2(first, fd) == fd);
	for (unsigned int i = 0; i < 12000; i++)
		host_report(i % 1000);
	for (int fd = 3; fd < 600; fd++)
		CHECK(fcntl(fd, F_GETFD) == 0);
	work_everywhere();
	host_counted();
}

/* Code that no unwind table tells of, as just-in-time compilers make it: the recorder cannot step over it by rules.
 */
void host_untold(void (*function)(void));
#if defined(__x86_64__)
__asm__(".text\nhost_untold: subq $8, %rsp\n call *%rdi\n addq $8, %rsp\n ret\n");
#elif defined(__aarch64__)
__asm__(".text\nhost_untold: stp x29, x30, [sp, #-16]!\n blr x0\n ldp x29, x30, [sp], #16\n ret\n");
#endif

static void *untold_in_thread(void *argument)
{
	host_untold(work);
	return argument;
}

static void work_in_other_pipes(void)
{
	enum { PIPES = 300 };
	int ends[PIPES][2];
	pthread_t thread;
	char text[8];

	syscall(SYS_close_range, 3, ~0u, 0);
	for (int i = 0; i < PIPES; i++)
		CHECK(pipe2(ends[i], O_NONBLOCK) == 0 && write(ends[i][1], "job", 3) == 3);
	host_untold(work);
	/* Another stack, which nobody has looked at so far. */
	CHECK(pthread_create(&thread, NULL, untold_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
	for (int i = 0; i < PIPES; i++) {
		CHECK(fcntl(ends[i][0], F_GETFD) == 0 && fcntl(ends[i][1], F_GETFD) == 0);
		CHECK(read(ends[i][0], text, sizeof(text)) == 3 && !memcmp(text, "job", 3));
	}
	host_counted();
}

/* Everything but the standard streams is closed, and the numbers are the job's own pipes' by now. */
static void descriptors_reused(void)
{
	host_untold(work);
	work_in_other_pipes();
}

static int (*backtrace_of_the_job)(void **, int);

static void look_back(void)
{
	void *frames[64];

	CHECK(backtrace_of_the_job(frames, 64) > 2);
}

/* The job itself uses libunwind, as some allocators and profilers do, before its descriptors are closed. */
static void unwinder_of_the_job(void)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW);

	backtrace_of_the_job = library ? (int (*)(void **, int))dlsym(library, "unw_backtrace") : NULL;
	if (backtrace_of_the_job)
		host_untold(look_back);
	work_in_other_pipes();
	if (backtrace_of_the_job)
		host_untold(look_back);
}

static atomic_int stop;

/* The highest number that a file got. */
static void *opening(void *argument)
{
	int *highest = argument;

	while (!stop) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		CHECK(fd >= 0 && close(fd) == 0);
		*highest = fd > *highest ? fd : *highest;
	}
	return NULL;
}

/* While the recorder starts, other threads open files: there are numbers for them, and no high ones. */
static void descriptor_numbers(void)
{
	for (int i = 0; i < 20; i++) {
		int highest = 0, status;
		pthread_t thread;
		pid_t pid = fork();

		if (pid == 0) {
			stop = 0;
			CHECK(pthread_create(&thread, NULL, opening, &highest) == 0);
			usleep(1000);
			work();
			stop = 1;
			CHECK(pthread_join(thread, NULL) == 0 && highest < 16);
			_exit(9);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 9 << 8);
	}
	host_counted();
}

static void made_files(mode_t mask, mode_t mode)
{
	char path[64];
	struct stat status;
	int fd;

	umask(mask);
	work();
	snprintf(path, sizeof(path), "/tmp/vramshim-host-%d", (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
	CHECK(fd == 3 && fstat(fd, &status) == 0 && (status.st_mode & 0777) == mode);
	unlink(path);
	host_counted();
}

static void private_files(void)
{
	made_files(077, 0600);
}

static void unreadable_files(void)
{
	made_files(0777, 0);
}

static void other_folder(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/vramshim-host-%d", (int)getpid());
	CHECK(mkdir(path, 0700) == 0 && chdir(path) == 0 && rmdir(path) == 0);
	work_everywhere();
	host_counted();
}

/* Root alone can; the others say so. */
static void other_root(void)
{
	char path[] = "/tmp/vramshim-host-XXXXXX";
	int outside = open("/tmp", O_PATH | O_CLOEXEC);

	CHECK(mkdtemp(path) && outside >= 0);
	if (chroot(path) == 0)
		work_everywhere();
	else
		puts("not root");
	CHECK(chdir("/") == 0 && unlinkat(outside, strrchr(path, '/') + 1, AT_REMOVEDIR) == 0);
	puts("done");
}

static void other_user(void)
{
	if (setgid(65534) || setuid(65534))
		puts("not root");
	work_everywhere();
	puts("done");
}

/* The system calls named are refused. A sandbox that kills instead would kill for the CUDA driver's as well. */
static void refuse(const int *calls, unsigned int count)
{
	struct sock_filter program[32];
	unsigned int at = 0;
	struct sock_fprog filter = {.filter = program};

	program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned int i = 0; i < count; i++)
		program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
		                                             (unsigned char)(count - i), 0);
	program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	filter.len = (unsigned short)at;
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static void sandbox(void)
{
	static const int calls[] = {SYS_openat,   SYS_open,    SYS_fallocate, SYS_ftruncate,   SYS_process_vm_readv,
	                            SYS_readlink, SYS_madvise, SYS_uname,     SYS_sigaltstack, SYS_fcntl};

	refuse(calls, sizeof(calls) / sizeof(calls[0]));
	work_everywhere();
	puts("done");
}

/* What the recorder can do without: all is recorded. */
static void lenient_sandbox(void)
{
	static const int calls[] = {SYS_fallocate, SYS_process_vm_readv, SYS_madvise, SYS_sigaltstack,
	                            SYS_prctl,     SYS_ftruncate,        SYS_readlink};

	refuse(calls, sizeof(calls) / sizeof(calls[0]));
	work_everywhere();
	work_in_a_child();
	work_everywhere();
	host_counted();
}

static void sandbox_later(void)
{
	static const int calls[] = {SYS_openat,   SYS_open, SYS_fallocate, SYS_ftruncate,
	                            SYS_pwrite64, SYS_mmap, SYS_munmap,    SYS_gettid};

	work();
	refuse(calls, sizeof(calls) / sizeof(calls[0]));
	for (unsigned int i = 0; i < 12000; i++)
		host_report(i % 1000);
	work();
	puts("done");
}

/* What a program can see of itself before it touched a GPU: the recorder has done nothing yet. */
static void idle(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");

	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d\n", fd);
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "Threads", 7) || !strncmp(line, "SigB", 4) || !strncmp(line, "SigI", 4) ||
		    !strncmp(line, "SigC", 4) || !strncmp(line, "Umask", 5) || !strncmp(line, "Seccomp", 7))
			printf("%s", line);
	for (int number = 1; number < 65; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("signal %d is handled\n", number);
	}
	file = fopen("/proc/self/maps", "r");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "libunwind") || strstr(line, ".vst"))
			printf("%s", line);
	printf("errno %d\n", errno);
}

/* The same when it has: descriptors of low numbers, signals, threads and the rest stay as they were. */
static void worked(void)
{
	sigset_t mask;
	char line[256];
	FILE *file;

	errno = 0;
	work_everywhere();
	file = fopen("/proc/self/status", "r");
	for (int fd = 0; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d\n", fd);
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "Threads", 7) || !strncmp(line, "SigB", 4) || !strncmp(line, "SigI", 4) ||
		    !strncmp(line, "SigC", 4) || !strncmp(line, "Umask", 5))
			printf("%s", line);
	for (int number = 1; number < 65; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("signal %d is handled\n", number);
	}
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
	for (int number = 1; number < 65; number++)
		CHECK(sigismember(&mask, number) == 0);
	host_counted();
}

/* Until the processor's counter stands in for the clock. */
static void work_long(void)
{
	for (unsigned int i = 0; i < 100; i++) {
		host_give(host_take(512), 512);
		usleep(500);
	}
}

static void *work_long_in_thread(void *argument)
{
	work_long();
	return argument;
}

static void *work_long_on_both_sides(void *barrier)
{
	work_long();
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	work_long();
	return NULL;
}

static void forbid_the_counter(void)
{
	int mode = 0;

	CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
	CHECK(prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_SIGSEGV);
}

static void work_without_the_counter(void)
{
	work_everywhere();
	work_long();
	work_in_a_child();
}

/* For this thread and those that it makes from now on; one of them in the place of one that is gone. */
static void counter_forbidden(void)
{
	pthread_barrier_t barrier;
	pthread_t gone, other;

	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	CHECK(pthread_create(&gone, NULL, work_long_in_thread, NULL) == 0 && pthread_join(gone, NULL) == 0);
	CHECK(pthread_create(&other, NULL, work_long_on_both_sides, &barrier) == 0);
	work_long();
	pthread_barrier_wait(&barrier);
	forbid_the_counter();
	work_without_the_counter();
	pthread_barrier_wait(&barrier);
	CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
	work_long();
	CHECK(pthread_join(other, NULL) == 0);
	errno = 0;
	CHECK(prctl(PR_SET_TSC, 17) == -1 && errno == EINVAL);
}

static void counter_forbidden_before(void)
{
	forbid_the_counter();
	work_without_the_counter();
}

const struct scenario host_limits[] = {
    {"no-memory", no_memory},
    {"memory-ends", memory_ends},
    {"no-files", no_files},
    {"tiny-files", tiny_files},
    {"files-of-a-megabyte", files_of_a_megabyte},
    {"file-limit-comes-late", file_limit_comes_late},
    {"no-descriptors", no_descriptors},
    {"few-descriptors", few_descriptors},
    {"closed-streams", closed_streams},
    {"closed-streams-and-few", closed_streams_and_few},
    {"stderr-is-a-file", stderr_is_a_file},
    {"descriptors-taken", descriptors_taken},
    {"descriptors-reused", descriptors_reused},
    {"unwinder-of-the-job", unwinder_of_the_job},
    {"descriptor-numbers", descriptor_numbers},
    {"private-files", private_files},
    {"unreadable-files", unreadable_files},
    {"other-folder", other_folder},
    {"other-root", other_root},
    {"other-user", other_user},
    {"sandbox", sandbox},
    {"lenient-sandbox", lenient_sandbox},
    {"sandbox-later", sandbox_later},
    {"counter-forbidden", counter_forbidden},
    {"counter-forbidden-before", counter_forbidden_before},
    {"idle", idle},
    {"worked", worked},
    {NULL, NULL},
};
