/* SPDX-License-Identifier: MIT
 *
 * A program whose libraries take GPU memory, and which knows what each holds: job FOLDER COMMAND...
 *   LIBRARY:KIND:BYTES   lib<LIBRARY>.so in FOLDER takes BYTES (consumer.c has the kinds)
 *   FUNCTION:LIBRARY:KIND:BYTES  the same when PyTorch's allocator asks for it through that function
 *   random:SEED:COUNT    COUNT random takes and gives by all libraries, on all devices
 *   device:N  sleep:MS  wait (for a line on standard input)
 *   export  import:HEX   the last piece to another process, which opens it: "handle HEX"
 * Prints at the end one line a device and library: DEVICE LIBRARY BYTES, and DEVICE used BYTES.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*cudaGetDeviceCount)(int *count);
static int (*cudaSetDevice)(int device);
static int (*cudaMemGetInfo)(size_t *free_bytes, size_t *total);

enum { PIECES = 200, LIBRARIES = 5, DEVICES = 8 };

struct piece {
	void *pointer;
	uint64_t handle;
	size_t size;
	char kind;
};

static struct library {
	const char *name;
	int (*take)(struct piece *piece), (*give)(struct piece *piece);
	uint64_t held[DEVICES];
} libraries[LIBRARIES] = {{"nccl"}, {"cublas"}, {"cudnn_ops"}, {"mine"}, {"c10_cuda"}};

struct handle {
	unsigned char bytes[64];
};

static const char *folder;
static void *last;
static uint64_t state;
static int device;

static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "job: %s\n", what);
	exit(1);
}

static uint64_t below(uint64_t limit)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % limit;
}

static struct library *library(size_t i)
{
	char path[4096];
	void *handle;

	if (libraries[i].take)
		return &libraries[i];
	snprintf(path, sizeof(path), "%s/lib%s.so", folder, libraries[i].name);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	require(handle != NULL, path);
	libraries[i].take = (int (*)(struct piece *))dlsym(handle, "take");
	libraries[i].give = (int (*)(struct piece *))dlsym(handle, "give");
	return &libraries[i];
}

/* Managed and page-locked memory are the host's. */
static uint64_t on_card(const struct piece *piece)
{
	return piece->kind == 'g' || piece->kind == 'h' ? 0 : piece->size;
}

static void at_random(uint64_t count)
{
	static struct {
		struct piece piece;
		struct library *library;
		int device;
	} all[PIECES];
	static const char kinds[] = "mmdavgh";
	int devices = 1;

	cudaGetDeviceCount(&devices);
	for (uint64_t n = 0; n < count; n++) {
		size_t i = below(PIECES);
		struct piece *piece = &all[i].piece;

		if (all[i].library) {
			require(all[i].library->give(piece) == 0, "a piece cannot be given back");
			all[i].library->held[all[i].device] -= on_card(piece);
			all[i].library = NULL;
			continue;
		}
		device = (int)below((uint64_t)(devices < DEVICES ? devices : DEVICES));
		require(cudaSetDevice(device) == 0, "no such device");
		*piece = (struct piece){.kind = kinds[below(sizeof(kinds) - 1)]};
		piece->size = 1 + below(below(3) ? 300000 : 50000000);
		if (piece->kind == 'v')
			piece->size = (1 + below(10)) << 21;
		all[i].library = library(below(LIBRARIES));
		all[i].device = device;
		if (all[i].library->take(piece)) {
			all[i].library = NULL;
			continue;
		}
		all[i].library->held[device] += on_card(piece);
	}
}

static uint64_t used(void)
{
	size_t free_bytes, total;

	require(cudaMemGetInfo(&free_bytes, &total) == 0, "cudaMemGetInfo");
	return total - free_bytes;
}

static void one(const char *name, char kind, uint64_t size)
{
	struct piece piece = {.kind = kind, .size = size};

	for (size_t i = 0; i < LIBRARIES; i++) {
		if (strcmp(name, libraries[i].name))
			continue;
		require(library(i)->take(&piece) == 0, "out of memory");
		libraries[i].held[device] += on_card(&piece);
		last = piece.pointer;
		return;
	}
	require(0, name);
}

/* What PyTorch's allocator has from another one is its own. */
static void through(const char *function, const char *name, char kind, uint64_t size)
{
	struct library *allocator = library(LIBRARIES - 1);
	struct piece piece = {.kind = kind, .size = size};
	char path[4096];
	int (*ask)(void *, void *, struct piece *);
	void *torch, *between;

	snprintf(path, sizeof(path), "%s/lib%s.so", folder, allocator->name);
	ask = (int (*)(void *, void *, struct piece *))dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "ask");
	snprintf(path, sizeof(path), "%s/libtorch_cuda.so", folder);
	torch = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	between = torch ? dlsym(torch, function) : NULL;
	require(ask && between, function);
	for (size_t i = 0; i < LIBRARIES; i++) {
		if (strcmp(name, libraries[i].name))
			continue;
		require(ask(between, (void *)library(i)->take, &piece) == 0, "out of memory");
		(strcmp(function, "tracker") ? allocator : library(i))->held[device] += on_card(&piece);
		return;
	}
	require(0, name);
}

static void export(void)
{
	int (*get)(struct handle *, void *) =
	    (int (*)(struct handle *, void *))dlsym(RTLD_DEFAULT, "cudaIpcGetMemHandle");
	struct handle handle;

	require(get && get(&handle, last) == 0, "cudaIpcGetMemHandle");
	printf("handle ");
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", handle.bytes[i]);
	printf("\n");
	fflush(stdout);
}

static void import(const char *hex)
{
	int (*open)(void **, struct handle, unsigned int) =
	    (int (*)(void **, struct handle, unsigned int))dlsym(RTLD_DEFAULT, "cudaIpcOpenMemHandle");
	struct handle handle;
	void *pointer;

	for (size_t i = 0; i < sizeof(handle); i++)
		require(sscanf(hex + 2 * i, "%2hhx", &handle.bytes[i]) == 1, hex);
	require(open && open(&pointer, handle, 1) == 0, "cudaIpcOpenMemHandle");
}

int main(int argc, char **argv)
{
	char name[64], function[64], kind, line[64];
	uint64_t seed, size;
	int devices = 1;

	cudaGetDeviceCount = (int (*)(int *))dlsym(RTLD_DEFAULT, "cudaGetDeviceCount");
	cudaSetDevice = (int (*)(int))dlsym(RTLD_DEFAULT, "cudaSetDevice");
	cudaMemGetInfo = (int (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "cudaMemGetInfo");
	require(argc > 1 && cudaGetDeviceCount && cudaSetDevice && cudaMemGetInfo, "FOLDER, or CUDA, is missing");
	folder = argv[1];
	for (int i = 2; i < argc; i++) {
		if (sscanf(argv[i], "random:%" SCNu64 ":%" SCNu64, &seed, &size) == 2) {
			state = seed;
			at_random(size);
		} else if (sscanf(argv[i], "device:%d", &device) == 1) {
			require(cudaSetDevice(device) == 0, "no such device");
		} else if (sscanf(argv[i], "sleep:%" SCNu64, &size) == 1) {
			usleep((useconds_t)size * 1000);
		} else if (!strcmp(argv[i], "export")) {
			export();
		} else if (!strncmp(argv[i], "import:", 7)) {
			import(argv[i] + 7);
		} else if (!strcmp(argv[i], "wait")) {
			printf("waiting\n");
			fflush(stdout);
			require(fgets(line, sizeof(line), stdin) != NULL, "nobody answered");
		} else if (sscanf(argv[i], "%63[^:]:%63[^:]:%c:%" SCNu64, function, name, &kind, &size) == 4) {
			through(function, name, kind, size);
		} else if (sscanf(argv[i], "%63[^:]:%c:%" SCNu64, name, &kind, &size) == 3) {
			one(name, kind, size);
		} else {
			require(0, argv[i]);
		}
	}
	cudaGetDeviceCount(&devices);
	for (device = 0; device < devices && device < DEVICES; device++) {
		for (size_t i = 0; i < LIBRARIES; i++)
			if (libraries[i].held[device])
				printf("%d %s %" PRIu64 "\n", device, libraries[i].name, libraries[i].held[device]);
		require(cudaSetDevice(device) == 0, "no such device");
		printf("%d used %" PRIu64 "\n", device, used());
	}
	return 0;
}
