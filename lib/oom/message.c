/* SPDX-License-Identifier: MIT
 *
 * The wordings, as the libraries' own binaries and sources have them.
 */
#include <errno.h>
#include <string.h>

#include "oom/oom.h"
#include "oom/text.h"

/* No message is longer than this, without blanks; the list of processes is what can be long. */
#define MESSAGE_MAX 16384

static const struct {
	const char *phrase;
	enum vs_oom_source source;
	bool mention; /* also how people and programs speak of an error told elsewhere: a last resort without numbers
	               */
} anchors[] = {
    {"outofmemory.triedtoallocate", VS_OOM_PYTORCH, false},
    {"wouldexceedallowedmemory", VS_OOM_PYTORCH, false}, /* backend:cudaMallocAsync */
    {"outofmemory.allocationwaspreemptivelyrejected", VS_OOM_PYTORCH_REJECTED, false},
    {"[expandablesegmentva]failedtoreserve", VS_OOM_PYTORCH_ADDRESSES, false},
    {"cudaoutofmemory", VS_OOM_PYTORCH, true},
    {"hipoutofmemory", VS_OOM_PYTORCH, true},
    {"xpuoutofmemory", VS_OOM_PYTORCH, true},
    {"outofmemorywhiletryingtoallocate", VS_OOM_XLA, false},
    {"resource_exhausted:failedtoallocaterequestfor", VS_OOM_XLA, false},
    {"ranoutofmemorytryingtoallocate", VS_OOM_XLA, false},
    {"oomwhenallocatingtensorwithshape", VS_OOM_XLA, false},
    {"resource_exhausted:", VS_OOM_XLA, true},
    {"cudaerror:outofmemory", VS_OOM_CUDA, false},
    {"hiperror:outofmemory", VS_OOM_CUDA, false},
    {"cuda_error_out_of_memory", VS_OOM_CUDA, false},
    {"cudaerrormemoryallocation", VS_OOM_CUDA, false},
    {"cublas_status_alloc_failed", VS_OOM_CUDA, false},
    {"cudnn_status_alloc_failed", VS_OOM_CUDA, false},
    {"cudafailure2'outofmemory'", VS_OOM_CUDA, false}, /* NCCL */
    {"cudafailure'outofmemory'", VS_OOM_CUDA, false},
};

enum place { AFTER, BEFORE }; /* the number stands after or before the phrase */

static const struct {
	const char *phrase;
	enum place place;
	enum vs_oom_number number;
} phrases[] = {
    {"triedtoallocate", AFTER, VS_OOM_REQUEST},
    {"requestedsize:", AFTER, VS_OOM_REQUEST},
    {"requested:", AFTER, VS_OOM_REQUEST},
    {"totalcapacityof", AFTER, VS_OOM_TOTAL},
    {"totalcapactyof", AFTER, VS_OOM_TOTAL}, /* so spelled up to 2.1 */
    {"totalcapacity;", BEFORE, VS_OOM_TOTAL},
    {"devicelimit:", AFTER, VS_OOM_TOTAL},
    {"isfree", BEFORE, VS_OOM_FREE},
    {"free;", BEFORE, VS_OOM_FREE},
    {"free(accordingtocuda):", AFTER, VS_OOM_FREE},
    {"isallocatedbypytorch", BEFORE, VS_OOM_ALLOCATED},
    {"alreadyallocated;", BEFORE, VS_OOM_ALLOCATED},
    {"currentlyallocated:", AFTER, VS_OOM_ALLOCATED},
    {"isreservedbypytorchbutunallocated", BEFORE, VS_OOM_UNALLOCATED},
    {"cached)", BEFORE, VS_OOM_UNALLOCATED}, /* 1.3 and before */
    {"reservedintotalbypytorch", BEFORE, VS_OOM_RESERVED},
    {"allocatedinprivatepools", BEFORE, VS_OOM_PRIVATE},
    {"allowed;", BEFORE, VS_OOM_LIMIT},
    {"user-suppliedmemoryfraction):", AFTER, VS_OOM_LIMIT},
    {"thisprocesshas", AFTER, VS_OOM_OWN},
};

/* All numbers of [from, until) that PyTorch's message has. */
static void read_phrases(const struct vs_oom_text *text, size_t from, size_t until, struct vs_oom *oom)
{
	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
		enum vs_oom_number number = phrases[i].number;
		struct vs_oom_span span = vs_oom_text_find(text, from, until, phrases[i].phrase);
		if (span.begin == VS_OOM_NOWHERE || vs_oom_knows(oom, number))
			continue;
		oom->numbers[number] = phrases[i].place == AFTER ? vs_oom_text_size_at(text, span.end, NULL)
		                                                 : vs_oom_text_size_before(text, span.begin);
	}
	/* What is live in private pools is part of the allocated already; their free bytes are counted into
	 * "allocated" by the message (CUDACachingAllocator.cpp), not by torch.cuda.memory_allocated. */
	if (vs_oom_knows(oom, VS_OOM_PRIVATE) && vs_oom_knows(oom, VS_OOM_ALLOCATED))
		oom->numbers[VS_OOM_ALLOCATED] -= oom->numbers[VS_OOM_PRIVATE] < oom->numbers[VS_OOM_ALLOCATED]
		                                      ? oom->numbers[VS_OOM_PRIVATE]
		                                      : oom->numbers[VS_OOM_ALLOCATED];
}

/* "Process 123 has 4.00 GiB memory in use." each. */
static void read_processes(const struct vs_oom_text *text, size_t from, size_t until, struct vs_oom *oom)
{
	uint64_t sum = 0, likely = VS_OOM_UNKNOWN, reserved = oom->numbers[VS_OOM_RESERVED];
	struct vs_oom_span span;

	if (reserved == VS_OOM_UNKNOWN && vs_oom_knows(oom, VS_OOM_ALLOCATED) &&
	    vs_oom_knows(oom, VS_OOM_UNALLOCATED))
		reserved = oom->numbers[VS_OOM_ALLOCATED] + oom->numbers[VS_OOM_UNALLOCATED];
	while ((span = vs_oom_text_find(text, from, until, "process")).begin != VS_OOM_NOWHERE) {
		size_t at = from = span.end;
		while (at < until && text->bytes[at] >= '0' && text->bytes[at] <= '9')
			at++;
		struct vs_oom_span has = vs_oom_text_find(text, at, at + 1, "has");
		if (at == from || has.begin == VS_OOM_NOWHERE)
			continue;
		uint64_t bytes = vs_oom_text_size_at(text, has.end, NULL);
		if (bytes == VS_OOM_UNKNOWN || bytes > (UINT64_C(1) << 60) - sum)
			continue;
		sum += bytes;
		oom->other_processes++;
		if (reserved != VS_OOM_UNKNOWN && bytes >= reserved && bytes < likely)
			likely = bytes;
	}
	if (!oom->other_processes)
		return;
	/* In a container PyTorch does not recognise its own pid in NVML's list. Its process holds at least what
	 * PyTorch reserved. */
	if (!vs_oom_knows(oom, VS_OOM_OWN) && likely != VS_OOM_UNKNOWN) {
		oom->numbers[VS_OOM_OWN] = likely;
		oom->own_guessed = true;
		oom->other_processes--;
		sum -= likely;
	}
	if (oom->other_processes)
		oom->numbers[VS_OOM_OTHERS] = sum;
}

/* "[256,1024,1024]andtypefloat": bytes. */
static uint64_t tensor_bytes(const struct vs_oom_text *text, size_t at)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} types[] = {{"half", 2},  {"bfloat16", 2}, {"float", 4}, {"double", 8},
	             {"int32", 4}, {"int64", 8},    {"int8", 1}};
	unsigned __int128 count = 1;
	size_t from = at;

	if (at >= text->size || text->bytes[at] != '[')
		return VS_OOM_UNKNOWN;
	for (at++; at < text->size && text->bytes[at] != ']' && at - from < 256; at++) {
		uint64_t dimension = 0;
		for (; at < text->size && text->bytes[at] >= '0' && text->bytes[at] <= '9' && dimension < 1u << 31;
		     at++)
			dimension = dimension * 10 + (unsigned)(text->bytes[at] - '0');
		count *= dimension;
		if (at >= text->size || text->bytes[at] != ',' || count > UINT64_C(1) << 57)
			break;
	}
	if (at >= text->size || text->bytes[at] != ']' || count > UINT64_C(1) << 57)
		return VS_OOM_UNKNOWN;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct vs_oom_span span = vs_oom_text_find(text, at + 1, at + 8, "andtype");
		if (span.begin == VS_OOM_NOWHERE)
			break;
		if (vs_oom_text_find(text, span.end, span.end + 1, types[i].name).begin != VS_OOM_NOWHERE)
			return (uint64_t)count * types[i].bytes;
	}
	return VS_OOM_UNKNOWN;
}

/* JAX and TensorFlow: the request in the error, the pool in the log of its allocator before it. */
static void read_xla(const struct vs_oom_text *text, size_t from, size_t until, struct vs_oom *oom)
{
	static const char *const requests[] = {"tryingtoallocate", "allocaterequestfor"};
	struct vs_oom_span span;
	uint64_t limit, used;
	size_t end;

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]) && !vs_oom_knows(oom, VS_OOM_REQUEST); i++) {
		span = vs_oom_text_find(text, from, until, requests[i]);
		if (span.begin != VS_OOM_NOWHERE)
			oom->numbers[VS_OOM_REQUEST] = vs_oom_text_size_at(text, span.end, NULL);
	}
	span = vs_oom_text_find(text, from, until, "oomwhenallocatingtensorwithshape");
	if (span.begin != VS_OOM_NOWHERE && !vs_oom_knows(oom, VS_OOM_REQUEST))
		oom->numbers[VS_OOM_REQUEST] = tensor_bytes(text, span.end);
	span = vs_oom_text_find_last(text, until, "limit:");
	if (span.begin == VS_OOM_NOWHERE)
		return;
	limit = vs_oom_text_size_at(text, span.end, &end);
	span = vs_oom_text_find(text, end, end + 1, "inuse:");
	used = span.begin == VS_OOM_NOWHERE ? VS_OOM_UNKNOWN : vs_oom_text_size_at(text, span.end, NULL);
	if (limit == VS_OOM_UNKNOWN || used == VS_OOM_UNKNOWN)
		return;
	oom->numbers[VS_OOM_LIMIT] = limit;
	oom->numbers[VS_OOM_ALLOCATED] = used;
	oom->numbers[VS_OOM_UNALLOCATED] = limit > used ? limit - used : 0;
}

static void read_at(const struct vs_oom_text *text, size_t at, size_t until, enum vs_oom_source source,
                    struct vs_oom *ret_oom)
{
	vs_oom_init(ret_oom, source);
	switch (source) {
	case VS_OOM_PYTORCH:
		ret_oom->absurd =
		    vs_oom_text_find(text, at, until, "triedtoallocatemorethan1eb").begin != VS_OOM_NOWHERE;
		/* fall through */
	case VS_OOM_PYTORCH_REJECTED:
		read_phrases(text, at, until, ret_oom);
		read_processes(text, at, until, ret_oom);
		break;
	case VS_OOM_XLA:
		read_xla(text, at, until, ret_oom);
		break;
	default:
		break;
	}
	vs_oom_complete(ret_oom);
}

struct candidate {
	size_t at;
	enum vs_oom_source source;
};

/* The last anchor; mentions count only with `mentions`. */
static struct candidate last_anchor(const struct vs_oom_text *text, bool mentions)
{
	struct candidate last = {VS_OOM_NOWHERE, VS_OOM_CUDA};

	for (size_t i = 0; i < sizeof(anchors) / sizeof(anchors[0]); i++) {
		struct vs_oom_span span = {VS_OOM_NOWHERE, VS_OOM_NOWHERE};
		if (!anchors[i].mention || mentions)
			span = vs_oom_text_find_last(text, text->size, anchors[i].phrase);
		if (span.begin != VS_OOM_NOWHERE && (last.at == VS_OOM_NOWHERE || span.begin > last.at))
			last = (struct candidate){span.begin, anchors[i].source};
	}
	return last;
}

int vs_oom_read_message(const char *text, size_t size, struct vs_oom *ret_oom)
{
	struct vs_oom_text clean;
	struct candidate last;
	int r = vs_oom_text_read(text, size, &clean);

	if (r < 0)
		return r;
	last = last_anchor(&clean, false);
	if (last.at == VS_OOM_NOWHERE)
		last = last_anchor(&clean, true);
	if (last.at == VS_OOM_NOWHERE)
		r = -ENODATA;
	else
		read_at(&clean, last.at, clean.size - last.at > MESSAGE_MAX ? last.at + MESSAGE_MAX : clean.size,
		        last.source, ret_oom);
	vs_oom_text_free(&clean);
	return r;
}
