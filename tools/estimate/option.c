/* SPDX-License-Identifier: MIT */
#include "option.h"

#include "common/message.h"
#include "common/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_LIMIT (UINT64_C(1) << 53)

int vs_real_parse(const char *text, double *ret_value)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || isspace((unsigned char)*text))
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int vs_count_parse(const char *text, uint64_t *ret_count)
{
	static const struct {
		char letter;
		double factor;
	} suffixes[] = {{'k', 1e3}, {'K', 1e3}, {'m', 1e6},  {'M', 1e6},
	                {'b', 1e9}, {'B', 1e9}, {'t', 1e12}, {'T', 1e12}};
	char *end;
	double value = strtod(text, &end);

	if (end == text || isspace((unsigned char)*text) || !isfinite(value))
		return -EINVAL;
	for (size_t i = 0; *end && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (*end == suffixes[i].letter && !end[1]) {
			/* Rounded: 6.74 times 1e9 is not a whole number in binary. */
			value = round(value * suffixes[i].factor);
			end++;
		}
	}
	if (*end || value < 0 || value != floor(value))
		return -EINVAL;
	if (value > (double)EXACT_LIMIT)
		return -ERANGE;
	*ret_count = (uint64_t)value;
	return 0;
}

static int complain_choice(const struct vs_option *o, const char *text)
{
	char list[512] = "";

	for (size_t i = 0; o->choices[i]; i++) {
		strncat(list, i ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, o->choices[i], sizeof(list) - strlen(list) - 1);
	}
	vs_complain("unknown value for %s: %s: use one of %s", o->name, text, list);
	return -EINVAL;
}

static int store_count(const struct vs_option *o, const char *text)
{
	uint64_t limit = o->limit ? o->limit : EXACT_LIMIT;
	uint64_t lowest = o->kind == VS_OPTION_COUNT;
	uint64_t value;
	int error = vs_count_parse(text, &value);

	if (error == -EINVAL) {
		vs_complain("bad number for %s: %s: give a whole number, such as 4096 or 7e9", o->name, text);
		return -EINVAL;
	}
	if (error || value < lowest || value > limit) {
		vs_complain("%s out of range: %s: %llu to %llu", o->name, text, (unsigned long long)lowest,
		            (unsigned long long)limit);
		return -EINVAL;
	}
	*(uint64_t *)o->value = value;
	return 0;
}

static int store(const struct vs_option *o, const char *text)
{
	switch (o->kind) {
	case VS_OPTION_FLAG:
		*(bool *)o->value = true;
		return 0;
	case VS_OPTION_TEXT:
		*(const char **)o->value = text;
		return 0;
	case VS_OPTION_COUNT:
	case VS_OPTION_NUMBER:
		return store_count(o, text);
	case VS_OPTION_SIZE:
		if (vs_size_parse(text, o->value) || !*(uint64_t *)o->value) {
			vs_complain("bad size for %s: %s: give a size such as 80GiB or 24G", o->name, text);
			return -EINVAL;
		}
		return 0;
	case VS_OPTION_REAL:
		if (vs_real_parse(text, o->value) || !isfinite(*(double *)o->value)) {
			vs_complain("bad number for %s: %s: give a finite number", o->name, text);
			return -EINVAL;
		}
		return 0;
	case VS_OPTION_CHOICE:
		for (int i = 0; o->choices[i]; i++) {
			if (!strcmp(o->choices[i], text)) {
				*(int *)o->value = i;
				return 0;
			}
		}
		return complain_choice(o, text);
	}
	return -EINVAL;
}

static struct vs_option *find(struct vs_option *options, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (!strncmp(options[i].name, name, length) && !options[i].name[length])
			return &options[i];
	}
	return NULL;
}

bool vs_option_given(const struct vs_option *options, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(options[i].name, name))
			return options[i].given;
	}
	return false;
}

int vs_options_parse(int argc, char **argv, struct vs_option *options, size_t count, const char **positional,
                     size_t room, const char *usage)
{
	size_t found = 0;

	for (int i = 1; i < argc; i++) {
		const char *text = argv[i], *value = strchr(text, '=');
		struct vs_option *o;
		double number;

		if (!strcmp(text, "--help") || !strcmp(text, "-h")) {
			fputs(usage, stdout);
			return -ECANCELED;
		}
		if (text[0] != '-' || !text[1] || !vs_real_parse(text, &number)) {
			if (found == room) {
				vs_complain("one argument too many: %s: see --help", text);
				return -EINVAL;
			}
			positional[found++] = text;
			continue;
		}
		o = find(options, count, text, value ? (size_t)(value - text) : strlen(text));
		if (!o) {
			vs_complain("unknown option: %s: see --help", text);
			return -EINVAL;
		}
		if (o->given) {
			vs_complain("option given twice: %s: give it once", o->name);
			return -EINVAL;
		}
		if (o->kind == VS_OPTION_FLAG && value) {
			vs_complain("option takes no value: %s: leave it out", text);
			return -EINVAL;
		}
		if (o->kind != VS_OPTION_FLAG && !value && i + 1 == argc) {
			vs_complain("option without its value: %s: see --help", text);
			return -EINVAL;
		}
		if (value)
			value++;
		else if (o->kind != VS_OPTION_FLAG)
			value = argv[++i];
		if (store(o, value))
			return -EINVAL;
		o->given = true;
	}
	return (int)found;
}
