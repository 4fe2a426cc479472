/* SPDX-License-Identifier: MIT
 *
 * Number formats of training, bit by bit: what a value becomes when it is stored in one of them. Pure functions. */
#ifndef VS_MODEL_FLOAT_H
#define VS_MODEL_FLOAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vs_float_id {
	VS_FLOAT_FP32,
	VS_FLOAT_TF32,
	VS_FLOAT_BF16,
	VS_FLOAT_FP16,
	VS_FLOAT_FP8_E4M3,
	VS_FLOAT_FP8_E5M2,
	VS_FLOAT_COUNT,
};

struct vs_float_format {
	const char *name;
	const char *standard; /* where the encoding is defined */
	int exponent_bits;
	int mantissa_bits;
	int storage_bits; /* bits a stored element takes: TF32 is computed with 19 bits but kept in 32 */
	bool infinities;  /* false: FP8 E4M3 spends the top exponent on numbers and keeps one NaN per sign */
};

enum vs_float_class {
	VS_FLOAT_ZERO,
	VS_FLOAT_SUBNORMAL,
	VS_FLOAT_NORMAL,
	VS_FLOAT_INFINITE,
	VS_FLOAT_NAN,
};

enum vs_float_event {
	VS_FLOAT_FITS,         /* rounded at most in its last bit */
	VS_FLOAT_GRADUAL,      /* below the smallest normal: kept with fewer mantissa bits */
	VS_FLOAT_UNDERFLOW,    /* not zero before, zero after */
	VS_FLOAT_OVERFLOW,     /* finite before, infinite (or NaN where there is no infinity) after */
	VS_FLOAT_NOT_A_NUMBER, /* it came in as NaN or infinity */
};

struct vs_float_bits {
	uint32_t bits; /* sign, exponent and mantissa, right-aligned in exponent_bits + mantissa_bits + 1 */
	uint32_t sign;
	uint32_t exponent; /* biased */
	uint32_t mantissa;
	int bias;
	double value; /* exactly what is stored; every format here is a subset of double */
	enum vs_float_class klass;
	enum vs_float_event event;
};

const struct vs_float_format *vs_float_format(enum vs_float_id id);

/* Finds a format by its command-line name (fp32, tf32, bf16, fp16, fp8-e4m3, fp8-e5m2); -ENOENT if there is none. */
int vs_float_find(const char *name, enum vs_float_id *ret_id);

/* Rounds value to the nearest, ties to even, as the hardware conversions do. Overflow in FP8 E4M3 gives NaN, as
 * PyTorch's non-saturating cast does. */
struct vs_float_bits vs_float_encode(enum vs_float_id id, double value);

/* The value of a bit pattern; bits above the format's width are ignored. */
double vs_float_decode(enum vs_float_id id, uint32_t bits);

/* Largest finite, smallest normal and smallest subnormal value, and the gap between 1 and the next number. */
double vs_float_max(enum vs_float_id id);
double vs_float_min_normal(enum vs_float_id id);
double vs_float_min_subnormal(enum vs_float_id id);
double vs_float_epsilon(enum vs_float_id id);

const char *vs_float_class_name(enum vs_float_class klass);
const char *vs_float_event_name(enum vs_float_event event);

#endif
