/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "utf8.h"

static void new_line(const struct vs_json *json)
{
	fprintf(json->out, "\n%*s", (int)json->depth * 2, "");
}

static void quote(FILE *out, const char *text)
{
	uint32_t character;

	putc('"', out);
	while (*text) {
		unsigned length = vs_utf8_decode(text, &character);
		if (!length) {
			fputs("\\ufffd", out);
			text++;
			continue;
		}
		if (character == '"' || character == '\\')
			fprintf(out, "\\%c", (char)character);
		else if (character == '\n')
			fputs("\\n", out);
		else if (character == '\t')
			fputs("\\t", out);
		else if (character < 0x20 || character == 0x7f)
			fprintf(out, "\\u%04x", (unsigned)character);
		else
			fwrite(text, 1, length, out);
		text += length;
	}
	putc('"', out);
}

static void begin(struct vs_json *json, const char *key)
{
	if (json->depth) {
		bool *started = &json->started[json->depth - 1];
		bool line = json->line_depth && json->depth >= json->line_depth;

		assert(!key == json->array[json->depth - 1]);
		if (*started)
			fputs(line ? ", " : ",", json->out);
		if (!line)
			new_line(json);
		*started = true;
	}
	if (key) {
		quote(json->out, key);
		fputs(": ", json->out);
	}
}

static void open_group(struct vs_json *json, const char *key, bool array, bool line)
{
	begin(json, key);
	assert(json->depth < VS_JSON_DEPTH);
	json->started[json->depth] = false;
	json->array[json->depth] = array;
	json->depth++;
	if (line && !json->line_depth)
		json->line_depth = json->depth;
	putc(array ? '[' : '{', json->out);
}

void vs_json_object(struct vs_json *json, const char *key)
{
	open_group(json, key, false, false);
}

void vs_json_object_line(struct vs_json *json, const char *key)
{
	open_group(json, key, false, true);
}

void vs_json_array(struct vs_json *json, const char *key)
{
	open_group(json, key, true, false);
}

void vs_json_array_line(struct vs_json *json, const char *key)
{
	open_group(json, key, true, true);
}

void vs_json_end(struct vs_json *json)
{
	assert(json->depth);
	bool line = json->line_depth && json->depth >= json->line_depth;
	if (json->line_depth == json->depth)
		json->line_depth = 0;
	json->depth--;
	if (json->started[json->depth] && !line)
		new_line(json);
	putc(json->array[json->depth] ? ']' : '}', json->out);
	if (!json->depth)
		putc('\n', json->out);
}

void vs_json_string(struct vs_json *json, const char *key, const char *text)
{
	begin(json, key);
	if (text)
		quote(json->out, text);
	else
		fputs("null", json->out);
}

void vs_json_unsigned(struct vs_json *json, const char *key, uint64_t value)
{
	begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void vs_json_unsigned_if(struct vs_json *json, const char *key, bool known, uint64_t value)
{
	if (known)
		vs_json_unsigned(json, key, value);
	else
		vs_json_null(json, key);
}

void vs_json_signed(struct vs_json *json, const char *key, int64_t value)
{
	begin(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void vs_json_number(struct vs_json *json, const char *key, double value)
{
	begin(json, key);
	if (isfinite(value))
		fprintf(json->out, "%.9g", value);
	else
		fputs("null", json->out);
}

void vs_json_bool(struct vs_json *json, const char *key, bool value)
{
	begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void vs_json_null(struct vs_json *json, const char *key)
{
	begin(json, key);
	fputs("null", json->out);
}
