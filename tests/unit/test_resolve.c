/* SPDX-License-Identifier: MIT
 *
 * What CUDA's calls came to: scripts of calls, and after each the bytes on two devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "ledger/resolve.h"

#define GOT     VRAMSHIM_CUDA_ALLOC
#define GAVE    VRAMSHIM_CUDA_FREE
#define REFUSED VRAMSHIM_CUDA_FAIL

struct step {
	enum vramshim_event_type type;
	enum vramshim_memory memory;
	uint64_t address, size, handle;
	int device;
	uint32_t thread;
	uint64_t bytes[2]; /* on devices 0 and 1 afterwards */
};

struct totals {
	uint64_t bytes[2];
	unsigned alive;
};

static int effect(void *user, const struct vramshim_event *event)
{
	struct totals *totals = user;

	assert_true(event->type == GOT || event->type == GAVE);
	totals->alive += event->type == GOT ? 1 : -1u;
	switch (event->memory) {
	case VRAMSHIM_MEMORY_DEVICE:
	case VRAMSHIM_MEMORY_ARRAY:
	case VRAMSHIM_MEMORY_PHYSICAL:
	case VRAMSHIM_MEMORY_HELD:
	case VRAMSHIM_MEMORY_GRAPHS:
	case VRAMSHIM_MEMORY_CONTEXT:
		if (event->device >= 0)
			totals->bytes[event->device] += event->type == GOT ? event->size : -event->size;
		return 0;
	default:
		return 0;
	}
}

static void play(const struct step *steps, size_t count, size_t kept)
{
	struct vs_resolver resolver = {0};
	struct totals totals = {0};

	for (size_t i = 0; i < count; i++) {
		const struct step *step = &steps[i];
		struct vramshim_event event = {.type = step->type,
		                               .memory = step->memory,
		                               .device = (int16_t)step->device,
		                               .thread = step->thread ? step->thread : 1,
		                               .sequence = i + 1,
		                               .address = step->address,
		                               .handle = step->handle,
		                               .size = step->size};

		assert_int_equal(vs_resolve(&resolver, &event, effect, &totals), 0);
		for (int d = 0; d < 2; d++)
			if (totals.bytes[d] != step->bytes[d])
				fail_msg("step %zu, device %d: %llu bytes, not %llu", i, d,
				         (unsigned long long)totals.bytes[d], (unsigned long long)step->bytes[d]);
	}
	assert_int_equal(vs_resolver_size(&resolver), kept);
	vs_resolver_release(&resolver);
}

#define PLAY(steps, kept) play(steps, sizeof(steps) / sizeof((steps)[0]), kept)

static void test_linear(void **state)
{
	static const struct step steps[] = {
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 100, 0, 0, 1, {100, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x9000, 10, 0, 1, 1, {100, 10}},
	    {GOT, VRAMSHIM_MEMORY_MANAGED, 0x2000, 1000, 0, 0, 1, {100, 10}},
	    {GOT, VRAMSHIM_MEMORY_PINNED, 0x3000, 1000, 0, 0, 1, {100, 10}},
	    {GOT, VRAMSHIM_MEMORY_FOREIGN, 0x4000, 1000, 0, 0, 1, {100, 10}},
	    {GOT, VRAMSHIM_MEMORY_ARRAY, 0x5000, 7, 0, 0, 1, {107, 10}},
	    /* The free names no device; cudaFree() is for all linear memory. */
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x9000, 0, 0, -1, 2, {107, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {107, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x4000, 0, 0, -1, 1, {107, 0}},
	    /* Unknown, of another world, twice. */
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x7777, 0, 0, -1, 1, {107, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x3000, 0, 0, -1, 1, {107, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 1, {7, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 1, {7, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 1, {7, 0}},
	    /* A key that is another's by its upper bits. */
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x5000 ^ (UINT64_C(7) << 58), 0, 0, -1, 1, {7, 0}},
	    {GAVE, VRAMSHIM_MEMORY_ARRAY, 0x5000, 0, 0, -1, 1, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_PINNED, 0x3000, 0, 0, -1, 1, {0, 0}},
	    /* A lost free: the first one is gone. */
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 50, 0, 0, 1, {50, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 60, 0, 1, 1, {0, 60}},
	    {GAVE, VRAMSHIM_MEMORY_POOL, 0x1000, 0, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0, 60, 0, 1, 1, {0, 0}},
	};

	(void)state;
	PLAY(steps, 2); /* the last free of each thread is not settled */
}

static void test_refused_frees(void **state)
{
	static const struct step steps[] = {
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 100, 0, 0, 1, {100, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {0, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {100, 0}},
	    /* A refused allocation, and the refusal of something else, take nothing back. */
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0, 5, 0, 0, 2, {100, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {100, 0}},
	    /* Two threads free the same; whoever is refused, it is gone. */
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 3, {0, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 70, 0, 0, 1, {70, 0}},
	    /* ... also where a new allocation has come before the refusal. */
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 2, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 3, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 80, 0, 0, 1, {80, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 3, {80, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x1000, 0, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x2000, 1, 0, 0, 2, {1, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x3000, 1, 0, 0, 3, {2, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x4000, 1, 0, 0, 1, {3, 0}},
	};

	(void)state;
	PLAY(steps, 3);
}

static void test_physical(void **state)
{
	static const struct step steps[] = {
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 200, 0, 1, 1, {0, 200}},
	    {GOT, VRAMSHIM_MEMORY_RESERVED, 0x100000, 1000, 0, 0, 1, {0, 200}},
	    {GOT, VRAMSHIM_MEMORY_MAPPED, 0x100000, 200, 0x10, 0, 1, {0, 200}},
	    {GOT, VRAMSHIM_MEMORY_MAPPED, 0x1000c8, 200, 0x10, 0, 1, {0, 200}},
	    /* Released while mapped. */
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0, -1, 1, {0, 200}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0, -1, 1, {0, 200}},
	    {REFUSED, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0, -1, 1, {0, 200}},
	    /* One unmap of both; refused, and then not. */
	    {GAVE, VRAMSHIM_MEMORY_MAPPED, 0x100000, 400, 0, -1, 1, {0, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_MAPPED, 0x100000, 400, 0, -1, 1, {0, 200}},
	    /* A reference by the address; then it is the last thing that holds the memory. */
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0x10, -1, 1, {0, 200}},
	    {GAVE, VRAMSHIM_MEMORY_MAPPED, 0x100000, 400, 0, -1, 1, {0, 200}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0, -1, 1, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_RESERVED, 0x100000, 1000, 0, -1, 1, {0, 0}},
	    /* The last unmap frees the handle, which another thread is given at once. */
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x40, 60, 0, 0, 1, {60, 0}},
	    {GOT, VRAMSHIM_MEMORY_MAPPED, 0x200000, 60, 0x40, 0, 1, {60, 0}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x40, 0, 0, -1, 1, {60, 0}},
	    {GAVE, VRAMSHIM_MEMORY_MAPPED, 0x200000, 60, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x40, 70, 0, 1, 2, {0, 70}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x40, 0, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_RESERVED, 0x300000, 10, 0, 0, 2, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_RESERVED, 0x300000, 10, 0, -1, 1, {0, 0}},
	    /* Host memory, and what another process made. */
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x20, 300, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x30, 0, 0, -1, 1, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x20, 0, 0, -1, 1, {0, 0}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x30, 0, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1, 1, 0, 0, 1, {1, 0}},
	};

	(void)state;
	PLAY(steps, 1);
}

static void test_pools(void **state)
{
	static const struct step steps[] = {
	    {GOT, VRAMSHIM_MEMORY_POOL, 0x1000, 100, 0xaa, 0, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_HELD, 0xaa, 2000, 0, 0, 1, {2000, 0}},
	    {GOT, VRAMSHIM_MEMORY_POOL, 0x2000, 100, 0xaa, 0, 1, {2000, 0}},
	    {GAVE, VRAMSHIM_MEMORY_POOL, 0x1000, 0, 0, -1, 1, {2000, 0}},
	    {GOT, VRAMSHIM_MEMORY_HELD, 0xaa, 4000, 0, 0, 2, {4000, 0}},
	    {GOT, VRAMSHIM_MEMORY_HELD, 0xaa, 1000, 0, 0, 1, {1000, 0}},
	    /* Destroyed with a block in use: it stays until that is free. */
	    {GAVE, VRAMSHIM_MEMORY_HELD, 0xaa, 0, 0, 0, 1, {1000, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {0, 0}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {1000, 0}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {0, 0}},
	    /* The handle again. */
	    {GOT, VRAMSHIM_MEMORY_HELD, 0xaa, 50, 0, 1, 1, {0, 50}},
	    {GAVE, VRAMSHIM_MEMORY_HELD, 0xaa, 0, 0, 1, 1, {0, 0}},
	    /* A pool that could not be asked. */
	    {GOT, VRAMSHIM_MEMORY_POOL, 0x3000, 100, 0, 0, 1, {100, 0}},
	    {GAVE, VRAMSHIM_MEMORY_POOL, 0x3000, 0, 0, -1, 1, {0, 0}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1, 1, 0, 0, 1, {1, 0}},
	};

	(void)state;
	PLAY(steps, 1);
}

static void test_contexts(void **state)
{
	static const struct step steps[] = {
	    {GOT, VRAMSHIM_MEMORY_CONTEXT, 1, 500, 0, 0, 1, {500, 0}},
	    {GOT, VRAMSHIM_MEMORY_CONTEXT, 2, 500, 0, 1, 1, {500, 500}},
	    {GOT, VRAMSHIM_MEMORY_CONTEXT, 0xc0, 500, 0, 0, 1, {1000, 500}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 10, 0, 0, 1, {1010, 500}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x2000, 20, 0xc0, 0, 1, {1030, 500}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x3000, 30, 0, 1, 1, {1030, 530}},
	    {GOT, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 40, 0, 0, 1, {1070, 530}},
	    {GOT, VRAMSHIM_MEMORY_POOL, 0x4000, 5, 0xaa, 0, 1, {1070, 530}},
	    {GOT, VRAMSHIM_MEMORY_HELD, 0xaa, 60, 0, 0, 1, {1130, 530}},
	    /* The one that was made takes its own, not the others'. */
	    {GAVE, VRAMSHIM_MEMORY_CONTEXT, 0xc0, 0, 0, -1, 1, {610, 530}},
	    {GAVE, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {610, 530}},
	    {REFUSED, VRAMSHIM_MEMORY_DEVICE, 0x2000, 0, 0, -1, 1, {610, 530}},
	    /* The primary one takes its pools as well; physical memory is nobody's. */
	    {GAVE, VRAMSHIM_MEMORY_CONTEXT, 1, 0, 0, 0, 1, {40, 530}},
	    {GOT, VRAMSHIM_MEMORY_CONTEXT, 1, 500, 0, 0, 1, {540, 530}},
	    {GAVE, VRAMSHIM_MEMORY_PHYSICAL, 0x10, 0, 0, -1, 1, {500, 530}},
	    {GOT, VRAMSHIM_MEMORY_DEVICE, 0x1000, 10, 0, 0, 1, {510, 530}},
	};

	(void)state;
	PLAY(steps, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_linear), cmocka_unit_test(test_refused_frees), cmocka_unit_test(test_physical),
	    cmocka_unit_test(test_pools),  cmocka_unit_test(test_contexts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
