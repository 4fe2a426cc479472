/* SPDX-License-Identifier: MIT
 *
 * Holds a trace of sequence.c against the marks in it: check TRACE. At each mark "books USED0 USED1 ..." the ledger's
 * bytes of each device must be the device's own; at the mark "empty" nothing but contexts is left. Exit status 1
 * where they differ.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/cuda.h"
#include "ledger/resolve.h"
#include <vramshim/trace.h>

enum { DEVICES = 2, KINDS = VRAMSHIM_MEMORY_GRAPHS + 1 };

struct books {
	struct vs_cuda cuda[DEVICES];
	uint64_t contexts[DEVICES];
	uint64_t alive[KINDS]; /* pieces */
	bool gave;             /* something ended by the event at hand */
};

static int plain_event(void *user, const struct vramshim_event *event)
{
	struct books *books = user;
	bool got = event->type == VRAMSHIM_CUDA_ALLOC;

	books->alive[event->memory] += got ? 1 : UINT64_MAX;
	books->gave |= !got;
	if (event->device < 0 || event->device >= DEVICES)
		return 0;
	if (event->memory == VRAMSHIM_MEMORY_CONTEXT)
		books->contexts[event->device] += got ? event->size : -event->size;
	return vs_cuda_event(&books->cuda[event->device], event, VS_OWNER_NOBODY);
}

static unsigned compare(const struct books *books, const char *mark, uint64_t sequence)
{
	unsigned wrong = 0;
	char *at = (char *)mark + strlen("books");

	for (int device = 0; device < DEVICES; device++) {
		uint64_t used = strtoull(at, &at, 10);
		uint64_t ours = books->contexts[device] + books->cuda[device].holdings.taken;

		if (used == ours)
			continue;
		if (!wrong++)
			printf("after event %" PRIu64 ": device %d has %" PRIu64 " bytes in use, the ledger %" PRIu64
			       " (%+" PRId64 ")\n",
			       sequence, device, used, ours, (int64_t)(ours - used));
	}
	return wrong != 0;
}

static unsigned compare_empty(const struct books *books)
{
	unsigned wrong = 0;

	for (int kind = 1; kind < KINDS; kind++) {
		/* A pool or graph that has nothing is there all the same. */
		if (!books->alive[kind] || kind == VRAMSHIM_MEMORY_CONTEXT || kind == VRAMSHIM_MEMORY_HELD ||
		    kind == VRAMSHIM_MEMORY_GRAPHS)
			continue;
		printf("at the end %" PRIu64 " of memory kind %d are left\n", books->alive[kind], kind);
		wrong++;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	struct vramshim_trace *trace;
	struct vramshim_event event;
	struct vs_resolver resolver = {0};
	struct books books = {0};
	uint64_t events = 0, refused = 0, twice = 0;
	unsigned marks = 0, wrong = 0;
	bool ended = false;

	if (argc != 2 || vramshim_trace_open(argv[1], &trace) < 0)
		return 2;
	while (vramshim_trace_next(trace, &event) > 0) {
		const char *mark = event.type == VRAMSHIM_MARK ? vramshim_trace_string(trace, event.name) : NULL;

		events++;
		refused += event.type == VRAMSHIM_CUDA_FAIL;
		books.gave = false;
		if (vs_resolve(&resolver, &event, plain_event, &books))
			return 2;
		/* An allocation where there is one: either is counted twice. What pools have comes anew each time. */
		twice += event.type == VRAMSHIM_CUDA_ALLOC && books.gave && event.memory != VRAMSHIM_MEMORY_HELD &&
		         event.memory != VRAMSHIM_MEMORY_GRAPHS;
		if (mark && !strncmp(mark, "books", strlen("books"))) {
			marks++;
			wrong += compare(&books, mark, event.sequence);
		} else if (mark && !strcmp(mark, "empty")) {
			wrong += compare_empty(&books);
			ended = true;
		}
	}
	if (!ended || vramshim_trace_info(trace)->lost) {
		printf("the trace is not whole\n");
		wrong++;
	}
	printf("%" PRIu64 " events, %" PRIu64 " refusals, %" PRIu64
	       " counted twice; the ledger equals the device's books "
	       "at %u of %u instants\n",
	       events, refused, twice, marks - (wrong < marks ? wrong : marks), marks);
	vs_resolver_release(&resolver);
	for (int device = 0; device < DEVICES; device++)
		vs_cuda_release(&books.cuda[device]);
	vramshim_trace_close(trace);
	return wrong || twice || !marks;
}
