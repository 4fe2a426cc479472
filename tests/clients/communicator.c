/* SPDX-License-Identifier: MIT
 *
 * With a CUDA runtime of its own, linked in and visible to nobody, as NCCL has it: its calls are no exports, they
 * make the current context where the thread has none, and reach the driver by the pointers it looked up.
 */
#include "communicator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "driver.h"

#define API __attribute__((visibility("default")))

/* Frames, so that a stack names the library. */
#define KEPT __attribute__((noinline))

enum { GRANULE = 2 << 20, CHANNELS = 32, TABLES = 64, FIFO = 1 << 20 };

/* The private runtime */

static struct driver cu;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int opened;
static void *primary;

static void open_once(void)
{
	int device;

	opened = driver_open(&cu);
	if (!opened)
		opened = cu.init(0);
	if (!opened)
		opened = cu.device_get(&device, 0);
	if (!opened)
		opened = cu.primary_retain(&primary, device);
}

/* The thread gets the context for the time of a call, and is left as it was. */
static int enter(void)
{
	pthread_once(&once, open_once);
	return opened ? opened : cu.context_push(primary);
}

static int leave(int r)
{
	void *popped;
	int popping = cu.context_pop(&popped);

	return r ? r : popping;
}

KEPT static int runtime_malloc(uint64_t *address, size_t size)
{
	int r = enter();

	return r ? r : leave(cu.allocate(address, size));
}

KEPT static int runtime_free(uint64_t address)
{
	int r = enter();

	return r ? r : leave(cu.release(address));
}

KEPT static int runtime_malloc_host(void **pointer, size_t size)
{
	int r = enter();

	return r ? r : leave(cu.host_allocate(pointer, size, 0));
}

KEPT static int runtime_free_host(void *pointer)
{
	int r = enter();

	return r ? r : leave(cu.host_release(pointer));
}

/* The library */

struct channel {
	uint64_t address, handle;
	size_t size;
};

struct communicator {
	struct channel channels[CHANNELS];
	int channel_count;
	uint64_t state, tables[TABLES];
	int table_count;
	void *fifo;
	struct communicator_bytes bytes;
};

KEPT static int channel_open(struct communicator *communicator, size_t size)
{
	const struct placement placement = {.type = 1, .handle_types = 1, .location = 1};
	const struct access access = {.location = 1, .flags = 3};
	struct channel *channel = &communicator->channels[communicator->channel_count];
	int r = enter();

	channel->size = (size + GRANULE - 1) / GRANULE * GRANULE;
	if (!r)
		r = cu.create(&channel->handle, channel->size, &placement, 0);
	if (!r)
		r = cu.reserve(&channel->address, channel->size, 0, 0, 0);
	if (!r)
		r = cu.map(channel->address, channel->size, 0, channel->handle, 0);
	if (!r)
		r = cu.set_access(channel->address, channel->size, &access, 1);
	if (r)
		return r;
	communicator->channel_count++;
	communicator->bytes.physical += channel->size;
	communicator->bytes.mapped += channel->size;
	communicator->bytes.reserved += channel->size;
	return leave(0);
}

KEPT static int channel_close(const struct channel *channel)
{
	int r = enter();

	if (!r)
		r = cu.unmap(channel->address, channel->size);
	if (!r)
		r = cu.drop(channel->handle);
	if (!r)
		r = cu.unreserve(channel->address, channel->size);
	return leave(r);
}

API int communicator_open(struct communicator **ret_communicator, int channels, size_t size)
{
	struct communicator *communicator = calloc(1, sizeof(*communicator));
	int r = communicator ? 0 : 2;

	if (!r)
		r = runtime_malloc(&communicator->state, 70000);
	if (!r)
		r = runtime_malloc_host(&communicator->fifo, FIFO);
	for (int i = 0; !r && i < channels && i < CHANNELS; i++)
		r = channel_open(communicator, size);
	if (r)
		return r;
	communicator->bytes.device = 70000;
	communicator->bytes.pinned = FIFO;
	*ret_communicator = communicator;
	return 0;
}

API int communicator_register(struct communicator *communicator, size_t buffer_size)
{
	size_t size = buffer_size / 4096 * 8 + 8;
	int r = communicator->table_count < TABLES ? 0 : 1;

	if (!r)
		r = runtime_malloc(&communicator->tables[communicator->table_count], size);
	if (!r) {
		communicator->table_count++;
		communicator->bytes.device += size;
	}
	return r;
}

API void communicator_bytes(const struct communicator *communicator, struct communicator_bytes *bytes)
{
	*bytes = communicator->bytes;
}

API int communicator_close(struct communicator *communicator)
{
	int r = runtime_free(communicator->state);

	for (int i = 0; !r && i < communicator->table_count; i++)
		r = runtime_free(communicator->tables[i]);
	for (int i = 0; !r && i < communicator->channel_count; i++)
		r = channel_close(&communicator->channels[i]);
	if (!r)
		r = runtime_free_host(communicator->fifo);
	free(communicator);
	return r;
}

/* What NVIDIA's runtime asks the driver for when it is linked in: tables of functions that are nobody else's. */
API int communicator_tables(void)
{
	static const unsigned char id[16] = {0x6b};
	int (*get)(const void **, const void *) =
	    (int (*)(const void **, const void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetExportTable");
	const void *table = NULL;

	return get ? get(&table, id) : -1;
}
