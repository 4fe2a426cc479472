/* SPDX-License-Identifier: MIT
 *
 * Every way to ask for a symbol, by several threads at once: matrix [DRIVER]. Prints what was found, in words that
 * are the same whoever interposes; the driver's calls are made, and leave errno as the driver did.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define THREADS 8
#define ROUNDS  300

static void *library;

static const char *file_of(void *symbol)
{
	const char *slash;
	Dl_info info;

	if (!symbol || !dladdr(symbol, &info))
		return symbol ? "nowhere" : "none";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static void look(const char *how, const char *name, void *symbol)
{
	const char *error = dlerror();
	const char *text = error ? strstr(error, "undefined symbol") : "";

	printf("%s %s: %s %s\n", how, name, file_of(symbol), error && text ? text : "");
}

static void *storm(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (!dlsym(RTLD_NEXT, "open") || !dlsym(RTLD_DEFAULT, "malloc") || !dlsym(library, "cos") ||
		    !dlvsym(RTLD_DEFAULT, "dlopen", "GLIBC_2.2.5") || dlsym(RTLD_DEFAULT, "cuNoSuchCall") ||
		    dlsym(library, "cudaMalloc"))
			return argument;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
	    "open",           "dlsym_not_there", "cudaMalloc", "cuMemAlloc_v2", "cudaNoCall",
	    "curl_easy_init", "cublasCreate_v2", "cu",         "cuda",          "",
	    "custom"};
	pthread_t threads[THREADS];
	int failed = 0;

	library = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
	look("by handle", "cos", dlsym(library, "cos"));
	look("by version", "memcpy", dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
	look("by version", "memcpy", dlvsym(RTLD_NEXT, "memcpy", "GLIBC_2.14"));
	look("by version", "cudaMalloc", dlvsym(RTLD_DEFAULT, "cudaMalloc", "libcudart.so.12"));
	look("by version", "nothing", dlvsym(library, "nothing", "GLIBC_2.14"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		look("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		look("next", names[i], dlsym(RTLD_NEXT, names[i]));
		look("by handle", names[i], dlsym(library, names[i]));
	}
	look("the program", "cudaFree", dlsym(dlopen(NULL, RTLD_LAZY), "cudaFree"));
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, storm, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		failed += result != NULL;
	}
	printf("%d threads failed\n", failed);
	if (argc > 1) {
		void *driver = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL), *alloc = dlsym(driver, "cuMemAlloc_v2");
		int (*by_name)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))alloc;
		int (*get)(const char *, void **, int, uint64_t, int *) =
		    (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
		int (*by_gateway)(uint64_t *, size_t), (*by_itself)(const char *, void **, int, uint64_t);
		uint64_t a, b, c;

		printf("%s\n", alloc && !dlerror() ? "found" : "none");
		printf("%d", by_name(&a, 1000));
		printf(" %d\n", errno);
		printf("%d\n", get("cuMemAlloc", (void **)&by_gateway, 12000, 0, NULL));
		printf("%d\n", by_gateway(&b, 2000));
		/* The gateway's own, of the version that had no status yet. */
		printf("%d\n", get("cuGetProcAddress", (void **)&by_itself, 11030, 0, NULL));
		printf("%d\n", by_itself("cuMemAlloc", (void **)&by_gateway, 3020, 0));
		printf("%d\n", by_gateway(&c, 3000));
		printf("%d\n", get("cuNoSuchCall", (void **)&by_gateway, 12000, 0, NULL));
	}
	return failed;
}
