/* SPDX-License-Identifier: MIT */
#include "model/float.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct vs_float_format formats[VS_FLOAT_COUNT] = {
    [VS_FLOAT_FP32] = {"fp32", "IEEE 754 binary32", 8, 23, 32, true},
    [VS_FLOAT_TF32] = {"tf32", "NVIDIA A100 white paper: binary32 with a 10-bit mantissa", 8, 10, 32, true},
    [VS_FLOAT_BF16] = {"bf16", "bfloat16: the upper half of binary32", 8, 7, 16, true},
    [VS_FLOAT_FP16] = {"fp16", "IEEE 754 binary16", 5, 10, 16, true},
    [VS_FLOAT_FP8_E4M3] = {"fp8-e4m3", "Open Compute 8-bit floating point 1.0, E4M3 (float8_e4m3fn)", 4, 3, 8, false},
    [VS_FLOAT_FP8_E5M2] = {"fp8-e5m2", "Open Compute 8-bit floating point 1.0, E5M2", 5, 2, 8, true},
};

static const char *const class_names[] = {"zero", "subnormal", "normal", "infinity", "NaN"};
static const char *const event_names[] = {"fits", "subnormal", "underflow", "overflow", "not a number"};

const struct vs_float_format *vs_float_format(enum vs_float_id id)
{
	return &formats[id];
}

int vs_float_find(const char *name, enum vs_float_id *ret_id)
{
	for (int i = 0; i < VS_FLOAT_COUNT; i++) {
		if (!strcmp(formats[i].name, name)) {
			*ret_id = (enum vs_float_id)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *vs_float_class_name(enum vs_float_class klass)
{
	return class_names[klass];
}

const char *vs_float_event_name(enum vs_float_event event)
{
	return event_names[event];
}

static int bias(const struct vs_float_format *f)
{
	return (1 << (f->exponent_bits - 1)) - 1;
}

static uint32_t top_exponent(const struct vs_float_format *f)
{
	return (1u << f->exponent_bits) - 1;
}

/* Bits of the largest finite magnitude: with infinities the exponent below the top one, full mantissa; E4M3 gives
 * up only the all-ones pattern. */
static uint32_t max_finite_bits(const struct vs_float_format *f)
{
	uint32_t all = (1u << (f->exponent_bits + f->mantissa_bits)) - 1;

	return f->infinities ? all - (1u << f->mantissa_bits) : all - 1;
}

double vs_float_decode(enum vs_float_id id, uint32_t bits)
{
	const struct vs_float_format *f = &formats[id];
	uint32_t mantissa = bits & ((1u << f->mantissa_bits) - 1);
	uint32_t exponent = (bits >> f->mantissa_bits) & top_exponent(f);
	uint32_t negative = (bits >> (f->mantissa_bits + f->exponent_bits)) & 1;
	double magnitude;

	if (exponent == top_exponent(f) && f->infinities)
		magnitude = mantissa ? NAN : INFINITY;
	else if (exponent == top_exponent(f) && mantissa == (1u << f->mantissa_bits) - 1)
		magnitude = NAN;
	else if (exponent == 0)
		magnitude = ldexp(mantissa, 1 - bias(f) - f->mantissa_bits);
	else
		magnitude =
		    ldexp(mantissa + (double)(1u << f->mantissa_bits), (int)exponent - bias(f) - f->mantissa_bits);
	return negative ? -magnitude : magnitude;
}

double vs_float_max(enum vs_float_id id)
{
	return vs_float_decode(id, max_finite_bits(&formats[id]));
}

double vs_float_min_normal(enum vs_float_id id)
{
	return ldexp(1.0, 1 - bias(&formats[id]));
}

double vs_float_min_subnormal(enum vs_float_id id)
{
	return ldexp(1.0, 1 - bias(&formats[id]) - formats[id].mantissa_bits);
}

double vs_float_epsilon(enum vs_float_id id)
{
	return ldexp(1.0, -formats[id].mantissa_bits);
}

/* Nearest multiple of 2^unit, ties to even, counted in that unit. Scaling by a power of two is exact here: the
 * smallest double any caller passes, times 2^-unit, stays far inside double's range, and what falls below 2^-1074
 * in the division is under half a unit. */
static double round_to_unit(double magnitude, int unit)
{
	double scaled = ldexp(magnitude, -unit);
	double down = floor(scaled);
	double rest = scaled - down;

	if (rest > 0.5 || (rest == 0.5 && fmod(down, 2.0) != 0.0))
		down += 1.0;
	return down;
}

/* Bits of |value|, or max_finite_bits + 1 or above when it overflows. */
static uint32_t encode_magnitude(const struct vs_float_format *f, double magnitude)
{
	int exponent, lowest = 1 - bias(f);
	double units;

	if (magnitude == 0.0)
		return 0;
	frexp(magnitude, &exponent);
	exponent--; /* frexp's mantissa lies in [0.5, 1); ours in [1, 2) */
	if (exponent < lowest)
		exponent = lowest;
	if (exponent > bias(f) + 1)
		return max_finite_bits(f) + 1;
	units = round_to_unit(magnitude, exponent - f->mantissa_bits);
	/* A carry out of the mantissa adds one to the exponent by itself: the fields are adjacent. Subnormals have
	 * no leading one, which the same sum expresses with a biased exponent of 1 less the implicit bit. */
	return ((uint32_t)(exponent + bias(f) - 1) << f->mantissa_bits) + (uint32_t)units;
}

static enum vs_float_class classify(double value, double min_normal)
{
	if (isnan(value))
		return VS_FLOAT_NAN;
	if (isinf(value))
		return VS_FLOAT_INFINITE;
	if (value == 0.0)
		return VS_FLOAT_ZERO;
	return fabs(value) < min_normal ? VS_FLOAT_SUBNORMAL : VS_FLOAT_NORMAL;
}

static enum vs_float_event judge(double before, enum vs_float_class after)
{
	if (!isfinite(before))
		return VS_FLOAT_NOT_A_NUMBER;
	if (after == VS_FLOAT_NAN || after == VS_FLOAT_INFINITE)
		return VS_FLOAT_OVERFLOW;
	if (after == VS_FLOAT_ZERO && before != 0.0)
		return VS_FLOAT_UNDERFLOW;
	return after == VS_FLOAT_SUBNORMAL ? VS_FLOAT_GRADUAL : VS_FLOAT_FITS;
}

struct vs_float_bits vs_float_encode(enum vs_float_id id, double value)
{
	const struct vs_float_format *f = &formats[id];
	uint32_t nan = (1u << (f->exponent_bits + f->mantissa_bits)) - 1;
	uint32_t infinity = f->infinities ? top_exponent(f) << f->mantissa_bits : nan;
	struct vs_float_bits out = {.bias = bias(f), .sign = signbit(value) ? 1 : 0};
	uint32_t magnitude;

	if (isnan(value))
		magnitude = f->infinities ? infinity | 1u << (f->mantissa_bits - 1) : nan;
	else if (isinf(value))
		magnitude = infinity;
	else
		magnitude = encode_magnitude(f, fabs(value));
	if (isfinite(value) && magnitude > max_finite_bits(f))
		magnitude = infinity;

	out.exponent = magnitude >> f->mantissa_bits;
	out.mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
	out.bits = magnitude | out.sign << (f->exponent_bits + f->mantissa_bits);
	out.value = vs_float_decode(id, out.bits);
	out.klass = classify(out.value, vs_float_min_normal(id));
	out.event = judge(value, out.klass);
	return out;
}
