/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ledger/account.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 2 << 20, TOTAL = 1 << 30, CONTEXT = 12345 };

struct world { /* a card and what is on it */
	struct vs_accounts accounts;
	struct vs_holdings holdings;
	struct vs_point now;
	uint64_t others, unseen;
};

static void get(struct world *world, uint64_t address, uint64_t size, uint8_t owner)
{
	assert_int_equal(vs_holdings_add(&world->holdings, VRAMSHIM_MEMORY_DEVICE, address, size, owner), 0);
	world->now.sequence++;
	vs_accounts_cuda(&world->accounts, &world->now, CONTEXT, &world->holdings);
}

static void put(struct world *world, uint64_t address, uint64_t size, uint8_t owner)
{
	vs_holdings_remove(&world->holdings, VRAMSHIM_MEMORY_DEVICE, address, size, owner);
	world->now.sequence++;
	vs_accounts_cuda(&world->accounts, &world->now, CONTEXT, &world->holdings);
}

static void sample(struct world *world, bool asked_nvml)
{
	uint64_t own = CONTEXT + world->holdings.taken + world->unseen;
	struct vramshim_event event = {.type = VRAMSHIM_MEMINFO, .size = TOTAL - own - world->others};

	if (asked_nvml) {
		event.allocated = own;
		event.reserved = world->others;
	}
	event.sequence = ++world->now.sequence;
	assert_int_equal(vs_accounts_sample(&world->accounts, &event, &world->now, TOTAL, CONTEXT, &world->holdings),
	                 0);
}

static void report(struct world *world, uint64_t allocated, uint64_t reserved)
{
	world->now.sequence++;
	world->now.allocated = allocated;
	world->now.reserved = reserved;
	vs_accounts_torch(&world->accounts, &world->now, &world->holdings);
}

static void assert_balanced(const struct vs_sample *sample)
{
	assert_int_equal(sample->used, sample->context + sample->pytorch + sample->libraries + sample->rounding +
	                                   sample->others + (uint64_t)sample->unexplained);
}

/* Of very many samples some are left out evenly; the last stays. */
static void test_many(void **state)
{
	struct world world = {.others = 7, .unseen = 9};
	const struct vs_account *shown;

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		get(&world, (uint64_t)(i + 1) * PAGE, 100000, VS_OWNER_NCCL);
		sample(&world, i % 3 == 0);
		if (i % 2)
			put(&world, (uint64_t)(i + 1) * PAGE, 100000, VS_OWNER_NCCL);
		else if (i > 200)
			put(&world, (uint64_t)(i + 1 - 200) * PAGE, 100000, VS_OWNER_NCCL);
	}
	vs_accounts_finish(&world.accounts);
	assert_int_equal(world.accounts.seen, 5000);
	assert_in_range(world.accounts.count, VS_SAMPLES_MAX / 2, VS_SAMPLES_MAX);
	for (size_t i = 0; i < world.accounts.count; i++) {
		const struct vs_sample *at = &world.accounts.samples[i];

		assert_balanced(at);
		assert_int_equal(at->unexplained, 9);
		assert_int_equal(at->others, 7);
		assert_true(!i || at->sequence > world.accounts.samples[i - 1].sequence);
	}
	assert_int_equal(world.accounts.samples[world.accounts.count - 1].sequence,
	                 world.accounts.last.sample.sequence);
	shown = vs_accounts_shown(&world.accounts);
	assert_balanced(&shown->sample);
	for (size_t i = 0; i < world.accounts.count; i++)
		assert_true(world.accounts.samples[i].used <= shown->sample.used);
	vs_accounts_finish(&world.accounts); /* once more changes nothing */
	assert_true(world.accounts.count <= VS_SAMPLES_MAX);
	vs_accounts_release(&world.accounts);
	vs_holdings_release(&world.holdings);
}

/* The driver is asked while PyTorch grows a segment; its first block completes the picture. */
static void test_settles(void **state)
{
	struct world world = {0};
	const struct vs_account *shown;

	(void)state;
	get(&world, PAGE, 10 * PAGE, VS_OWNER_PYTORCH);
	sample(&world, true);
	shown = vs_accounts_shown(&world.accounts);
	assert_int_equal(shown->allocated, 0);
	report(&world, 3 * PAGE, 10 * PAGE);
	shown = vs_accounts_shown(&world.accounts);
	assert_int_equal(shown->sample.sequence, 3);
	assert_int_equal(shown->allocated, 3 * PAGE);
	assert_int_equal(world.accounts.samples[0].sequence, 3);
	/* On to more in tensors, not back, and no further when CUDA's part has changed. */
	report(&world, 4 * PAGE, 10 * PAGE);
	report(&world, 2 * PAGE, 10 * PAGE);
	shown = vs_accounts_shown(&world.accounts);
	assert_int_equal(shown->allocated, 4 * PAGE);
	assert_int_equal(shown->sample.sequence, 4);
	/* Equally full with less in tensors: no news. */
	sample(&world, true);
	assert_int_equal(vs_accounts_shown(&world.accounts)->allocated, 4 * PAGE);
	put(&world, PAGE, 10 * PAGE, VS_OWNER_PYTORCH);
	report(&world, 5 * PAGE, 10 * PAGE);
	assert_int_equal(vs_accounts_shown(&world.accounts)->allocated, 4 * PAGE);
	get(&world, PAGE, 11 * PAGE, VS_OWNER_PYTORCH);
	sample(&world, true);
	assert_int_equal(vs_accounts_shown(&world.accounts)->allocated, 5 * PAGE);
	assert_balanced(&vs_accounts_shown(&world.accounts)->sample);
	vs_accounts_release(&world.accounts);
	vs_holdings_release(&world.holdings);
}

/* Allocations without a native stack: PyTorch's as far as it has reserved, the rest others'. */
static void test_nobody(void **state)
{
	struct world world = {0};
	const struct vs_account *shown;

	(void)state;
	get(&world, PAGE, 10 * PAGE, VS_OWNER_NOBODY);
	get(&world, 20 * PAGE, PAGE, VS_OWNER_PYTORCH);
	sample(&world, false);
	report(&world, PAGE, 8 * PAGE);
	shown = vs_accounts_shown(&world.accounts);
	assert_int_equal(shown->sample.pytorch, 8 * PAGE);
	assert_int_equal(shown->by_owner[VS_OWNER_OTHER], 3 * PAGE);
	assert_int_equal(shown->by_owner[VS_OWNER_NOBODY], 0);
	assert_int_equal(shown->sample.libraries, 3 * PAGE);
	assert_balanced(&shown->sample);
	assert_false(shown->sample.others_known);
	vs_accounts_release(&world.accounts);
	vs_holdings_release(&world.holdings);
}

/* Never asked: the highest that is known. */
static void test_never_sampled(void **state)
{
	struct world world = {0};

	(void)state;
	get(&world, PAGE, 10 * PAGE, VS_OWNER_PYTORCH);
	get(&world, 20 * PAGE, 5, VS_OWNER_CUBLAS);
	report(&world, 9 * PAGE, 10 * PAGE);
	put(&world, 20 * PAGE, 5, VS_OWNER_CUBLAS);
	report(&world, PAGE, 10 * PAGE);
	assert_int_equal(vs_accounts_shown(&world.accounts)->by_owner[VS_OWNER_CUBLAS], 5);
	assert_int_equal(vs_accounts_shown(&world.accounts)->allocated, 9 * PAGE);
	assert_int_equal(vs_accounts_shown(&world.accounts)->sample.rounding, PAGE - 5);
	vs_accounts_finish(&world.accounts);
	assert_int_equal(world.accounts.count, 0);
	vs_accounts_release(&world.accounts);
	vs_holdings_release(&world.holdings);
}

/* A card that lost less than what is known: said, not hidden. */
static void test_more_than_lost(void **state)
{
	struct vramshim_event event = {.type = VRAMSHIM_MEMINFO, .size = TOTAL - PAGE};
	struct world world = {0};

	(void)state;
	get(&world, PAGE, 10 * PAGE, VS_OWNER_PYTORCH);
	assert_int_equal(vs_accounts_sample(&world.accounts, &event, &world.now, TOTAL, 0, &world.holdings), 0);
	assert_true(world.accounts.last.sample.unexplained == -9 * (int64_t)PAGE);
	assert_balanced(&world.accounts.last.sample);
	vs_accounts_release(&world.accounts);
	vs_holdings_release(&world.holdings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_many),           cmocka_unit_test(test_settles),
	    cmocka_unit_test(test_nobody),         cmocka_unit_test(test_never_sampled),
	    cmocka_unit_test(test_more_than_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
