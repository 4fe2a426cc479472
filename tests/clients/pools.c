/* SPDX-License-Identifier: MIT
 *
 * A service that answers requests: scratch memory from pools, with and without a threshold, a step captured into a
 * graph with its own memory and launched again and again, and a graph that hands a buffer out.
 */
#include "client.h"
#include "runtime.h"

#define MIB ((size_t)1 << 20)

enum { THRESHOLD = 4, RESERVED_NOW = 5 }; /* cudaMemPoolAttr */
enum { GRAPH_RESERVED_NOW = 2 };          /* cudaGraphMemAttributeType */
enum { REQUESTS = 6, LAUNCHES = 50, NON_BLOCKING = 1 };

static struct client_books books;
static void *own, *standard;

static uint64_t attribute(void *pool, int which)
{
	uint64_t value;

	CHECK(cudaMemPoolGetAttribute(pool, which, &value));
	return value;
}

/* What pools and graphs have from the card they say themselves; what is in use of it, the program knows. */
static void mark(const char *name)
{
	size_t available, total;
	uint64_t graphs;

	CHECK(cudaDeviceGetGraphMemAttribute(0, GRAPH_RESERVED_NOW, &graphs));
	books.bytes[VRAMSHIM_MEMORY_GRAPHS] = graphs;
	books.bytes[VRAMSHIM_MEMORY_HELD] =
	    attribute(standard, RESERVED_NOW) + (own ? attribute(own, RESERVED_NOW) : 0);
	CHECK(cudaMemGetInfo(&available, &total));
	books.used = total - available;
	client_mark(name, &books);
}

static void *take(size_t size, void *pool, void *stream)
{
	void *pointer;

	CHECK(pool ? cudaMallocFromPoolAsync(&pointer, size, pool, stream) : cudaMallocAsync(&pointer, size, stream));
	books.bytes[VRAMSHIM_MEMORY_POOL] += size;
	return pointer;
}

static void give(void *pointer, size_t size, void *stream)
{
	CHECK(cudaFreeAsync(pointer, stream));
	books.bytes[VRAMSHIM_MEMORY_POOL] -= size;
}

static void requests(void *stream)
{
	static const size_t sizes[REQUESTS] = {700, 3000000, 20 * MIB, 5 * MIB + 1, 100000, 64 * MIB};
	void *buffers[REQUESTS];

	for (int i = 0; i < REQUESTS; i++)
		buffers[i] = take(sizes[i], i % 2 ? own : NULL, stream);
	mark("at work");
	for (int i = 0; i < REQUESTS; i++)
		give(buffers[(i * 5 + 2) % REQUESTS], sizes[(i * 5 + 2) % REQUESTS], stream);
	CHECK(cudaStreamSynchronize(stream));
	mark("idle");
}

/* Memory that comes and goes inside the graph. */
static void *captured(void *stream)
{
	void *graph, *executable, *a, *b;

	CHECK(cudaStreamBeginCapture(stream, 1));
	CHECK(cudaMallocAsync(&a, 10 * MIB, stream));
	CHECK(cudaMallocAsync(&b, 3 * MIB, stream));
	CHECK(cudaMemsetAsync(a, 0, 10 * MIB, stream));
	CHECK(cudaFreeAsync(b, stream));
	CHECK(cudaFreeAsync(a, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return executable;
}

/* ... that the program frees, after each launch. */
static void *handing_out(void **ret_buffer)
{
	struct cudaMemAllocNodeParams params = {.poolProps = {.allocType = 1, .location = {1, 0}},
	                                        .bytesize = 7 * MIB};
	void *graph, *executable, *node;

	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	*ret_buffer = params.dptr;
	return executable;
}

int main(void)
{
	const struct cudaMemPoolProps props = {.allocType = 1, .location = {1, 0}};
	uint64_t keep = 32 * MIB;
	void *stream, *inner, *outer, *buffer, *result, *answer;

	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamCreateWithFlags(&stream, NON_BLOCKING));
	CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
	CHECK(cudaMemPoolCreate(&own, &props));
	CHECK(cudaMemPoolSetAttribute(own, THRESHOLD, &keep));
	requests(stream);
	requests(stream);

	inner = captured(stream);
	outer = handing_out(&buffer);
	mark("captured");
	for (int i = 0; i < LAUNCHES; i++)
		CHECK(cudaGraphLaunch(inner, stream));
	CHECK(cudaGraphLaunch(outer, stream));
	mark("launched");
	result = take(90 * MIB, NULL, stream);
	client_work();
	CHECK(cudaMalloc(&answer, 1000));
	books.bytes[VRAMSHIM_MEMORY_DEVICE] += 1000;
	mark("fullest");

	/* The buffer of the last launch is used by the next one only when it was freed. */
	if (!cudaGraphLaunch(outer, stream))
		return 1;
	CHECK(cudaFreeAsync(buffer, stream));
	CHECK(cudaGraphLaunch(outer, stream));
	CHECK(cudaFreeAsync(buffer, stream));
	mark("launched again");
	CHECK(cudaGraphExecDestroy(inner));
	CHECK(cudaGraphExecDestroy(outer));
	CHECK(cudaDeviceGraphMemTrim(0));
	mark("graphs gone");

	give(result, 90 * MIB, stream);
	CHECK(cudaStreamSynchronize(stream));
	mark("trimmed by itself");
	keep = 8 * MIB;
	CHECK(cudaMemPoolTrimTo(own, keep));
	mark("trimmed");
	CHECK(cudaMemPoolDestroy(own));
	own = NULL;
	CHECK(cudaFree(answer));
	books.bytes[VRAMSHIM_MEMORY_DEVICE] -= 1000;
	CHECK(cudaStreamDestroy(stream));
	mark("over");
	CHECK(cudaDeviceReset());
	return 0;
}
