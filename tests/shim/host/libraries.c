/* SPDX-License-Identifier: MIT
 *
 * Libraries that come, go, come again elsewhere, and see other symbols than most.
 */
#include "host.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* plugin-a.so or -b.so beside this program. */
static const char *plugin(const char *name)
{
	static __thread char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);

	CHECK(length > 0);
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	return path;
}

typedef void *take_function(size_t size);
typedef void give_function(void *pointer, size_t size);

static void use(const char *name, int flags)
{
	void *library = dlopen(plugin(name), flags);
	take_function *take;
	give_function *give;
	const char *(*who)(void);

	CHECK(library);
	take = (take_function *)dlsym(library, "plugin_take");
	give = (give_function *)dlsym(library, "plugin_give");
	who = (const char *(*)(void))dlsym(library, "plugin_name");
	CHECK(take && give && who);
	printf("%s\n", who());
	give(take(4096), 4096);
	CHECK(dlclose(library) == 0);
}

/* Before any GPU event, a library that is closed is gone, and its static state with it. */
static void plugins_before(void)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen(plugin("plugin-a.so"), RTLD_NOW);
		int (*count)(void) = (int (*)(void))dlsym(library, "plugin_count");

		CHECK(library && count);
		count();
		printf("count %d\n", count());
		CHECK(dlclose(library) == 0);
		printf("loaded: %d\n", dlopen(plugin("plugin-a.so"), RTLD_NOW | RTLD_NOLOAD) != NULL);
	}
}

/* Two libraries in turn, at one address if it were for the loader. Each event is its own library's. */
static void plugins_in_turn(void)
{
	host_give(host_take(512), 512);
	for (int i = 0; i < 20; i++) {
		use("plugin-a.so", RTLD_NOW | RTLD_LOCAL);
		use("plugin-b.so", RTLD_NOW | RTLD_LOCAL);
	}
}

/* Its own libraries come first for such a one, so its calls may pass us by; they are answered all the same. */
static void deep_binding(void)
{
	host_give(host_take(512), 512);
	for (int i = 0; i < 5; i++)
		use("plugin-a.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

static void other_namespace(void)
{
	void *library = dlmopen(LM_ID_NEWLM, plugin("plugin-a.so"), RTLD_NOW);
	int (*count)(void);

	host_give(host_take(512), 512);
	if (!library) {
		printf("%s\n", dlerror());
		return;
	}
	count = (int (*)(void))dlsym(library, "plugin_count");
	CHECK(count);
	printf("count %d\n", count());
	host_give(host_take(512), 512);
}

static atomic_int stop;
static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;
static atomic_int arrived; /* a constructor */

/* Takes and gives under a lock of the job's, as PyTorch does. */
static void *allocate(void *argument)
{
	for (unsigned int i = 0; !stop; i++) {
		pthread_mutex_lock(&allocator);
		host_report(i % 400);
		pthread_mutex_unlock(&allocator);
	}
	return argument;
}

void host_lock_and_report(void);
__attribute__((visibility("default"))) void host_lock_and_report(void)
{
	arrived = 1;
	pthread_mutex_lock(&allocator);
	host_report(7);
	pthread_mutex_unlock(&allocator);
}

/* A library whose constructor allocates holds the loader's lock while it waits for the allocator's. */
static void allocating_constructors(void)
{
	pthread_t threads[2];

	host_report(0);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
	alarm(60);
	for (int i = 0; i < 50; i++) {
		void *library = dlmopen(LM_ID_BASE, plugin("plugin-eager.so"), RTLD_NOW);

		CHECK(library && dlclose(library) == 0);
		usleep(1000);
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	puts("done");
}

static void *open_eager(void *argument)
{
	CHECK(dlopen(plugin("plugin-eager.so"), RTLD_NOW));
	return argument;
}

/* The first events of all come under the lock that such a constructor waits for. */
static void first_events_under_lock(void)
{
	pthread_t thread;
	void *context = NULL;

	pthread_mutex_lock(&allocator);
	CHECK(pthread_create(&thread, NULL, open_eager, NULL) == 0);
	while (!arrived)
		usleep(1000);
	alarm(20);
	for (int i = 0; i < 3; i++)
		host_give(host_take(512), 512);
	host_report(1);
	CHECK(cuCtxCreate_v2(&context, 0, 0) == 0 && context);
	host_count(1, 0);
	pthread_mutex_unlock(&allocator);
	CHECK(pthread_join(thread, NULL) == 0);
	host_give(host_take(512), 512);
	host_counted();
}

static void *open_and_close(void *argument)
{
	for (int i = 0; i < 50; i++) {
		void *library = dlopen(plugin((uintptr_t)argument % 2 ? "plugin-a.so" : "plugin-b.so"), RTLD_NOW);

		CHECK(library);
		host_report((unsigned int)i);
		dlclose(library);
	}
	return NULL;
}

static void loading_in_threads(void)
{
	pthread_t threads[6];

	for (uintptr_t i = 0; i < 6; i++)
		CHECK(pthread_create(&threads[i], NULL, open_and_close, (void *)i) == 0);
	for (int i = 0; i < 6; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	host_counted();
}

static void wrong_names(void)
{
	host_give(host_take(512), 512);
	CHECK(!dlopen("/no/such/library.so", RTLD_NOW));
	printf("%s\n", dlerror());
	CHECK(!dlopen("/dev/null", RTLD_NOW));
	printf("%s\n", dlerror());
	CHECK(!dlopen("libc.so.6", 0));
	printf("%s\n", dlerror());
	CHECK(!dlerror());
	CHECK(!dlsym(RTLD_DEFAULT, "cuNoSuchCall"));
	printf("%s\n", dlerror());
	CHECK(dlopen(NULL, RTLD_NOW) && !dlerror());
}

const struct scenario host_libraries[] = {
    {"plugins-before", plugins_before},
    {"plugins-in-turn", plugins_in_turn},
    {"deep-binding", deep_binding},
    {"other-namespace", other_namespace},
    {"allocating-constructors", allocating_constructors},
    {"first-events-under-lock", first_events_under_lock},
    {"loading-in-threads", loading_in_threads},
    {"wrong-names", wrong_names},
    {NULL, NULL},
};
