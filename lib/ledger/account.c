/* SPDX-License-Identifier: MIT */
#include "ledger/account.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void vs_accounts_release(struct vs_accounts *accounts)
{
	free(accounts->samples);
	*accounts = (struct vs_accounts){0};
}

/* The lines that are known from what was recorded. */
static void fill(struct vs_account *account, uint64_t context, const struct vs_holdings *holdings)
{
	uint64_t nobody = holdings->by_owner[VS_OWNER_NOBODY], *by_owner = account->by_owner;
	uint64_t lacking;

	memcpy(by_owner, holdings->by_owner, sizeof(account->by_owner));
	/* Without a native stack it was PyTorch as far as that has reserved more than is known to be its own. */
	lacking = account->reserved > by_owner[VS_OWNER_PYTORCH] ? account->reserved - by_owner[VS_OWNER_PYTORCH] : 0;
	if (lacking > nobody)
		lacking = nobody;
	by_owner[VS_OWNER_NOBODY] = 0;
	by_owner[VS_OWNER_PYTORCH] += lacking;
	by_owner[VS_OWNER_OTHER] += nobody - lacking;
	account->pool = holdings->pytorch_pool;
	account->sample.context = context;
	account->sample.pytorch = by_owner[VS_OWNER_PYTORCH];
	account->sample.libraries = holdings->asked - by_owner[VS_OWNER_PYTORCH];
	/* Between a block of a pool and what the pool says of itself, more may be asked for than is taken. */
	account->sample.rounding = holdings->taken > holdings->asked ? holdings->taken - holdings->asked : 0;
	account->sample.managed = holdings->managed;
	account->sample.idle = holdings->held > holdings->used ? holdings->held - holdings->used : 0;
	if (account->sample.idle > account->sample.rounding)
		account->sample.idle = account->sample.rounding;
}

static void balance(struct vs_sample *sample)
{
	uint64_t known = sample->context + sample->pytorch + sample->libraries + sample->rounding + sample->others;

	sample->unexplained = (int64_t)(sample->used - known);
}

void vs_accounts_finish(struct vs_accounts *accounts)
{
	size_t count = accounts->count;

	if (!count || accounts->samples[count - 1].sequence == accounts->last.sample.sequence)
		return;
	if (count == VS_SAMPLES_MAX ||
	    vs_grow(&accounts->samples, &accounts->capacity, count + 1, sizeof(*accounts->samples)))
		count--; /* in place of the one before it */
	accounts->samples[count] = accounts->last.sample;
	accounts->count = count + 1;
}

static int keep(struct vs_accounts *accounts)
{
	size_t kept = 0;

	if (!accounts->stride)
		accounts->stride = 1;
	if ((accounts->seen - 1) % accounts->stride)
		return 0;
	if (accounts->count == VS_SAMPLES_MAX) {
		for (size_t i = 0; i < accounts->count; i += 2)
			accounts->samples[kept++] = accounts->samples[i];
		accounts->count = kept;
		accounts->stride *= 2;
		if ((accounts->seen - 1) % accounts->stride)
			return 0;
	}
	if (vs_grow(&accounts->samples, &accounts->capacity, accounts->count + 1, sizeof(*accounts->samples)))
		return -ENOMEM;
	accounts->samples[accounts->count++] = accounts->last.sample;
	return 0;
}

/* Of instants when the card was equally full, the one with more in tensors. */
static bool is_fuller(const struct vs_account *account, const struct vs_account *other)
{
	if (account->sample.used != other->sample.used)
		return account->sample.used > other->sample.used;
	return account->allocated >= other->allocated;
}

static struct vs_account begin(const struct vs_point *now)
{
	return (struct vs_account){
	    .sample = {.sequence = now->sequence, .time_ns = now->time_ns, .step = now->step, .phase = now->phase},
	    .allocated = now->allocated,
	    .reserved = now->reserved,
	};
}

int vs_accounts_sample(struct vs_accounts *accounts, const struct vramshim_event *event, const struct vs_point *now,
                       uint64_t total, uint64_t context, const struct vs_holdings *holdings)
{
	struct vs_account *last = &accounts->last;

	if (event->allocated) { /* other processes were asked for as well */
		accounts->others = event->reserved;
		accounts->others_known = true;
	}
	*last = begin(now);
	last->sample.used = total - event->size;
	last->sample.own = event->allocated;
	last->sample.others = accounts->others;
	last->sample.others_known = accounts->others_known;
	fill(last, context, holdings);
	balance(&last->sample);
	accounts->open = true;
	accounts->asked = holdings->asked;
	accounts->taken = holdings->taken;
	accounts->seen++;
	if (is_fuller(last, &accounts->fullest))
		accounts->fullest = *last;
	return keep(accounts);
}

void vs_accounts_cuda(struct vs_accounts *accounts, const struct vs_point *now, uint64_t context,
                      const struct vs_holdings *holdings)
{
	if (holdings->asked != accounts->asked || holdings->taken != accounts->taken)
		accounts->open = false;
	if (context + holdings->taken <= accounts->highest_device)
		return;
	accounts->highest_device = context + holdings->taken;
	accounts->highest = begin(now);
	fill(&accounts->highest, context, holdings);
}

/* Move an account to an instant at which CUDA's side is the same. */
static void settle(struct vs_account *account, const struct vs_point *now, const struct vs_holdings *holdings)
{
	account->sample.sequence = now->sequence;
	account->sample.step = now->step;
	account->sample.phase = now->phase;
	account->allocated = now->allocated;
	account->reserved = now->reserved;
	fill(account, account->sample.context, holdings);
}

void vs_accounts_torch(struct vs_accounts *accounts, const struct vs_point *now, const struct vs_holdings *holdings)
{
	uint64_t sampled = accounts->last.sample.sequence;

	if (accounts->highest_device == accounts->highest.sample.context + holdings->taken &&
	    accounts->highest.reserved != now->reserved)
		settle(&accounts->highest, now, holdings);
	/* A growth of PyTorch's reserve shows in its next report, whatever that is of. */
	if (!accounts->open ||
	    (now->allocated <= accounts->last.allocated && now->reserved == accounts->last.reserved))
		return;
	settle(&accounts->last, now, holdings);
	if (accounts->fullest.sample.sequence == sampled || is_fuller(&accounts->last, &accounts->fullest))
		accounts->fullest = accounts->last;
	if (accounts->count && accounts->samples[accounts->count - 1].sequence == sampled)
		accounts->samples[accounts->count - 1] = accounts->last.sample;
}

const struct vs_account *vs_accounts_shown(const struct vs_accounts *accounts)
{
	return accounts->seen ? &accounts->fullest : &accounts->highest;
}
