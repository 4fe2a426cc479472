/* SPDX-License-Identifier: MIT
 *
 * Write JSON as it comes, without keeping it: the caller opens and closes objects and arrays in order. Text that is
 * not UTF-8 is written with U+FFFD in place of each bad byte, so the output is always valid.
 */
#ifndef VS_COMMON_JSON_H
#define VS_COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define VS_JSON_DEPTH 32 /* nested objects and arrays; deeper is a mistake of the caller (assert) */

struct vs_json {
	FILE *out;
	unsigned depth;
	unsigned line_depth; /* from here on everything goes on one line; 0: nowhere */
	bool started[VS_JSON_DEPTH];
	bool array[VS_JSON_DEPTH];
};

/* A document is one value; vs_json_end() of the outermost object or array ends the last line. */
static inline struct vs_json vs_json_on(FILE *out)
{
	return (struct vs_json){.out = out};
}

/* `key` is NULL inside an array and for the outermost value. The _line forms keep all inside on one line. */
void vs_json_object(struct vs_json *json, const char *key);
void vs_json_object_line(struct vs_json *json, const char *key);
void vs_json_array(struct vs_json *json, const char *key);
void vs_json_array_line(struct vs_json *json, const char *key);
void vs_json_end(struct vs_json *json);

void vs_json_string(struct vs_json *json, const char *key, const char *text); /* NULL text: null */
void vs_json_unsigned(struct vs_json *json, const char *key, uint64_t value);
void vs_json_unsigned_if(struct vs_json *json, const char *key, bool known, uint64_t value); /* not known: null */
void vs_json_signed(struct vs_json *json, const char *key, int64_t value);
void vs_json_number(struct vs_json *json, const char *key, double value); /* not finite: null */
void vs_json_bool(struct vs_json *json, const char *key, bool value);
void vs_json_null(struct vs_json *json, const char *key);

#endif
