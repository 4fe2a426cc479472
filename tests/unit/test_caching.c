/* SPDX-License-Identifier: MIT
 *
 * The allocator's decisions, one by one, on a device that hands out growing addresses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "caching/caching.h"

#define MIB (UINT64_C(1) << 20)

struct device {
	uint64_t next, used, capacity;
	unsigned int allocations, releases, maps, unmaps, reservations;
};

static int take(struct device *d, uint64_t size)
{
	if (size > d->capacity - d->used)
		return -ENOMEM;
	d->used += size;
	return 0;
}

static int allocate(void *context, uint64_t size, uint64_t *ret_address)
{
	struct device *d = context;

	if (take(d, size) < 0)
		return -ENOMEM;
	*ret_address = d->next;
	d->next += 1024 * MIB;
	d->allocations++;
	return 0;
}

static void release(void *context, uint64_t address, uint64_t size)
{
	struct device *d = context;

	(void)address;
	d->used -= size;
	d->releases++;
}

static int reserve(void *context, uint64_t size, uint64_t *ret_address)
{
	struct device *d = context;

	*ret_address = d->next;
	d->next += size + 1024 * MIB;
	d->reservations++;
	return 0;
}

static void unreserve(void *context, uint64_t address, uint64_t size)
{
	struct device *d = context;

	(void)address;
	(void)size;
	d->reservations--;
}

static int map(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	struct device *d = context;

	assert_int_equal(size % page, 0);
	(void)address;
	d->maps++;
	return take(d, size);
}

static void unmap(void *context, uint64_t address, uint64_t size, uint64_t page)
{
	struct device *d = context;

	assert_int_equal(size % page, 0);
	(void)address;
	d->used -= size;
	d->unmaps++;
}

static struct vs_caching *fresh(struct device *d, struct vs_caching_settings settings)
{
	struct vs_caching_device device = {.context = d,
	                                   .total = 1024 * MIB,
	                                   .allocate = allocate,
	                                   .release = release,
	                                   .reserve = reserve,
	                                   .unreserve = unreserve,
	                                   .map = map,
	                                   .unmap = unmap};
	struct vs_caching *caching = NULL;

	*d = (struct device){.next = UINT64_C(1) << 40, .capacity = 1024 * MIB};
	assert_int_equal(vs_caching_new(&settings, &device, &caching), 0);
	return caching;
}

static struct vs_caching_settings standard(void)
{
	struct vs_caching_settings settings;

	vs_caching_defaults(&settings, 211);
	return settings;
}

static struct vs_caching_block *get_on(struct vs_caching *c, uint64_t size, uint64_t stream)
{
	struct vs_caching_request request = {.size = size, .stream = stream};
	struct vs_caching_block *block = NULL;

	assert_int_equal(vs_caching_malloc(c, &request, &block), 0);
	return block;
}

static struct vs_caching_block *get(struct vs_caching *c, uint64_t size)
{
	return get_on(c, size, 0);
}

static bool refuses(struct vs_caching *c, uint64_t size)
{
	struct vs_caching_request request = {.size = size};
	struct vs_caching_block *block = NULL;

	return vs_caching_malloc(c, &request, &block) == -ENOMEM && !block;
}

static void splits_and_merges(void **state)
{
	struct device d;
	struct vs_caching *c = fresh(&d, standard());
	struct vs_caching_block *a, *b, *e;

	(void)state;
	a = get(c, 4 * MIB);
	b = get(c, 4 * MIB);
	e = get(c, 11 * MIB + 512); /* leaves 512 less than 1 MiB: not worth splitting off */
	assert_int_equal(d.allocations, 1);
	assert_int_equal(vs_caching_address(b), vs_caching_address(a) + 4 * MIB);
	assert_int_equal(vs_caching_size(e), 12 * MIB);
	assert_int_equal(vs_caching_stats(c)->allocated, 20 * MIB);
	vs_caching_free(c, a);
	vs_caching_free(c, e);
	vs_caching_free(c, b); /* joins both sides */
	a = get(c, 20 * MIB);
	assert_int_equal(d.allocations, 1);
	assert_int_equal(vs_caching_size(a), 20 * MIB);
	vs_caching_free_all(c);
}

static void best_fit(void **state)
{
	struct device d;
	struct vs_caching *c = fresh(&d, standard());
	struct vs_caching_block *large = get(c, 60 * MIB), *small = get(c, 40 * MIB), *again;
	uint64_t where = vs_caching_address(small);

	(void)state;
	vs_caching_free(c, large);
	vs_caching_free(c, small);
	again = get(c, 39 * MIB);
	assert_int_equal(vs_caching_address(again), where);
	/* Never across streams. */
	get_on(c, 39 * MIB, 7);
	assert_int_equal(d.allocations, 3);
	vs_caching_free_all(c);
}

/* Equal fits: the lower address up to 2.11, the older segment from 2.13 on. */
static void ties(void **state)
{
	for (uint32_t version = 206; version <= 215; version += 9) {
		struct vs_caching_settings settings = standard();
		struct device d;
		struct vs_caching *c;
		struct vs_caching_block *older, *newer;
		uint64_t low;

		settings.version = version;
		c = fresh(&d, settings);
		older = get(c, 40 * MIB);
		d.next = UINT64_C(1) << 39; /* the newer one lies lower */
		newer = get(c, 40 * MIB);
		low = vs_caching_address(newer);
		vs_caching_free(c, older);
		vs_caching_free(c, newer);
		assert_int_equal(vs_caching_address(get(c, 40 * MIB)) == low, version < 213);
		vs_caching_free_all(c);
	}
	(void)state;
}

static void retries(void **state)
{
	struct device d;
	struct vs_caching *c = fresh(&d, standard());
	struct vs_caching_block *a = get(c, 600 * MIB), *pinned = get(c, 4 * MIB);

	(void)state;
	vs_caching_free(c, a);
	/* 700 do not fit beside 600 cached: they are released, what is partly used is not. */
	a = get(c, 700 * MIB);
	assert_int_equal(d.releases, 1);
	assert_int_equal(vs_caching_stats(c)->retries, 1);
	assert_true(refuses(c, 400 * MIB));
	assert_int_equal(vs_caching_stats(c)->ooms, 1);
	assert_true(refuses(c, UINT64_MAX));
	vs_caching_free(c, a);
	vs_caching_free(c, pinned);
	vs_caching_empty_cache(c);
	assert_int_equal(d.used, 0);
	assert_int_equal(vs_caching_stats(c)->reserved, 0);
	vs_caching_free_all(c);
}

static void oversize(void **state)
{
	struct vs_caching_settings settings = standard();
	struct device d;
	struct vs_caching *c;
	struct vs_caching_block *a, *b;

	(void)state;
	settings.max_split_size = 64 * MIB;
	c = fresh(&d, settings);
	a = get(c, 100 * MIB);
	b = get(c, 200 * MIB);
	vs_caching_free(c, a);
	vs_caching_free(c, b);
	get(c, 30 * MIB); /* not from an oversize block */
	assert_int_equal(d.allocations, 3);
	b = get(c, 85 * MIB); /* within 20 MiB of 100: whole */
	assert_int_equal(d.allocations, 3);
	assert_int_equal(vs_caching_size(b), 100 * MIB);
	get(c, 150 * MIB); /* 200 would waste too much */
	assert_int_equal(d.allocations, 4);
	/* Just enough oversize blocks go for what does not fit, without a full release. */
	d.capacity = d.used;
	get(c, 178 * MIB);
	assert_int_equal(d.releases, 1);
	assert_int_equal(vs_caching_stats(c)->retries, 0);
	vs_caching_free_all(c);
}

static void limits(void **state)
{
	struct vs_caching_settings settings = standard();
	struct device d;
	struct vs_caching *c;

	(void)state;
	settings.memory_fraction = 0.5;
	c = fresh(&d, settings);
	get(c, 500 * MIB);
	assert_true(refuses(c, 14 * MIB)); /* 14 on top of 500 are more than 512 */
	get(c, 12 * MIB);
	vs_caching_free_all(c);
}

static void garbage(void **state)
{
	struct vs_caching_settings settings = standard();
	struct device d;
	struct vs_caching *c;
	struct vs_caching_block *old, *young;

	(void)state;
	settings.memory_fraction = 0.5;
	settings.garbage_collection_threshold = 0.4; /* of 512 MiB */
	c = fresh(&d, settings);
	old = get(c, 100 * MIB);
	young = get(c, 120 * MIB);
	vs_caching_free(c, old);
	for (int i = 0; i < 10; i++)
		vs_caching_free(c, get(c, 30 * MIB)); /* look-ups: `old` grows older */
	vs_caching_free(c, young);
	assert_true(vs_caching_would_collect(c).count >= 1);
	assert_int_equal(d.releases, 0);
	get(c, 200 * MIB); /* misses: what is old goes */
	assert_true(d.releases >= 1);
	assert_int_equal(vs_caching_stats(c)->retries, 0);
	vs_caching_free_all(c);
}

static void expandable(void **state)
{
	struct vs_caching_settings settings = standard();
	struct device d;
	struct vs_caching *c;
	struct vs_caching_block *a, *b, *e;
	uint64_t start;

	(void)state;
	settings.expandable_segments = true;
	c = fresh(&d, settings);
	a = get(c, 30 * MIB); /* two pages of 20 MiB */
	b = get(c, 30 * MIB); /* 10 left, one more page */
	start = vs_caching_address(a);
	assert_int_equal(vs_caching_address(b), start + 30 * MIB);
	assert_int_equal(vs_caching_size(b), 30 * MIB);
	assert_int_equal(d.maps, 2);
	assert_int_equal(d.used, 60 * MIB);
	e = get(c, 512); /* a small segment of its own, page 2 MiB */
	assert_int_equal(d.used, 62 * MIB);
	assert_int_equal(d.reservations, 2);
	vs_caching_free(c, a);
	vs_caching_empty_cache(c); /* 30 free: one whole page goes, 10 MiB stay mapped */
	assert_int_equal(d.used, 42 * MIB);
	assert_int_equal(vs_caching_stats(c)->reserved, 42 * MIB);
	a = get(c, 30 * MIB); /* the hole is filled again */
	assert_int_equal(vs_caching_address(a), start);
	assert_int_equal(d.used, 62 * MIB);
	assert_true(refuses(c, 2000 * MIB));
	assert_true(refuses(c, UINT64_C(1) << 50));
	vs_caching_free(c, a);
	vs_caching_free(c, b);
	vs_caching_free(c, e);
	vs_caching_empty_cache(c);
	assert_int_equal(d.used, 0);
	vs_caching_free_all(c);
}

static void deferred(void **state)
{
	struct device d;
	struct vs_caching *c = fresh(&d, standard());
	struct vs_caching_block *a = get(c, 40 * MIB), *b;
	uint64_t ticket = vs_caching_defer(c, a), where = vs_caching_address(a), stale;

	(void)state;
	assert_int_equal(vs_caching_stats(c)->allocated, 0);
	assert_int_equal(vs_caching_stats(c)->active, 40 * MIB);
	b = get(c, 40 * MIB);
	assert_int_not_equal(vs_caching_address(b), where);
	vs_caching_complete(c, a, ticket);
	vs_caching_complete(c, a, ticket); /* expired: nothing happens */
	a = get(c, 40 * MIB);
	assert_int_equal(vs_caching_address(a), where);
	/* A release waits for all streams. */
	stale = vs_caching_defer(c, a);
	vs_caching_empty_cache(c);
	assert_int_equal(d.releases, 1);
	assert_int_equal(vs_caching_stats(c)->active, 40 * MIB);
	vs_caching_complete(c, a, stale);
	vs_caching_free_all(c);
}

static void pools(void **state)
{
	struct vs_caching_settings settings = standard();
	struct device d;
	struct vs_caching *c = fresh(&d, settings);
	struct vs_caching_request request = {.size = 40 * MIB};
	struct vs_caching_block *a = NULL;
	uint32_t again;

	(void)state;
	assert_int_equal(vs_caching_pool(c, 0, 1, &request.pool), 0);
	assert_int_equal(vs_caching_pool(c, 0, 1, &again), 0);
	assert_int_equal(request.pool, again);
	assert_int_equal(vs_caching_malloc(c, &request, &a), 0);
	vs_caching_free(c, a);
	get(c, 40 * MIB); /* not from the private pool */
	assert_int_equal(d.allocations, 2);
	vs_caching_empty_cache(c);
	assert_int_equal(d.releases, 0);
	/* With nobody else left to ask, a pool that was offered for it helps out. */
	vs_caching_pool_use_on_oom(c, request.pool, true);
	d.capacity = d.used;
	get(c, 40 * MIB);
	assert_int_equal(d.allocations, 2);
	vs_caching_free_all(c);
}

static void no_split(void **state)
{
	struct device d;
	struct vs_caching *c = fresh(&d, standard());
	struct vs_caching_request request = {.size = 2 * MIB};
	struct vs_caching_block *a = NULL;

	(void)state;
	assert_int_equal(vs_caching_pool(c, 0, 1, &request.pool), 0);
	vs_caching_pool_no_split(c, request.pool);
	assert_int_equal(vs_caching_malloc(c, &request, &a), 0);
	assert_int_equal(vs_caching_size(a), 20 * MIB);
	vs_caching_free_all(c);
}

/* Whatever is asked, in whatever order: no block overlaps another, and all bytes come back. */
static void books_balance(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 16; round++) {
		struct vs_caching_settings settings = standard();
		struct vs_caching_block *live[256] = {0};
		struct device d;
		struct vs_caching *c;
		uint64_t sum = 0;

		settings.expandable_segments = round & 1;
		settings.max_split_size = round & 2 ? 64 * MIB : VS_CACHING_UNLIMITED;
		settings.version = round & 4 ? 215 : 206;
		settings.roundup_power2_divisions[0] = round & 8 ? 4 : 0;
		c = fresh(&d, settings);
		for (int i = 0; i < 4000; i++) {
			unsigned int slot = (seed = seed * 1103515245 + 12345) >> 16 & 255;
			struct vs_caching_request request = {.size = UINT64_C(1) << ((seed >> 8) % 27),
			                                     .stream = seed >> 30};

			request.size += seed & 0xffff;
			if (live[slot]) {
				sum -= vs_caching_size(live[slot]);
				vs_caching_free(c, live[slot]);
				live[slot] = NULL;
			} else if (vs_caching_malloc(c, &request, &live[slot]) == 0) {
				uint64_t at = vs_caching_address(live[slot]);

				sum += vs_caching_size(live[slot]);
				for (unsigned int j = 0; j < 256; j++) {
					if (j == slot || !live[j])
						continue;
					assert_true(at >= vs_caching_address(live[j]) + vs_caching_size(live[j]) ||
					            vs_caching_address(live[j]) >= at + vs_caching_size(live[slot]));
				}
			}
			assert_int_equal(vs_caching_stats(c)->allocated, sum);
			assert_int_equal(vs_caching_stats(c)->reserved, d.used);
		}
		for (unsigned int j = 0; j < 256; j++) {
			if (live[j])
				vs_caching_free(c, live[j]);
		}
		vs_caching_empty_cache(c);
		assert_int_equal(d.used, 0);
		vs_caching_free_all(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(splits_and_merges),
	    cmocka_unit_test(best_fit),
	    cmocka_unit_test(ties),
	    cmocka_unit_test(retries),
	    cmocka_unit_test(oversize),
	    cmocka_unit_test(limits),
	    cmocka_unit_test(garbage),
	    cmocka_unit_test(expandable),
	    cmocka_unit_test(deferred),
	    cmocka_unit_test(pools),
	    cmocka_unit_test(no_split),
	    cmocka_unit_test(books_balance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
