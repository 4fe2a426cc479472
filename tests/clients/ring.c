/* SPDX-License-Identifier: MIT
 *
 * A host program whose worker thread, which never touched CUDA, opens a communicator; another thread closes it. The
 * program's own memory is the runtime's.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "client.h"
#include "communicator.h"
#include "runtime.h"

enum { CHANNELS = 6, BUFFERS = 8 };

static const size_t channel_size = 4500000, buffer_size = 24000000;

static struct {
	__typeof__(communicator_open) *open;
	__typeof__(communicator_register) *register_buffer;
	__typeof__(communicator_bytes) *bytes;
	__typeof__(communicator_close) *close;
} library;
static struct communicator *communicator;
static uint64_t own;

static void mark(const char *name)
{
	struct communicator_bytes theirs = {0};
	struct client_books books = {0};
	size_t available, total;

	if (communicator)
		library.bytes(communicator, &theirs);
	books.bytes[VRAMSHIM_MEMORY_DEVICE] = own + theirs.device;
	books.bytes[VRAMSHIM_MEMORY_PINNED] = theirs.pinned;
	books.bytes[VRAMSHIM_MEMORY_PHYSICAL] = theirs.physical;
	books.bytes[VRAMSHIM_MEMORY_MAPPED] = theirs.mapped;
	books.bytes[VRAMSHIM_MEMORY_RESERVED] = theirs.reserved;
	CHECK(cudaMemGetInfo(&available, &total));
	books.used = total - available;
	client_mark(name, &books);
}

static void *worker(void *unused)
{
	(void)unused;
	CHECK(library.open(&communicator, CHANNELS, channel_size));
	for (int i = 0; i < BUFFERS; i++)
		CHECK(library.register_buffer(communicator, buffer_size));
	return NULL;
}

static void *closer(void *unused)
{
	(void)unused;
	CHECK(library.close(communicator));
	communicator = NULL;
	return NULL;
}

static void in_thread(void *(*function)(void *))
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, function, NULL));
	CHECK(pthread_join(thread, NULL));
}

int main(int argc, char **argv)
{
	void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *buffers[BUFFERS], *last;

	if (!handle)
		return 2;
	library.open = (__typeof__(library.open))dlsym(handle, "communicator_open");
	library.register_buffer = (__typeof__(library.register_buffer))dlsym(handle, "communicator_register");
	library.bytes = (__typeof__(library.bytes))dlsym(handle, "communicator_bytes");
	library.close = (__typeof__(library.close))dlsym(handle, "communicator_close");
	/* It comes first: the program has made no context yet. */
	in_thread(worker);
	mark("communicator");
	for (int i = 0; i < BUFFERS; i++) {
		CHECK(cudaMalloc(&buffers[i], buffer_size));
		own += buffer_size;
	}
	client_work();
	CHECK(cudaMalloc(&last, 4096));
	own += 4096;
	mark("fullest");
	in_thread(closer);
	mark("closed");
	for (int i = 0; i < BUFFERS; i++)
		CHECK(cudaFree(buffers[i]));
	own -= BUFFERS * buffer_size;
	mark("over");
	return 0;
}
