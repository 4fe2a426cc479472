/* SPDX-License-Identifier: MIT
 *
 * Why memory ran out: the numbers of the moment, and what they imply.
 */
#ifndef VS_OOM_OOM_H
#define VS_OOM_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_OOM_UNKNOWN UINT64_MAX

/* Bytes. */
enum vs_oom_number {
	VS_OOM_REQUEST,     /* what was asked of the driver: PyTorch asks for whole segments, not for tensors */
	VS_OOM_TOTAL,       /* of the card */
	VS_OOM_FREE,        /* on the card, after all caches were given back */
	VS_OOM_ALLOCATED,   /* in blocks handed out, as torch.cuda.memory_allocated counts */
	VS_OOM_RESERVED,    /* held from CUDA by the framework's allocator */
	VS_OOM_UNALLOCATED, /* ... of it, free for any tensor */
	VS_OOM_PRIVATE,     /* ... of it, free in private pools (CUDA graphs): for those alone */
	VS_OOM_LIMIT,       /* the process may not reserve more than this */
	VS_OOM_OWN,         /* all that this process holds on the card */
	VS_OOM_OTHERS,      /* ... that other processes hold: named ones, or what is left of the used bytes */
	VS_OOM_OUTSIDE,     /* on the card beyond the reserve, but for OTHERS: context, libraries, who knows */
	VS_OOM_SHORTFALL,   /* request - free - unallocated, or 0 */
	VS_OOM_NUMBERS
};

enum vs_oom_source {
	VS_OOM_PYTORCH,
	VS_OOM_PYTORCH_REJECTED,  /* refused before the driver was asked: above the process's own limit */
	VS_OOM_PYTORCH_ADDRESSES, /* address space for expandable segments ran out, not memory */
	VS_OOM_XLA,               /* JAX, TensorFlow */
	VS_OOM_CUDA,              /* CUDA or a library on it; of an error's text alone, without numbers */
	VS_OOM_PLAIN,             /* CUDA, in a process without PyTorch: ALLOCATED is what it holds from CUDA */
};

struct vs_oom {
	enum vs_oom_source source;
	uint64_t numbers[VS_OOM_NUMBERS]; /* VS_OOM_UNKNOWN where there is none */
	unsigned other_processes;         /* named */
	bool others_inferred; /* OTHERS is what is used and not known to be this process's: some of it may be */
	bool own_guessed;     /* a named process is taken for this one: seen from a container, pids differ */
	bool expandable;      /* expandable segments are known to be on */
	bool absurd;          /* more than 2^60 bytes were asked for */
};

enum vs_oom_cause {
	VS_OOM_CAUSE_REQUEST,
	VS_OOM_CAUSE_LIMIT,
	VS_OOM_CAUSE_FRAGMENTATION,
	VS_OOM_CAUSE_OTHER_PROCESS,
	VS_OOM_CAUSE_OUTSIDE,
	VS_OOM_CAUSE_FULL,
	VS_OOM_CAUSE_UNKNOWN,
	VS_OOM_CAUSES
};

/* All numbers unknown. */
void vs_oom_init(struct vs_oom *oom, enum vs_oom_source source);

/* The last out-of-memory error of a text: of PyTorch 1.3 to 2.15, JAX, TensorFlow, CUDA and its libraries, with
 * whatever is around it: wrapped lines, prefixes of loggers, colours, other languages. Numbers that the text does not
 * give are unknown. -ENODATA: the text has no such error; -ENOMEM. Time and memory grow with `size` alone. */
int vs_oom_read_message(const char *text, size_t size, struct vs_oom *ret_oom);

/* Fill in the numbers that follow from others: RESERVED, UNALLOCATED, OUTSIDE, SHORTFALL. Twice is once. */
void vs_oom_complete(struct vs_oom *oom);

/* The first cause that holds, in the order of the enum. The numbers must be complete. */
enum vs_oom_cause vs_oom_judge(const struct vs_oom *oom);

/* Static: "request_too_large", "limit", ... Never changed. */
const char *vs_oom_cause_name(enum vs_oom_cause cause);

static inline bool vs_oom_knows(const struct vs_oom *oom, enum vs_oom_number number)
{
	return oom->numbers[number] != VS_OOM_UNKNOWN;
}

#endif
