/* SPDX-License-Identifier: MIT */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	const char *name;
	uint64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"KB", 1000},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"MB", 1000000},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"GB", 1000000000},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"TB", 1000000000000},
};

int vs_size_parse(const char *text, uint64_t *ret_bytes)
{
	const char *at = text;
	uint64_t whole = 0, fraction = 0, scale = 1;
	bool digits = false;

	for (; isdigit((unsigned char)*at); at++, digits = true) {
		if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *at - '0', &whole))
			return -ERANGE;
	}
	if (*at == '.') {
		for (at++; isdigit((unsigned char)*at); at++, digits = true) {
			if (scale < 1000000000000000000) { /* finer than that is below a byte for every unit */
				fraction = fraction * 10 + (*at - '0');
				scale *= 10;
			}
		}
	}
	if (!digits)
		return -EINVAL;
	if (*at == ' ')
		at++;
	for (size_t i = 0; i < LENGTH(units); i++) {
		if (strcasecmp(at, units[i].name))
			continue;
		uint64_t bytes, part = (unsigned __int128)fraction * units[i].bytes / scale;
		if (__builtin_mul_overflow(whole, units[i].bytes, &bytes) ||
		    __builtin_add_overflow(bytes, part, &bytes))
			return -ERANGE;
		*ret_bytes = bytes;
		return 0;
	}
	return -EINVAL;
}

static const struct scale {
	unsigned base;
	const char *names[7];
} binary = {1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}},
  decimal = {1000, {"B", "kB", "MB", "GB", "TB", "PB", "EB"}};

static char *format(uint64_t bytes, const struct scale *scale, const char *sign, char text[VS_SIZE_MAX])
{
	if (bytes < scale->base) {
		snprintf(text, VS_SIZE_MAX, "%s%u B", bytes ? sign : "", (unsigned)bytes);
		return text;
	}
	double value = bytes;
	unsigned unit = 0;
	/* "0.98 GiB" rather than "1000.00 MiB": never more than three digits before the point, so columns stay narrow
	 * and neighbours comparable. */
	while (unit + 1 < LENGTH(scale->names) && value >= 999.995) {
		value /= scale->base;
		unit++;
	}
	if (unit == 0) {
		value /= scale->base;
		unit++;
	}
	snprintf(text, VS_SIZE_MAX, "%s%.2f %s", sign, value, scale->names[unit]);
	return text;
}

char *vs_size_format(uint64_t bytes, char text[VS_SIZE_MAX])
{
	return format(bytes, &binary, "", text);
}

char *vs_size_format_signed(int64_t bytes, char text[VS_SIZE_MAX])
{
	return format(bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes, &binary, bytes < 0 ? "-" : "+", text);
}

char *vs_size_format_decimal(uint64_t bytes, char text[VS_SIZE_MAX])
{
	return format(bytes, &decimal, "", text);
}

char *vs_count_format(uint64_t count, char text[VS_SIZE_MAX])
{
	char digits[24];
	int size = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	char *out = text;

	for (int i = 0; i < size; i++) {
		if (i && (size - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return text;
}
