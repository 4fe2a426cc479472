/* SPDX-License-Identifier: MIT
 *
 * The account of a program as its trace tells it: books TRACE. One line a mark, as the program itself writes it.
 */
#include <string.h>

#include "client.h"
#include "ledger/cuda.h"
#include "ledger/resolve.h"
#include <vramshim/trace.h>

struct account {
	struct client_books books;
	struct vs_cuda cuda;
};

static int plain_event(void *user, const struct vramshim_event *event)
{
	struct account *account = user;

	account->books.bytes[event->memory] += event->type == VRAMSHIM_CUDA_ALLOC ? event->size : -event->size;
	return event->device == 0 ? vs_cuda_event(&account->cuda, event, VS_OWNER_NOBODY) : 0;
}

int main(int argc, char **argv)
{
	struct vramshim_trace *trace;
	struct vramshim_event event;
	struct vs_resolver resolver = {0};
	struct account account = {0};

	if (argc != 2 || vramshim_trace_open(argv[1], &trace) < 0)
		return 2;
	while (vramshim_trace_next(trace, &event) > 0) {
		if (vs_resolve(&resolver, &event, plain_event, &account))
			return 2;
		if (event.type != VRAMSHIM_MARK)
			continue;
		account.books.used = account.books.bytes[VRAMSHIM_MEMORY_CONTEXT] + account.cuda.holdings.taken;
		client_print(stdout, vramshim_trace_string(trace, event.name), &account.books);
	}
	vs_resolver_release(&resolver);
	vs_cuda_release(&account.cuda);
	vramshim_trace_close(trace);
	return 0;
}
