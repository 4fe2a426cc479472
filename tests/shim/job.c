/* SPDX-License-Identifier: MIT
 *
 * A "framework": a library that is linked with the CUDA runtime and libc10, and loaded RTLD_LOCAL, as PyTorch is.
 * Each job_*() is a small scenario that checks what it gets back, and returns the number of its line where that is
 * wrong, else 0.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define CHECK(condition)                                                                                             \
	do {                                                                                                         \
		if (!(condition))                                                                                    \
			return __LINE__;                                                                             \
	} while (0)

int cudaMalloc(void **out, size_t size);
int cudaFree(void *pointer);
int cudaMallocAsync(void **out, size_t size, void *stream);
int cudaFreeAsync(void *pointer, void *stream);
int cudaMallocManaged(void **out, size_t size, unsigned int flags);
int cudaMallocHost(void **out, size_t size);
int cudaFreeHost(void *pointer);
int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height);
struct pitched {
	void *pointer;
	size_t pitch, width, height;
};
struct extent {
	size_t width, height, depth;
};
int cudaMalloc3D(struct pitched *out, struct extent extent);
int cudaSetDevice(int device);
int cudaGetDriverEntryPoint(const char *base, void **out, unsigned long long flags, int *status);
int cudaGetDriverEntryPointByVersion(const char *base, void **out, unsigned int version, unsigned long long flags,
                                     int *status);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t size, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device);
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t size, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device);
int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
extern int mock_calls, mock_contexts, mock_reports, mock_ooms, mock_capturing, mock_asked_in_capture;
extern __thread int mock_no_context;

#define report     _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define report_oom _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
#define CUDA(n)    ((uint16_t)(1 | (n) << 8)) /* c10::Device */

API int job_runtime(void)
{
	struct pitched pitched;
	void *a, *b;
	size_t pitch;

	CHECK(cudaMalloc(&a, 1000) == 0);
	CHECK(cudaSetDevice(3) == 0);
	CHECK(cudaMallocPitch(&b, &pitch, 100, 10) == 0 && pitch == 512);
	CHECK(cudaFree(a) == 0);
	CHECK(cudaFree(b) == 0);
	CHECK(cudaMalloc3D(&pitched, (struct extent){600, 2, 3}) == 0 && pitched.pitch == 1024);
	CHECK(cudaMallocManaged(&a, 2000, 1) == 0);
	CHECK(cudaMallocHost(&a, 3000) == 0);
	CHECK(cudaFreeHost(a) == 0);
	CHECK(cudaMallocAsync(&a, 4000, NULL) == 0);
	CHECK(cudaFreeAsync(a, NULL) == 0);
	CHECK(cudaSetDevice(0) == 0);
	return 0;
}

/* Errors are the library's own, and what is not ours to judge reaches it. */
API int job_errors(void)
{
	int before = mock_calls;
	void *a = (void *)1;

	/* The first event is the one that opens files and loads libraries. */
	errno = 77;
	report((void *)0x1000, 512, 512, 1 << 21, CUDA(0));
	CHECK(errno == 77);
	CHECK(cudaMalloc(&a, (size_t)2 << 30) == 2);
	CHECK(a == (void *)1);
	CHECK(cudaMalloc(NULL, 10) == 1);
	CHECK(cudaFree((void *)0x1234) == 1);
	CHECK(cudaFree(NULL) == 0);
	CHECK(mock_calls == before + 2);
	CHECK(cudaMalloc(&a, 1) == 0);
	/* errno as the library left it: the recorder's own work does not show. */
	CHECK(errno == EDOM);
	errno = 77;
	report((void *)0x1000, 512, 512, 1 << 21, CUDA(0));
	CHECK(errno == 77);
	return 0;
}

API int job_capture(void)
{
	void *a, *graph, *stream = &graph;

	CHECK(cudaMalloc(&a, 1000) == 0);
	CHECK(cudaStreamBeginCapture(stream, 0) == 0 && cudaStreamBeginCapture(stream, 0) == 0);
	/* An end that ends nothing, and one of two. */
	CHECK(cudaStreamEndCapture(NULL, &graph) == 903);
	CHECK(cudaStreamEndCapture(stream, &graph) == 0 && mock_capturing == 1);
	for (int i = 0; i < 100; i++) {
		CHECK(cudaMallocAsync(&a, 4000, stream) == 0);
		usleep(100); /* what a sample takes here, many times */
	}
	CHECK(mock_asked_in_capture == 0);
	CHECK(cudaStreamEndCapture(stream, &graph) == 0 && !mock_capturing);
	usleep(10000);
	CHECK(cudaMalloc(&a, 1000) == 0);
	return 0;
}

API int job_gateways(void)
{
	struct {
		int type, handles;
		struct {
			int type, id;
		} location;
		void *windows;
		uint64_t flags;
	} prop = {1, 0, {1, 5}, NULL, 0};
	int (*create)(uint64_t *, size_t, const void *, unsigned long long);
	int (*release)(uint64_t), (*reserve)(uint64_t *, size_t, size_t, uint64_t, unsigned long long);
	int (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long), (*unmap)(uint64_t, size_t);
	int (*address_free)(uint64_t, size_t), (*allocate)(uint64_t *, size_t), (*old)(unsigned int *, unsigned int);
	int (*get)(const char *, void **, int, uint64_t, int *), (*allocate_async)(uint64_t *, size_t, void *);
	uint64_t handle, address;
	unsigned int small;
	void *none = &small;
	int status = -1;

	CHECK(cudaGetDriverEntryPointByVersion("cuMemCreate", (void **)&create, 12000, 0, &status) == 0 && !status);
	CHECK(cudaGetDriverEntryPointByVersion("cuMemRelease", (void **)&release, 12000, 0, NULL) == 0);
	CHECK(cudaGetDriverEntryPointByVersion("cuMemAddressReserve", (void **)&reserve, 12000, 0, NULL) == 0);
	CHECK(cudaGetDriverEntryPointByVersion("cuMemAddressFree", (void **)&address_free, 12000, 0, NULL) == 0);
	CHECK(cudaGetDriverEntryPointByVersion("cuMemMap", (void **)&map, 12000, 0, NULL) == 0);
	CHECK(cudaGetDriverEntryPoint("cuMemUnmap", (void **)&unmap, 0, NULL) == 0);
	CHECK(create(&handle, 2 << 20, &prop, 0) == 0);
	CHECK(reserve(&address, 8 << 20, 0, 0, 0) == 0);
	CHECK(map(address, 2 << 20, 0, handle, 0) == 0);
	CHECK(unmap(address, 2 << 20) == 0);
	CHECK(release(handle) == 0);
	CHECK(address_free(address, 8 << 20) == 0);
	/* Host memory is on no device. */
	prop.location.type = 2;
	CHECK(create(&handle, 4 << 20, &prop, 0) == 0);
	CHECK(release(handle) == 0);
	/* A name in two versions: the old one's ABI differs and stays unwrapped. */
	CHECK(cudaGetDriverEntryPointByVersion("cuMemAlloc", (void **)&allocate, 12000, 0, NULL) == 0);
	CHECK(cudaGetDriverEntryPointByVersion("cuMemAlloc", (void **)&old, 2000, 0, NULL) == 0);
	CHECK(allocate(&address, 5000) == 0 && address > 1);
	CHECK(old(&small, 5001) == 0 && small == 5001);
	/* The gateway's own gateway. */
	CHECK(cudaGetDriverEntryPointByVersion("cuGetProcAddress", (void **)&get, 12000, 0, NULL) == 0);
	CHECK(get("cuMemAllocAsync", (void **)&allocate_async, 12000, 2, &status) == 0 && !status);
	CHECK(allocate_async(&address, 6000, NULL) == 0);
	CHECK(get("", &none, 12000, 0, &status) == 500 && status == 1 && !none);
	CHECK(get("cuNoSuchCall", &none, 12000, 0, NULL) == 500);
	return 0;
}

/* A thread without a context, as NCCL's are, makes memory on the runtime's current device: the recorder must not give
 * the thread a context (hundreds of MiB on a real card) by asking the device something. */
API int job_no_context(void)
{
	struct {
		int type, handles, location, id;
		void *windows;
		uint64_t flags;
	} prop = {1, 0, 1, 0, NULL, 0};
	int (*create)(uint64_t *, size_t, const void *, unsigned long long);
	uint64_t handle;

	CHECK(cudaGetDriverEntryPoint("cuMemCreate", (void **)&create, 0, NULL) == 0);
	mock_no_context = 1;
	CHECK(create(&handle, 2 << 20, &prop, 0) == 0);
	CHECK(mock_contexts == 0);
	return 0;
}

API int job_torch(void)
{
	int reports = mock_reports, ooms = mock_ooms;

	report((void *)0x7f0000000000, 1024, 1024, 2 << 20, CUDA(0));
	report((void *)0x7f0000000400, 512, 1536, 2 << 20, CUDA(2));
	report((void *)0x7f0000000000, -1024, 512, 2 << 20, CUDA(0));
	/* The host's allocator reports through the same function. */
	report((void *)0x5500, 64, 64, 0, (uint16_t)0xff00);
	report_oom(1 << 30, 512, 2 << 20, CUDA(0));
	CHECK(mock_reports == reports + 4);
	CHECK(mock_ooms == ooms + 1);
	return 0;
}

API void job_report(uint64_t address, int64_t size)
{
	report((void *)(uintptr_t)address, size, 512, 2 << 20, CUDA(0));
	__asm__ volatile(""); /* no tail call: this frame belongs in the stack */
}

/* Deeper than the recorder keeps. */
static __attribute__((noinline)) void descend(int depth)
{
	if (depth)
		descend(depth - 1);
	else
		report((void *)0x7f0000000000, 512, 512, 2 << 20, CUDA(0));
	__asm__ volatile("");
}

API int job_deep(int depth)
{
	descend(depth);
	return 0;
}

/* Threads that report for as long as the process lives. */
static void *report_for_ever(void *argument)
{
	for (uintptr_t i = 0;; i++) {
		uintptr_t address = 0x7f0000000000 + ((uintptr_t)argument << 24) + i % 100 * 512;

		report((void *)address, 512, 512, 2 << 20, CUDA(0));
		report((void *)address, -512, 0, 2 << 20, CUDA(0));
	}
	return NULL;
}

API int job_background(int count, int microseconds)
{
	pthread_t thread;

	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&thread, NULL, report_for_ever, (void *)(uintptr_t)i) == 0);
	usleep((useconds_t)microseconds);
	return 0;
}

/* The same in the calling thread. */
API int job_report_for_ever(void)
{
	report_for_ever(NULL);
	return 0;
}

/* A thread that is cancelled in the middle of the process's first event. */
static void *report_cancelled(void *argument)
{
	pthread_cancel(pthread_self());
	report((void *)0x7f0000000000, 512, 512, 2 << 20, CUDA(0));
	pthread_testcancel();
	return argument;
}

API int job_cancelled(void)
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, report_cancelled, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	report((void *)0x7f0000000200, 512, 512, 2 << 20, CUDA(0));
	return 0;
}

/* A thread that holds the loader's list of libraries nearly all the time. */
static int hold(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)info;
	(void)size;
	(void)data;
	usleep(10000);
	return 0;
}

static void *hold_for_ever(void *argument)
{
	for (;;)
		dl_iterate_phdr(hold, NULL);
	return argument;
}

API int job_hold_loader(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, hold_for_ever, NULL) == 0);
	usleep(20000);
	return 0;
}

/* Threads that come and go; each also frees from a destructor that runs after the recorder's. */
static pthread_key_t late;

static void free_late(void *value)
{
	static __thread int rounds;

	if (++rounds < 3) {
		pthread_setspecific(late, value);
		return;
	}
	report(value, -512, 0, 2 << 20, CUDA(0));
}

static void *thread_main(void *argument)
{
	uintptr_t address = 0x7f0000000000 + ((uintptr_t)argument << 20);

	report((void *)address, 512, 512, 2 << 20, CUDA(0));
	pthread_setspecific(late, (void *)address);
	for (int i = 1; i < 50; i++) {
		report((void *)(address + (uintptr_t)i * 512), 512, 512, 2 << 20, CUDA(0));
		report((void *)(address + (uintptr_t)i * 512), -512, 0, 2 << 20, CUDA(0));
	}
	return NULL;
}

API int job_threads(int rounds, int at_once)
{
	pthread_t threads[64];

	CHECK(at_once <= 64 && pthread_key_create(&late, free_late) == 0);
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < at_once; i++)
			CHECK(pthread_create(&threads[i], NULL, thread_main,
			                     (void *)(uintptr_t)(round * at_once + i)) == 0);
		for (int i = 0; i < at_once; i++)
			pthread_join(threads[i], NULL);
	}
	return 0;
}

/* A signal handler that allocates, striking at any point of the recorder. */
static volatile sig_atomic_t handled;

static void handler(int number)
{
	void *a;

	(void)number;
	handled++;
	report((void *)0x7e0000000000, 512, 512, 2 << 20, CUDA(0));
	cudaMalloc(&a, 512);
}

API int job_signals(int wanted)
{
	struct itimerval timer = {{0, 200}, {0, 200}}, stop = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
	uint64_t sent = 0;

	CHECK(sigaction(SIGALRM, &action, &old) == 0);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	while (handled < wanted) {
		report((void *)(uintptr_t)(0x7f0000000000 + sent % 64 * 512), 512, 512, 2 << 20, CUDA(0));
		report((void *)(uintptr_t)(0x7f0000000000 + sent % 64 * 512), -512, 0, 2 << 20, CUDA(0));
		sent++;
	}
	setitimer(ITIMER_REAL, &stop, NULL);
	sigaction(SIGALRM, &old, NULL);
	return 0;
}
