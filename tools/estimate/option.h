/* SPDX-License-Identifier: MIT
 *
 * Command-line options as a table: NAME VALUE or NAME=VALUE, each at most once, values checked on the way in.
 */
#ifndef VS_ESTIMATE_OPTION_H
#define VS_ESTIMATE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vs_option_kind {
	VS_OPTION_FLAG,   /* bool */
	VS_OPTION_TEXT,   /* const char *: points into argv */
	VS_OPTION_COUNT,  /* uint64_t in 1..limit, "4096", "7e9", "7B", "32k" (powers of 1000) */
	VS_OPTION_NUMBER, /* uint64_t in 0..limit, the same */
	VS_OPTION_SIZE,   /* uint64_t bytes, not 0: "80GiB", "24G" */
	VS_OPTION_REAL,   /* double, finite */
	VS_OPTION_CHOICE, /* int: the index in `choices` */
};

struct vs_option {
	const char *name; /* with its dashes */
	enum vs_option_kind kind;
	void *value;
	uint64_t limit; /* largest COUNT or NUMBER; 0: 2^53, what JSON and double keep exactly */
	const char *const *choices;
	bool given; /* set by the parser */
};

/* Parses argv[1..]. What is no option (a number counts as none, even a negative one) is collected in `positional`,
 * at most `room` of them. Returns their number, -ECANCELED after printing `usage` for --help, or -EINVAL after
 * one line on stderr. */
int vs_options_parse(int argc, char **argv, struct vs_option *options, size_t count, const char **positional,
                     size_t room, const char *usage);

bool vs_option_given(const struct vs_option *options, size_t count, const char *name);

/* "7e9", "7B", "4096", "32k"; -EINVAL: not a whole number, -ERANGE: above 2^53. */
int vs_count_parse(const char *text, uint64_t *ret_count);
/* A finite or infinite number and nothing after it. */
int vs_real_parse(const char *text, double *ret_value);

#endif
