/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/texels.h"

static uint64_t driver(int format, unsigned channels, struct vs_texels texels)
{
	vs_texels_driver_format(&texels, format, channels);
	return vs_texels_bytes(&texels);
}

static void test_formats(void **state)
{
	const struct vs_texels square = {.width = 64, .height = 64};

	(void)state;
	assert_int_equal(driver(0x01, 1, square), 64 * 64);         /* bytes */
	assert_int_equal(driver(0x20, 4, square), 64 * 64 * 16);    /* four floats */
	assert_int_equal(driver(0x10, 2, square), 64 * 64 * 4);     /* two halves */
	assert_int_equal(driver(0xb0, 3, square), 64 * 64 * 3 / 2); /* NV12: 8 bits, and two at a quarter */
	assert_int_equal(driver(0x91, 4, square), 16 * 16 * 8);     /* BC1: 8 bytes a block */
	assert_int_equal(driver(0x9d, 4, square), 16 * 16 * 16);    /* BC7: 16 */
	assert_int_equal(driver(0xc5, 4, square), 64 * 64 * 8);     /* its channels are in the format */
	assert_int_equal(driver(0x9d, 4, (struct vs_texels){.width = 5, .height = 1}), 2 * 16);
	assert_int_equal(driver(0x77, 1, square), 0); /* none */
	assert_int_equal(driver(-1, 1, square), 0);
}

static void test_runtime_formats(void **state)
{
	struct vs_texels texels = {.width = 8, .height = 8};

	(void)state;
	vs_texels_runtime_format(&texels, (const int[]){32, 32, 32, 32}, 2);
	assert_int_equal(vs_texels_bytes(&texels), 64 * 16);
	vs_texels_runtime_format(&texels, (const int[]){8, 8, 8, 8}, 17); /* BC1 says the bits that come out */
	assert_int_equal(vs_texels_bytes(&texels), 4 * 8);
	vs_texels_runtime_format(&texels, (const int[]){16, 16, 16, 0}, 27); /* BC6H */
	assert_int_equal(vs_texels_bytes(&texels), 4 * 16);
	vs_texels_runtime_format(&texels, (const int[]){8, 8, 8, 0}, 4); /* NV12 */
	assert_int_equal(vs_texels_bytes(&texels), 96);
	vs_texels_runtime_format(&texels, (const int[]){10, 10, 10, 2}, 31);
	assert_int_equal(vs_texels_bytes(&texels), 64 * 4);
}

static void test_extents(void **state)
{
	(void)state;
	assert_int_equal(driver(0x20, 1, (struct vs_texels){.width = 7}), 28);
	assert_int_equal(driver(0x20, 1, (struct vs_texels){.width = 4, .height = 4, .depth = 4}), 256);
	/* 8^3 + 4^3 + 2^3 + 1, and layers that do not shrink */
	assert_int_equal(driver(0x01, 1, (struct vs_texels){.width = 8, .height = 8, .depth = 8, .levels = 4}), 585);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){8, 8, 3, VS_TEXELS_LAYERED, 4, 0, 0}), 3 * 85);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){8, 8, 6, VS_TEXELS_CUBEMAP, 2, 0, 0}), 6 * 80);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){8, 8, 0, VS_TEXELS_SPARSE, 1, 0, 0}), 0);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){8, 8, 0, VS_TEXELS_DEFERRED, 1, 0, 0}), 0);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){.height = 8}), 0);
}

static void test_garbage(void **state)
{
	const uint64_t large = UINT64_C(1) << 63;

	(void)state;
	assert_true(driver(0x20, 4, (struct vs_texels){.width = large, .height = large, .depth = large}) ==
	            UINT64_MAX);
	assert_true(driver(0x20, 4, (struct vs_texels){.width = UINT64_MAX}) == UINT64_MAX);
	assert_int_equal(driver(0x01, 1, (struct vs_texels){.width = 1, .levels = UINT32_MAX}), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_formats),
	    cmocka_unit_test(test_runtime_formats),
	    cmocka_unit_test(test_extents),
	    cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
