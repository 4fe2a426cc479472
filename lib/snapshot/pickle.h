/* SPDX-License-Identifier: MIT
 *
 * Read a pickle as data: numbers, strings, lists, tuples, sets and dicts. A
 * pickle is a program that can name and call any Python function; every
 * opcode that could is refused by its name, so nothing is ever executed.
 *
 * Memory is at most a fixed multiple of the input's size: strings stay in the
 * input, containers hold 8 bytes an element, the memo cannot be larger than
 * the input. Values form a graph (the memo shares containers, and can close
 * circles): whoever walks it must bound the walk, see vs_pickle_visit().
 */
#ifndef VS_SNAPSHOT_PICKLE_H
#define VS_SNAPSHOT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_pickle;

/* A value of the pickle: opaque, small, copied freely, valid as long as the pickle. */
typedef uint64_t vs_pickle_value;

enum vs_pickle_type {
	VS_PICKLE_NONE,
	VS_PICKLE_BOOL,
	VS_PICKLE_INT,
	VS_PICKLE_FLOAT,
	VS_PICKLE_STRING, /* text or bytes */
	VS_PICKLE_LIST,   /* list, tuple, set */
	VS_PICKLE_DICT,
};

struct vs_pickle_error {
	char text[160]; /* one line, for the user */
};

/* Parse the pickle in `data`, protocols 2 to 5. `data` must outlive the result. -EBADMSG: no pickle, or cut short;
 * -EPERM: an opcode that runs code; -EOVERFLOW: beyond a limit; -ENOMEM. `ret_error` is filled on failure. */
int vs_pickle_parse(const void *data, size_t size, struct vs_pickle **ret_pickle, struct vs_pickle_error *ret_error);
/* Accepts NULL. */
void vs_pickle_free(struct vs_pickle *pickle);

vs_pickle_value vs_pickle_root(const struct vs_pickle *pickle);
enum vs_pickle_type vs_pickle_type(vs_pickle_value value);

/* Each returns false, and leaves *ret alone, where the value is of another type or does not fit. Bools count as
 * integers, integers as floats. */
bool vs_pickle_int(const struct vs_pickle *pickle, vs_pickle_value value, int64_t *ret);
bool vs_pickle_uint(const struct vs_pickle *pickle, vs_pickle_value value, uint64_t *ret);
bool vs_pickle_float(const struct vs_pickle *pickle, vs_pickle_value value, double *ret);
/* The text is not terminated. */
bool vs_pickle_string(const struct vs_pickle *pickle, vs_pickle_value value, const char **ret_text, size_t *ret_size);
/* A dict's items are key, value, key, value, ...; count is the number of values in the array. */
bool vs_pickle_items(const struct vs_pickle *pickle, vs_pickle_value value, const vs_pickle_value **ret_items,
                     size_t *ret_count);
/* A dict's value for a key (the last one set), by a linear search; false if absent. */
bool vs_pickle_get(const struct vs_pickle *pickle, vs_pickle_value dict, const char *key, vs_pickle_value *ret_value);

/* A number for the caller's use on each container and string, 0 at first: to know a shared one again, or to refuse to
 * walk one twice. NULL for other values. */
uint32_t *vs_pickle_visit(struct vs_pickle *pickle, vs_pickle_value value);

#endif
