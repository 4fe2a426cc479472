/* SPDX-License-Identifier: MIT
 *
 * The card's used bytes, line by line, each time the driver was asked for the
 * free ones.
 */
#ifndef VS_LEDGER_ACCOUNT_H
#define VS_LEDGER_ACCOUNT_H

#include "ledger/holdings.h"
#include "ledger/summary.h"

struct vs_account { /* one sample with what its sums are made of */
	struct vs_sample sample;
	uint64_t by_owner[VS_OWNERS_MAX]; /* bytes that nobody is known to have asked for are divided up */
	uint64_t pool;                    /* of PyTorch's: in a memory pool of CUDA's */
	uint64_t allocated, reserved;     /* PyTorch's counters then */
};

struct vs_accounts {                              /* of one device; all zero to begin with */
	struct vs_account last, fullest, highest; /* the last two: most used; most device bytes, sampled or not */
	bool open;                                /* `last` still holds: CUDA's part has not changed since */
	uint64_t asked, taken;                    /* of the holdings at the last sample */
	uint64_t seen;                            /* samples, all of them */
	struct vs_sample *samples;
	size_t count, capacity, stride;
	bool others_known;
	uint64_t others; /* the driver's last word on other processes */
	uint64_t highest_device;
};

void vs_accounts_release(struct vs_accounts *accounts);

/* `now` is the instant with PyTorch's counters, `holdings` what CUDA has given out by then. After a MEMINFO event.
 * -ENOMEM. */
int vs_accounts_sample(struct vs_accounts *accounts, const struct vramshim_event *event, const struct vs_point *now,
                       uint64_t total, uint64_t context, const struct vs_holdings *holdings);

/* After a CUDA_ALLOC or CUDA_FREE was accounted for. */
void vs_accounts_cuda(struct vs_accounts *accounts, const struct vs_point *now, uint64_t context,
                      const struct vs_holdings *holdings);

/* After a TORCH_ALLOC or TORCH_FREE. The driver is mostly asked while PyTorch grows a segment, which has no block
 * yet. So a sample is taken to be of the instant, until CUDA's part changes, when PyTorch had handed out the most:
 * the card's bytes are the same, and PyTorch's are told apart as they matter. */
void vs_accounts_torch(struct vs_accounts *accounts, const struct vs_point *now, const struct vs_holdings *holdings);

/* No event comes any more: the last sample is among those kept. */
void vs_accounts_finish(struct vs_accounts *accounts);

/* The account to show: the sample when the card was fullest; where there is none, the highest device bytes. */
const struct vs_account *vs_accounts_shown(const struct vs_accounts *accounts);

#endif
