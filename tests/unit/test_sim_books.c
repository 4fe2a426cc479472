/* SPDX-License-Identifier: MIT
 *
 * The books: capacity, small requests, wrong pointers, host memory, virtual
 * memory management.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/books.h"
#include "sim/pool.h"

#define MIB     (UINT64_C(1) << 20)
#define TOTAL   (256 * MIB)
#define CONTEXT (16 * MIB)

static int setup(void **state)
{
	(void)state;
	vs_books_close();
	vs_books_open(0, TOTAL, CONTEXT);
	vs_books_open(1, TOTAL, CONTEXT);
	assert_int_equal(vs_books_context(0, true), CU_OK);
	return 0;
}

static uint64_t available(int device)
{
	uint64_t free_bytes, total;

	vs_books_info(device, &free_bytes, &total);
	assert_int_equal(total, TOTAL);
	return free_bytes;
}

static uint64_t take(uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(vs_books_malloc(0, size, &address), CU_OK);
	assert_int_not_equal(address, 0);
	return address;
}

static void the_context_takes_its_bytes(void **state)
{
	(void)state;
	assert_int_equal(available(0), TOTAL - CONTEXT);
	assert_int_equal(available(1), TOTAL);
	vs_books_context(0, false);
	assert_int_equal(available(0), TOTAL);
}

static void capacity_is_enforced(void **state)
{
	uint64_t address = 7, first = take(100 * MIB);

	(void)state;
	assert_int_equal(available(0), 140 * MIB);
	assert_int_equal(vs_books_malloc(0, 142 * MIB, &address), CU_OUT_OF_MEMORY);
	assert_int_equal(vs_books_malloc(0, UINT64_MAX, &address), CU_OUT_OF_MEMORY);
	assert_int_equal(vs_books_malloc(0, UINT64_MAX - MIB, &address), CU_OUT_OF_MEMORY);
	assert_int_equal(address, 7);
	take(140 * MIB);
	assert_int_equal(available(0), 0);
	assert_int_equal(vs_books_malloc(0, 1, &address), CU_OUT_OF_MEMORY);
	assert_int_equal(vs_books_free(first), CU_OK);
	take(1);
	assert_int_equal(available(0), 98 * MIB);
}

static void a_reset_takes_all_back(void **state)
{
	uint64_t large = take(100 * MIB), small = take(512), handle;

	(void)state;
	assert_int_equal(vs_books_create(0, 4 * MIB, &handle), CU_OK);
	vs_books_reset(0);
	assert_int_equal(available(0), TOTAL - CONTEXT - 4 * MIB); /* handles belong to no context */
	assert_int_equal(vs_books_free(large), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free(small), CU_INVALID_VALUE);
	assert_int_equal(take(100 * MIB), large);
	vs_books_reset(1);
	assert_int_equal(available(1), TOTAL);
}

static void a_context_needs_room(void **state)
{
	(void)state;
	take(TOTAL - CONTEXT - 2 * MIB);
	assert_int_equal(vs_books_context(0, true), CU_OUT_OF_MEMORY);
	assert_int_equal(available(0), 2 * MIB);
}

static void wrong_pointers_are_refused(void **state)
{
	uint64_t address = take(6 * MIB), before;

	(void)state;
	before = available(0);
	assert_int_equal(vs_books_free(address + 2 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free(address - 2 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free((uint64_t)(uintptr_t)&address), CU_INVALID_VALUE);
	assert_int_equal(available(0), before);
	assert_int_equal(vs_books_free(address), CU_OK);
	assert_int_equal(vs_books_free(address), CU_INVALID_VALUE);
	assert_int_equal(available(0), TOTAL - CONTEXT);
}

static void small_requests_share_a_granule(void **state)
{
	uint64_t first = take(1), second = take(1000), third = take(MIB);

	(void)state;
	assert_int_equal(available(0), TOTAL - CONTEXT - 2 * MIB);
	assert_int_equal(second, first + 512);
	assert_int_equal(third, first + 512 + 1024);
	assert_int_equal(vs_books_free(first + 1), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free(first), CU_OK);
	/* The granule starts where the freed block did: a second free must not take it from the others. */
	assert_int_equal(vs_books_free(first), CU_INVALID_VALUE);
	assert_int_equal(available(0), TOTAL - CONTEXT - 2 * MIB);
	assert_int_equal(take(512), first);
	assert_int_equal(vs_books_free(first), CU_OK);
	assert_int_equal(vs_books_free(second), CU_OK);
	assert_int_equal(vs_books_free(third), CU_OK);
	assert_int_equal(available(0), TOTAL - CONTEXT);
}

static void above_half_a_granule_is_alone(void **state)
{
	(void)state;
	take(MIB + 1);
	take(MIB + 1);
	assert_int_equal(available(0), TOTAL - CONTEXT - 4 * MIB);
}

static void find_tells_what_a_pointer_is(void **state)
{
	uint64_t large = take(6 * MIB), small = take(700), host, managed;
	struct vs_allocation found;
	char own[64];

	(void)state;
	assert_int_equal(vs_books_find(large + 5, &found), CU_OK);
	assert_int_equal(found.type, VS_TYPE_DEVICE);
	assert_int_equal(found.address, large);
	assert_int_equal(found.size, 6 * MIB);
	assert_int_equal(found.device, 0);
	assert_int_equal(vs_books_find(small + 1023, &found), CU_OK);
	assert_int_equal(found.address, small);
	assert_int_equal(found.size, 1024);
	assert_int_equal(vs_books_find(small + 1024, &found), CU_OK); /* inside the granule */
	assert_int_equal(vs_books_host_alloc(1, 5000, false, &host), CU_OK);
	assert_int_equal(vs_books_find(host + 4999, &found), CU_OK);
	assert_int_equal(found.type, VS_TYPE_HOST);
	assert_int_equal(found.device, 1);
	assert_int_equal(vs_books_host_alloc(0, 5000, true, &managed), CU_OK);
	assert_int_equal(vs_books_find(managed, &found), CU_OK);
	assert_int_equal(found.type, VS_TYPE_MANAGED);
	assert_int_equal(vs_books_find((uint64_t)(uintptr_t)own, &found), CU_INVALID_VALUE);
	assert_int_equal(vs_books_host_register(0, (uint64_t)(uintptr_t)own, sizeof(own)), CU_OK);
	assert_int_equal(vs_books_find((uint64_t)(uintptr_t)own + 63, &found), CU_OK);
	assert_true(found.registered);
	assert_int_equal(vs_books_host_register(0, (uint64_t)(uintptr_t)own + 8, 8), CU_ALREADY_REGISTERED);
	assert_int_equal(vs_books_host_unregister((uint64_t)(uintptr_t)own), CU_OK);
	assert_int_equal(vs_books_host_unregister((uint64_t)(uintptr_t)own), CU_NOT_REGISTERED);
	/* Host memory costs no bytes of the card, is real, and is freed by its own kind of free. */
	assert_int_equal(available(0), TOTAL - CONTEXT - 8 * MIB);
	memset((void *)(uintptr_t)host, 1, 5000);
	assert_int_equal(vs_books_host_free(host, true), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free(host), CU_INVALID_VALUE);
	assert_int_equal(vs_books_host_free(host, false), CU_OK);
	assert_int_equal(vs_books_host_free(host, false), CU_INVALID_VALUE);
	assert_int_equal(vs_books_host_free(managed, true), CU_OK);
}

static void registering_around_registered_memory_is_refused(void **state)
{
	static char own[300];
	uint64_t start = (uint64_t)(uintptr_t)own;

	(void)state;
	assert_int_equal(vs_books_host_register(0, start + 100, 100), CU_OK);
	assert_int_equal(vs_books_host_register(0, start, 300), CU_ALREADY_REGISTERED);
	assert_int_equal(vs_books_host_register(0, start, 100), CU_OK);
	assert_int_equal(vs_books_host_unregister(start), CU_OK);
	assert_int_equal(vs_books_host_unregister(start + 100), CU_OK);
	assert_int_equal(vs_books_host_register(0, 0, 8), CU_INVALID_VALUE);
	assert_int_equal(vs_books_host_register(0, start, 0), CU_INVALID_VALUE);
	assert_int_equal(vs_books_host_register(0, UINT64_MAX - 4, 8), CU_INVALID_VALUE);
}

static void foreign_memory_takes_no_bytes(void **state)
{
	struct vs_allocation found;
	uint64_t address;

	(void)state;
	assert_int_equal(vs_books_foreign_open(0, 64 * MIB, &address), CU_OK);
	assert_int_equal(available(0), TOTAL - CONTEXT);
	assert_int_equal(vs_books_find(address + 1, &found), CU_OK);
	assert_int_equal(found.type, VS_TYPE_DEVICE);
	assert_int_equal(vs_books_free(address), CU_INVALID_VALUE);
	assert_int_equal(vs_books_foreign_close(address), CU_OK);
	assert_int_equal(vs_books_foreign_close(address), CU_INVALID_VALUE);
}

static void physical_memory_lives_as_long_as_its_references(void **state)
{
	uint64_t handle, again, address;

	(void)state;
	assert_int_equal(vs_books_create(0, 3 * MIB, &handle), CU_INVALID_VALUE);
	assert_int_equal(vs_books_create(0, 300 * MIB, &handle), CU_OUT_OF_MEMORY);
	assert_int_equal(vs_books_create(0, 20 * MIB, &handle), CU_OK);
	assert_int_equal(available(0), 220 * MIB);
	assert_int_equal(vs_books_reserve(40 * MIB, &address), CU_OK);
	assert_int_equal(available(0), 220 * MIB);
	assert_int_equal(vs_books_map(address, 20 * MIB, handle), CU_OK);
	/* Released while mapped: the mapping holds it. */
	assert_int_equal(vs_books_release(handle), CU_OK);
	assert_int_equal(vs_books_release(handle), CU_INVALID_VALUE);
	assert_int_equal(available(0), 220 * MIB);
	/* Taken up again through its address. */
	assert_int_equal(vs_books_retain(address + 5, &again), CU_OK);
	assert_int_equal(again, handle);
	assert_int_equal(vs_books_retain(address + 20 * MIB, &again), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unmap(address, 20 * MIB), CU_OK);
	assert_int_equal(available(0), 220 * MIB);
	assert_int_equal(vs_books_release(handle), CU_OK);
	assert_int_equal(available(0), 240 * MIB);
	assert_int_equal(vs_books_release(handle), CU_INVALID_VALUE);
	assert_int_equal(vs_books_map(address, 20 * MIB, handle), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unreserve(address, 40 * MIB), CU_OK);
}

static void one_handle_maps_twice(void **state)
{
	uint64_t handle, address;

	(void)state;
	assert_int_equal(vs_books_create(0, 2 * MIB, &handle), CU_OK);
	assert_int_equal(vs_books_reserve(4 * MIB, &address), CU_OK);
	assert_int_equal(vs_books_map(address, 2 * MIB, handle), CU_OK);
	assert_int_equal(vs_books_map(address, 2 * MIB, handle), CU_ALREADY_MAPPED);
	assert_int_equal(vs_books_map(address + 2 * MIB, 2 * MIB, handle), CU_OK);
	assert_int_equal(vs_books_release(handle), CU_OK);
	assert_int_equal(available(0), 238 * MIB);
	assert_int_equal(vs_books_unmap(address, 2 * MIB), CU_OK);
	assert_int_equal(available(0), 238 * MIB);
	assert_int_equal(vs_books_unmap(address + 2 * MIB, 2 * MIB), CU_OK);
	assert_int_equal(available(0), 240 * MIB);
	assert_int_equal(vs_books_unreserve(address, 4 * MIB), CU_OK);
}

static void mappings_are_whole(void **state)
{
	uint64_t handles[3], address;
	struct vs_allocation found;

	(void)state;
	assert_int_equal(vs_books_reserve(8 * MIB, &address), CU_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(vs_books_create(0, 2 * MIB, &handles[i]), CU_OK);
		assert_int_equal(vs_books_map(address + (uint64_t)i * 2 * MIB, 2 * MIB, handles[i]), CU_OK);
	}
	assert_int_equal(vs_books_find(address + 3 * MIB, &found), CU_OK);
	assert_int_equal(found.address, address + 2 * MIB);
	assert_int_equal(found.size, 2 * MIB);
	assert_int_equal(vs_books_find(address + 7 * MIB, &found), CU_INVALID_VALUE);
	assert_int_equal(vs_books_set_access(address, 6 * MIB), CU_OK);
	assert_int_equal(vs_books_set_access(address, 8 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unmap(address, 8 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unmap(address, 3 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unreserve(address, 8 * MIB), CU_INVALID_VALUE);
	/* Two at once, as torch unmaps a range. */
	assert_int_equal(vs_books_unmap(address, 4 * MIB), CU_OK);
	assert_int_equal(vs_books_set_access(address, 6 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unmap(address + 4 * MIB, 2 * MIB), CU_OK);
	assert_int_equal(vs_books_unreserve(address, 4 * MIB), CU_INVALID_VALUE);
	assert_int_equal(vs_books_unreserve(address, 8 * MIB), CU_OK);
	assert_int_equal(vs_books_unreserve(address, 8 * MIB), CU_INVALID_VALUE);
	for (int i = 0; i < 3; i++)
		assert_int_equal(vs_books_release(handles[i]), CU_OK);
	assert_int_equal(available(0), 240 * MIB);
}

static void host_handles_take_no_bytes(void **state)
{
	uint64_t handle, size;
	int device;

	(void)state;
	assert_int_equal(vs_books_create(-1, 64 * MIB, &handle), CU_OK);
	assert_int_equal(available(0), 240 * MIB);
	assert_int_equal(vs_books_handle(handle, &device, &size), CU_OK);
	assert_int_equal(device, -1);
	assert_int_equal(size, 64 * MIB);
	assert_int_equal(vs_books_release(handle), CU_OK);
	assert_int_equal(vs_books_handle(handle, &device, &size), CU_INVALID_VALUE);
	assert_int_equal(vs_books_handle(12345, &device, &size), CU_INVALID_VALUE);
}

static void cards_are_apart(void **state)
{
	struct vs_allocation found;
	uint64_t address;

	(void)state;
	assert_int_equal(vs_books_malloc(1, 10 * MIB, &address), CU_OK);
	assert_int_equal(available(0), 240 * MIB);
	assert_int_equal(available(1), 246 * MIB);
	assert_int_equal(vs_books_find(address, &found), CU_OK);
	assert_int_equal(found.device, 1);
	assert_int_equal(vs_books_free(address), CU_OK);
	assert_int_equal(available(1), TOTAL);
}

/* What was given back is no longer the context's, whoever has its address next. */
static void a_context_ends_what_it_still_has(void **state)
{
	uint64_t freed = take(4 * MIB), kept = take(4 * MIB), pooled = 0, host = 0;

	(void)state;
	vs_books_own(freed, 1);
	vs_books_own(kept, 1);
	assert_int_equal(vs_books_free(freed), CU_OK);
	assert_int_equal(vs_pool_malloc(vs_pool_default(0), 4 * MIB, &pooled), CU_OK);
	assert_int_equal(pooled, freed);
	assert_int_equal(vs_books_host_register(0, 0x10000, 4096), CU_OK);
	vs_books_own(0x10000, 1);
	assert_int_equal(vs_books_host_unregister(0x10000), CU_OK);
	assert_int_equal(vs_books_host_register(0, 0x10000, 4096), CU_OK);
	assert_int_equal(vs_books_host_alloc(0, MIB, false, &host), CU_OK);
	vs_books_end_context(1);
	assert_non_null(vs_pool_of(pooled));
	assert_int_equal(vs_books_host_unregister(0x10000), CU_OK);
	assert_int_equal(vs_books_host_free(host, false), CU_OK);
	assert_int_equal(vs_books_free(kept), CU_INVALID_VALUE);
	assert_int_equal(vs_books_free(pooled), CU_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
	    TEST(the_context_takes_its_bytes),
	    TEST(capacity_is_enforced),
	    TEST(a_reset_takes_all_back),
	    TEST(a_context_needs_room),
	    TEST(wrong_pointers_are_refused),
	    TEST(small_requests_share_a_granule),
	    TEST(above_half_a_granule_is_alone),
	    TEST(find_tells_what_a_pointer_is),
	    TEST(registering_around_registered_memory_is_refused),
	    TEST(foreign_memory_takes_no_bytes),
	    TEST(physical_memory_lives_as_long_as_its_references),
	    TEST(one_handle_maps_twice),
	    TEST(mappings_are_whole),
	    TEST(host_handles_take_no_bytes),
	    TEST(cards_are_apart),
	    TEST(a_context_ends_what_it_still_has),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
