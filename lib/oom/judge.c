/* SPDX-License-Identifier: MIT */
#include "oom/oom.h"

/* What a context and the libraries of a job ordinarily take; more than that is worth a word. */
#define OUTSIDE_ORDINARY (UINT64_C(1) << 30)

void vs_oom_init(struct vs_oom *oom, enum vs_oom_source source)
{
	*oom = (struct vs_oom){.source = source};
	for (unsigned i = 0; i < VS_OOM_NUMBERS; i++)
		oom->numbers[i] = VS_OOM_UNKNOWN;
}

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

/* 0 for an unknown number: where it only adds to a sum. */
static uint64_t or_zero(uint64_t number)
{
	return number == VS_OOM_UNKNOWN ? 0 : number;
}

void vs_oom_complete(struct vs_oom *oom)
{
	uint64_t *n = oom->numbers;

	if (!vs_oom_knows(oom, VS_OOM_RESERVED) && vs_oom_knows(oom, VS_OOM_ALLOCATED) &&
	    vs_oom_knows(oom, VS_OOM_UNALLOCATED))
		n[VS_OOM_RESERVED] = n[VS_OOM_ALLOCATED] + n[VS_OOM_UNALLOCATED] + or_zero(n[VS_OOM_PRIVATE]);
	if (!vs_oom_knows(oom, VS_OOM_UNALLOCATED) && vs_oom_knows(oom, VS_OOM_RESERVED) &&
	    vs_oom_knows(oom, VS_OOM_ALLOCATED))
		n[VS_OOM_UNALLOCATED] = less(n[VS_OOM_RESERVED], n[VS_OOM_ALLOCATED] + or_zero(n[VS_OOM_PRIVATE]));
	if (!vs_oom_knows(oom, VS_OOM_OUTSIDE) && vs_oom_knows(oom, VS_OOM_RESERVED)) {
		if (vs_oom_knows(oom, VS_OOM_TOTAL) && vs_oom_knows(oom, VS_OOM_FREE))
			n[VS_OOM_OUTSIDE] =
			    less(n[VS_OOM_TOTAL], n[VS_OOM_FREE] + n[VS_OOM_RESERVED] + or_zero(n[VS_OOM_OTHERS]));
		else if (vs_oom_knows(oom, VS_OOM_OWN))
			n[VS_OOM_OUTSIDE] = less(n[VS_OOM_OWN], n[VS_OOM_RESERVED]);
	}
	if (!vs_oom_knows(oom, VS_OOM_SHORTFALL) && vs_oom_knows(oom, VS_OOM_REQUEST) &&
	    vs_oom_knows(oom, VS_OOM_FREE))
		n[VS_OOM_SHORTFALL] = less(n[VS_OOM_REQUEST], n[VS_OOM_FREE] + or_zero(n[VS_OOM_UNALLOCATED]));
}

/* At least `least` bytes, known to be. */
static bool at_least(const struct vs_oom *oom, enum vs_oom_number number, uint64_t least)
{
	return vs_oom_knows(oom, number) && oom->numbers[number] >= least;
}

enum vs_oom_cause vs_oom_judge(const struct vs_oom *oom)
{
	const uint64_t *n = oom->numbers;
	bool request = vs_oom_knows(oom, VS_OOM_REQUEST), total = vs_oom_knows(oom, VS_OOM_TOTAL);
	bool limit = vs_oom_knows(oom, VS_OOM_LIMIT);
	/* JAX and TensorFlow tell their pool's size, not the card's; a PyTorch snapshot neither: then it is at least
	 * what PyTorch has and could have. */
	uint64_t room = total ? n[VS_OOM_TOTAL] : limit ? n[VS_OOM_LIMIT] : 0;

	if (!room && vs_oom_knows(oom, VS_OOM_RESERVED) && vs_oom_knows(oom, VS_OOM_FREE))
		room = n[VS_OOM_RESERVED] + n[VS_OOM_FREE];

	if (oom->absurd || (request && total && n[VS_OOM_REQUEST] > n[VS_OOM_TOTAL]))
		return VS_OOM_CAUSE_REQUEST;
	if (oom->source == VS_OOM_PYTORCH_REJECTED || oom->source == VS_OOM_PYTORCH_ADDRESSES ||
	    (request && at_least(oom, VS_OOM_FREE, n[VS_OOM_REQUEST] + 1)) ||
	    (request && !total && limit && n[VS_OOM_REQUEST] > n[VS_OOM_LIMIT]))
		return VS_OOM_CAUSE_LIMIT;
	if (request && room && at_least(oom, VS_OOM_UNALLOCATED, n[VS_OOM_REQUEST]) &&
	    vs_oom_knows(oom, VS_OOM_ALLOCATED) && n[VS_OOM_ALLOCATED] + n[VS_OOM_REQUEST] <= room)
		return VS_OOM_CAUSE_FRAGMENTATION;
	if (vs_oom_knows(oom, VS_OOM_SHORTFALL)) {
		uint64_t others = vs_oom_knows(oom, VS_OOM_OTHERS) ? n[VS_OOM_OTHERS] : 0;
		uint64_t least = oom->others_inferred ? OUTSIDE_ORDINARY + 1 : 1;
		if (others >= least && others >= n[VS_OOM_SHORTFALL])
			return VS_OOM_CAUSE_OTHER_PROCESS;
		if (at_least(oom, VS_OOM_OUTSIDE, OUTSIDE_ORDINARY + 1) && n[VS_OOM_OUTSIDE] >= n[VS_OOM_SHORTFALL])
			return VS_OOM_CAUSE_OUTSIDE;
	}
	if (request && room && vs_oom_knows(oom, VS_OOM_ALLOCATED) &&
	    (vs_oom_knows(oom, VS_OOM_SHORTFALL) || n[VS_OOM_ALLOCATED] + n[VS_OOM_REQUEST] > room))
		return VS_OOM_CAUSE_FULL;
	return VS_OOM_CAUSE_UNKNOWN;
}

const char *vs_oom_cause_name(enum vs_oom_cause cause)
{
	static const char *const names[] = {
	    [VS_OOM_CAUSE_REQUEST] = "request_too_large",
	    [VS_OOM_CAUSE_LIMIT] = "limit",
	    [VS_OOM_CAUSE_FRAGMENTATION] = "fragmentation",
	    [VS_OOM_CAUSE_OTHER_PROCESS] = "other_process",
	    [VS_OOM_CAUSE_OUTSIDE] = "outside_pytorch",
	    [VS_OOM_CAUSE_FULL] = "full",
	    [VS_OOM_CAUSE_UNKNOWN] = "unknown",
	};

	return names[(unsigned)cause < VS_OOM_CAUSES ? cause : VS_OOM_CAUSE_UNKNOWN];
}
