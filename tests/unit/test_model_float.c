/* SPDX-License-Identifier: MIT */
#include "model/float.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Same number, the sign of zero included; any NaN equals any NaN. */
static void assert_same(double a, double b)
{
	if (isnan(a) && isnan(b))
		return;
	assert_int_equal(double_bits(a), double_bits(b));
}

static int width(enum vs_float_id id)
{
	return 1 + vs_float_format(id)->exponent_bits + vs_float_format(id)->mantissa_bits;
}

/* Every pattern of every format of up to 19 bits survives the way to double and back. */
static void every_pattern_returns(void **state)
{
	(void)state;
	for (int i = VS_FLOAT_TF32; i < VS_FLOAT_COUNT; i++) {
		enum vs_float_id id = (enum vs_float_id)i;

		for (uint32_t bits = 0; bits < 1u << width(id); bits++) {
			double value = vs_float_decode(id, bits);

			if (!isnan(value))
				assert_int_equal(vs_float_encode(id, value).bits, bits);
			else
				assert_true(isnan(vs_float_encode(id, value).value));
		}
	}
}

#ifdef HAVE_FLOAT16
static _Float16 half_of(uint16_t bits)
{
	_Float16 half;

	memcpy(&half, &bits, sizeof(half));
	return half;
}

/* All 65,536 halves against the compiler's conversion to double; then the compiler's rounding at every midpoint
 * between neighbours and just beside it. */
static void fp16_as_the_compiler(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 0x10000; bits++) {
		double value = vs_float_decode(VS_FLOAT_FP16, bits);

		assert_same(value, (double)half_of((uint16_t)bits));
		if ((bits & 0x7fff) >= 0x7bff)
			continue;
		double next = vs_float_decode(VS_FLOAT_FP16, bits + 1);
		double middle = (value + next) / 2;
		double beside[] = {middle, nextafter(middle, value), nextafter(middle, next), value, next};

		for (int k = 0; k < 5; k++)
			assert_same(vs_float_encode(VS_FLOAT_FP16, beside[k]).value, (double)(_Float16)beside[k]);
	}
	assert_same(vs_float_encode(VS_FLOAT_FP16, 65519.99).value, (double)(_Float16)65519.99);
	assert_same(vs_float_encode(VS_FLOAT_FP16, 65520).value, (double)(_Float16)65520.0);
}
#endif

/* bfloat16 is the upper half of a binary32: the usual integer rounding of the lower half is the reference. */
static uint16_t bfloat_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void bf16_as_rounded_binary32(void **state)
{
	(void)state;
	for (uint32_t high = 0; high < 0x10000; high++) {
		static const uint32_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

		for (int k = 0; k < 6; k++) {
			uint32_t bits = high << 16 | lows[k];
			float value;

			memcpy(&value, &bits, sizeof(value));
			if (isnan(value))
				continue;
			assert_int_equal(vs_float_encode(VS_FLOAT_BF16, value).bits, bfloat_of(value));
		}
	}
}

#ifdef HAVE_BFLOAT16
static void bf16_as_the_compiler(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 0x10000; bits++) {
		uint16_t pattern = (uint16_t)bits;
		__bf16 value;

		memcpy(&value, &pattern, sizeof(value));
		assert_same(vs_float_decode(VS_FLOAT_BF16, bits), (double)(float)value);
	}
}
#endif

/* Binary32: every exponent with a spread of mantissas, and double's own rounding to float at midpoints. */
static void fp32_as_the_compiler(void **state)
{
	uint32_t mix = 1;

	(void)state;
	for (uint32_t k = 0; k < 1u << 20; k++) {
		uint32_t bits = k << 12 | (mix = mix * 1664525 + 1013904223) >> 20;
		float value, next;

		memcpy(&value, &bits, sizeof(value));
		assert_same(vs_float_decode(VS_FLOAT_FP32, bits), (double)value);
		if (!isfinite(value))
			continue;
		next = nextafterf(value, INFINITY);
		double middle = isfinite(next) ? ((double)value + (double)next) / 2 : (double)value;
		double beside[] = {middle, nextafter(middle, INFINITY), nextafter(middle, -INFINITY)};

		for (int i = 0; i < 3; i++)
			assert_same(vs_float_encode(VS_FLOAT_FP32, beside[i]).value, (double)(float)beside[i]);
	}
}

/* The independent reference for 8 bits: try all finite patterns, keep the nearest, on a tie the even one. */
static double nearest_by_search(enum vs_float_id id, double value)
{
	uint32_t best = 0, half = 1u << (width(id) - 1);
	double distance = INFINITY;

	for (uint32_t bits = 0; bits < half; bits++) {
		double candidate = vs_float_decode(id, bits);
		double d = fabs(candidate - fabs(value));

		if (!isfinite(candidate))
			continue;
		if (d < distance || (d == distance && !(bits & 1))) {
			distance = d;
			best = bits;
		}
	}
	return copysign(vs_float_decode(id, best), value);
}

static void fp8_as_searched(void **state)
{
	static const enum vs_float_id formats[] = {VS_FLOAT_FP8_E4M3, VS_FLOAT_FP8_E5M2};

	(void)state;
	for (int i = 0; i < 2; i++) {
		enum vs_float_id id = formats[i];
		double top = vs_float_max(id);

		for (uint32_t bits = 0; bits < 0x10000; bits++) {
			/* Every half, scaled so that it spreads around the format's whole range. */
			double value = vs_float_decode(VS_FLOAT_FP16, bits);

			if (!isfinite(value) || fabs(value) > top)
				continue;
			assert_same(vs_float_encode(id, value).value, nearest_by_search(id, value));
		}
		for (uint32_t bits = 0; bits < 0x7f; bits++) {
			double a = vs_float_decode(id, bits), b = vs_float_decode(id, bits + 1);

			if (!isfinite(b) || !isfinite(a))
				continue;
			double middle = (a + b) / 2;

			assert_same(vs_float_encode(id, middle).value, nearest_by_search(id, middle));
			assert_same(vs_float_encode(id, nextafter(middle, a)).value, a);
			assert_same(vs_float_encode(id, nextafter(middle, b)).value, b);
		}
	}
}

/* The values the OCP 8-bit floating point specification 1.0 prints in its table of limits. */
static void fp8_limits_of_the_specification(void **state)
{
	(void)state;
	assert_same(vs_float_max(VS_FLOAT_FP8_E4M3), 448);
	assert_same(vs_float_min_normal(VS_FLOAT_FP8_E4M3), ldexp(1, -6));
	assert_same(vs_float_min_subnormal(VS_FLOAT_FP8_E4M3), ldexp(1, -9));
	assert_same(vs_float_max(VS_FLOAT_FP8_E5M2), 57344);
	assert_same(vs_float_min_normal(VS_FLOAT_FP8_E5M2), ldexp(1, -14));
	assert_same(vs_float_min_subnormal(VS_FLOAT_FP8_E5M2), ldexp(1, -16));
	assert_int_equal(vs_float_encode(VS_FLOAT_FP8_E4M3, 464).bits, 0x7e);
	assert_true(isnan(vs_float_encode(VS_FLOAT_FP8_E4M3, 465).value));
	assert_int_equal(vs_float_encode(VS_FLOAT_FP8_E4M3, 465).event, VS_FLOAT_OVERFLOW);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP8_E5M2, 61440).event, VS_FLOAT_OVERFLOW);
}

static void named_and_bad_names(void **state)
{
	enum vs_float_id id = VS_FLOAT_FP32;

	(void)state;
	assert_int_equal(vs_float_find("fp8-e5m2", &id), 0);
	assert_int_equal(id, VS_FLOAT_FP8_E5M2);
	assert_true(vs_float_find("fp12", &id) < 0);
	assert_int_equal(id, VS_FLOAT_FP8_E5M2);
}

/* "FP16: 5 exponent bits, 10 mantissa bits, at most 65504, smallest normal about 6e-5" and the rows beside it. */
static void article_004_format_table(void **state)
{
	static const struct {
		enum vs_float_id id;
		int exponent, mantissa;
		double max;
	} rows[] = {{VS_FLOAT_FP32, 8, 23, 3.4e38},
	            {VS_FLOAT_TF32, 8, 10, 3.4e38},
	            {VS_FLOAT_BF16, 8, 7, 3.4e38},
	            {VS_FLOAT_FP16, 5, 10, 65504},
	            {VS_FLOAT_FP8_E4M3, 4, 3, 448}};

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(vs_float_format(rows[i].id)->exponent_bits, rows[i].exponent);
		assert_int_equal(vs_float_format(rows[i].id)->mantissa_bits, rows[i].mantissa);
		assert_true(fabs(vs_float_max(rows[i].id) / rows[i].max - 1) < 0.005);
	}
	assert_int_equal(vs_float_format(VS_FLOAT_TF32)->storage_bits, 32);
	assert_true(fabs(vs_float_min_normal(VS_FLOAT_FP16) - 6.1e-5) < 1e-6);
}

/* "FP32: values down to 1e-45. BF16: zero only near 1e-38 [of normals; its subnormals reach 9.2e-41]. FP16: below
 * 6.1e-5 subnormal, below 5.96e-8 zero" - the smallest subnormal is 5.96e-8; rounding turns values to 0 below its
 * half, and values between the half and it into it. */
static void article_004_underflow_limits(void **state)
{
	(void)state;
	assert_int_equal(vs_float_encode(VS_FLOAT_FP32, 1.5e-45).event, VS_FLOAT_GRADUAL);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP32, 7e-46).event, VS_FLOAT_UNDERFLOW);
	assert_int_equal(vs_float_encode(VS_FLOAT_BF16, 1.2e-38).event, VS_FLOAT_FITS);
	assert_int_equal(vs_float_encode(VS_FLOAT_BF16, 1e-38).event, VS_FLOAT_GRADUAL);
	assert_int_equal(vs_float_encode(VS_FLOAT_BF16, 4e-41).event, VS_FLOAT_UNDERFLOW);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 6.2e-5).event, VS_FLOAT_FITS);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 6.0e-5).event, VS_FLOAT_GRADUAL);
	assert_true(fabs(vs_float_encode(VS_FLOAT_FP16, 5e-8).value - 5.96e-8) < 1e-10);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 2.9e-8).event, VS_FLOAT_UNDERFLOW);
}

/* Loss scaling by 1024: a gradient of 1e-8 vanishes in FP16, times 1024 it is kept and comes back within 1 %. */
static void article_004_loss_scaling(void **state)
{
	struct vs_float_bits lost = vs_float_encode(VS_FLOAT_FP16, 1e-8);
	struct vs_float_bits kept = vs_float_encode(VS_FLOAT_FP16, 1e-8 * 1024);

	(void)state;
	assert_int_equal(lost.event, VS_FLOAT_UNDERFLOW);
	assert_int_equal(kept.event, VS_FLOAT_GRADUAL);
	assert_true(fabs(kept.value / 1024 / 1e-8 - 1) < 0.01);
}

/* "FP16: largest about 65504, smallest normal about 6e-5; BF16: 7 mantissa bits, FP32's exponent". */
static void article_000_fp16_and_bf16(void **state)
{
	(void)state;
	assert_same(vs_float_max(VS_FLOAT_FP16), 65504);
	assert_true(fabs(vs_float_min_normal(VS_FLOAT_FP16) - 6e-5) < 2e-6);
	assert_int_equal(vs_float_format(VS_FLOAT_BF16)->exponent_bits,
	                 vs_float_format(VS_FLOAT_FP32)->exponent_bits);
	assert_int_equal(vs_float_format(VS_FLOAT_BF16)->mantissa_bits, 7);
	assert_same(vs_float_min_normal(VS_FLOAT_BF16), vs_float_min_normal(VS_FLOAT_FP32));
}

/* "FP16 cannot keep what is smaller than about 1e-5: it becomes 0" - not so soon: it is subnormal there, with fewer
 * bits, and 0 from 2.98e-8 down. BF16 keeps all of it. */
static void article_000_fp16_small(void **state)
{
	(void)state;
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 1e-5).event, VS_FLOAT_GRADUAL);
	assert_true(vs_float_encode(VS_FLOAT_FP16, 1e-5).value > 0);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 1e-8).value, 0);
	assert_int_equal(vs_float_encode(VS_FLOAT_BF16, 1e-8).event, VS_FLOAT_FITS);
}

/* "Loss times 1024 multiplies every gradient by it: what was below FP16's limit gets into its range." */
static void article_000_loss_times_1024(void **state)
{
	(void)state;
	for (double gradient = 6.2e-8; gradient > 6e-8; gradient -= 1e-10)
		assert_int_equal(vs_float_encode(VS_FLOAT_FP16, gradient * 1024).event, VS_FLOAT_FITS);
	assert_int_equal(vs_float_encode(VS_FLOAT_FP16, 2.9e-8).event, VS_FLOAT_UNDERFLOW);
	assert_true(vs_float_encode(VS_FLOAT_FP16, 2.9e-8 * 1024).value > 0);
}

/* "Too large a scale gives inf, and is halved until it does not"; GradScaler starts at 65536. */
static void article_000_scale_backs_off(void **state)
{
	double gradient = 3, scale = 65536;
	int halvings = 0;

	(void)state;
	for (; vs_float_encode(VS_FLOAT_FP16, gradient * scale).event == VS_FLOAT_OVERFLOW; scale /= 2)
		halvings++;
	assert_int_equal(halvings, 2); /* 3 x 16384 = 49152 is below 65504 */
	assert_true(isinf(vs_float_encode(VS_FLOAT_FP16, gradient * scale * 2).value));
}

/* "FP32 about 7 decimal digits, BF16 2 to 3, FP16 3 to 4; TF32 has 19 bits, stored in 32." */
static void article_004_decimal_digits(void **state)
{
	static const struct {
		enum vs_float_id id;
		double least, most;
		int bits;
	} rows[] = {{VS_FLOAT_FP32, 6.5, 7.5, 32},
	            {VS_FLOAT_BF16, 2, 3, 16},
	            {VS_FLOAT_FP16, 3, 4, 16},
	            {VS_FLOAT_TF32, 3, 4, 19},
	            {VS_FLOAT_FP8_E4M3, 1, 2, 8}};

	(void)state;
	for (int i = 0; i < 5; i++) {
		double digits = (vs_float_format(rows[i].id)->mantissa_bits + 1) * log10(2);

		assert_true(digits >= rows[i].least && digits <= rows[i].most);
		assert_int_equal(width(rows[i].id), rows[i].bits);
	}
}

/* "FP16's range is more than 30 orders of magnitude narrower"; "BF16's is as wide as FP32's". */
static void article_004_range(void **state)
{
	(void)state;
	assert_true(log10(vs_float_max(VS_FLOAT_FP32) / vs_float_max(VS_FLOAT_FP16)) > 30);
	assert_true(log10(vs_float_min_normal(VS_FLOAT_FP16) / vs_float_min_normal(VS_FLOAT_FP32)) > 30);
	assert_true(vs_float_max(VS_FLOAT_BF16) / vs_float_max(VS_FLOAT_FP32) > 0.99);
	assert_same(vs_float_min_normal(VS_FLOAT_BF16), vs_float_min_normal(VS_FLOAT_FP32));
}

/* "Scaling does not make FP16 more precise, it goes round a range": the same bits, another exponent. */
static void article_004_scaling_is_no_precision(void **state)
{
	(void)state;
	for (double value = 0.001; value < 1; value *= 1.37) {
		struct vs_float_bits plain = vs_float_encode(VS_FLOAT_FP16, value);
		struct vs_float_bits scaled = vs_float_encode(VS_FLOAT_FP16, value * 1024);

		assert_int_equal(plain.mantissa, scaled.mantissa);
		assert_int_equal(plain.exponent + 10, scaled.exponent);
		assert_same(scaled.value / 1024, plain.value);
	}
}

/* The slider: a number made smaller step by step. FP16 goes first, then BF16, FP32 last. */
static void article_004_slider_to_zero(void **state)
{
	double gone[3] = {0};
	static const enum vs_float_id formats[] = {VS_FLOAT_FP16, VS_FLOAT_BF16, VS_FLOAT_FP32};

	(void)state;
	for (int power = 0; power > -60; power--) {
		for (int i = 0; i < 3; i++) {
			if (!gone[i] && vs_float_encode(formats[i], pow(10, power)).value == 0)
				gone[i] = power;
		}
	}
	assert_int_equal(gone[0], -8);
	assert_int_equal(gone[1], -41);
	assert_int_equal(gone[2], -46);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_pattern_returns),
#ifdef HAVE_FLOAT16
	    cmocka_unit_test(fp16_as_the_compiler),
#endif
	    cmocka_unit_test(bf16_as_rounded_binary32),
#ifdef HAVE_BFLOAT16
	    cmocka_unit_test(bf16_as_the_compiler),
#endif
	    cmocka_unit_test(fp32_as_the_compiler),
	    cmocka_unit_test(fp8_as_searched),
	    cmocka_unit_test(fp8_limits_of_the_specification),
	    cmocka_unit_test(named_and_bad_names),
	    cmocka_unit_test(article_004_format_table),
	    cmocka_unit_test(article_004_underflow_limits),
	    cmocka_unit_test(article_004_loss_scaling),
	    cmocka_unit_test(article_000_fp16_and_bf16),
	    cmocka_unit_test(article_000_fp16_small),
	    cmocka_unit_test(article_000_loss_times_1024),
	    cmocka_unit_test(article_000_scale_backs_off),
	    cmocka_unit_test(article_004_decimal_digits),
	    cmocka_unit_test(article_004_range),
	    cmocka_unit_test(article_004_scaling_is_no_precision),
	    cmocka_unit_test(article_004_slider_to_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
