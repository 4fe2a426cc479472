/* SPDX-License-Identifier: MIT */
#include "oom/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "oom/oom.h"

enum {
	PREFIX_MAX = 160, /* bytes that a logger may put before each line */
	HEAD_MAX = 120,   /* ... of it, where "program[123]: " or "file.cc:12] " is looked for */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '/';
}

static bool starts(const char *at, const char *end, const char *with)
{
	size_t length = strlen(with);

	return (size_t)(end - at) >= length && !memcmp(at, with, length);
}

/* Past an escape sequence whose introducer ends before `at`: "[31m", "]0;title\a". */
static const char *skip_escape(const char *at, const char *end)
{
	if (at < end && *at == '[') {
		for (at++; at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x40; at++)
			;
		return at < end ? at + 1 : at;
	}
	if (at < end && *at == ']') {
		while (at < end && *at != '\a' && *at != '\n' && *at != '\x1b')
			at++;
		return at;
	}
	return at < end && *at != '\n' ? at + 1 : at;
}

/* How escape characters are spelled where a log is itself text in JSON, in Python or on a terminal. */
static const char *const escapes[] = {"\x1b", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e[", "^[["};

/* Past what shows nothing or only decorates: NULL if there is none at `at`. */
static const char *skip_decoration(const char *at, const char *end)
{
	unsigned char c = *at;

	if (c == 0x1b || c == '\\' || c == '^') {
		for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
			if (starts(at, end, escapes[i])) {
				/* Where the bracket is part of how it is spelled, it is yet to be skipped. */
				size_t length = strlen(escapes[i]) - (escapes[i][strlen(escapes[i]) - 1] == '[');
				return skip_escape(at + length, end);
			}
		}
	}
	if (c == '\\' && end - at >= 2 && (at[1] == 't' || at[1] == 'r' || at[1] == '"'))
		return at + 2;
	if (c == 0xc2 && end - at >= 2 && (unsigned char)at[1] == 0xa0) /* no-break space */
		return at + 2;
	if (c == 0xe2 && end - at >= 3) {
		unsigned char second = at[1], third = at[2];
		if (second == 0x94 || second == 0x95) /* U+2500 to U+257F: frames */
			return at + 3;
		if (second == 0x80 && third >= 0x8b && third <= 0x8f) /* of no width */
			return at + 3;
	}
	if (c == 0xe3 && end - at >= 3 && (unsigned char)at[1] == 0x80 && (unsigned char)at[2] == 0x80)
		return at + 3; /* U+3000, a blank as wide as a Chinese character */
	if (c <= ' ' || c == 0x7f || c == '"' || c == '`' || c == '*' || c == '|' || c == 0xfe || c == 0xff)
		return at + 1;
	return NULL;
}

static bool line_ends(const char *at, const char *end, size_t *ret_length)
{
	*ret_length = at < end && *at == '\n' ? 1 : 2;
	return at < end && (*at == '\n' || starts(at, end, "\\n"));
}

/* "2026-01-31T12:00:00,123", "12:00:00.1", "31/01/26": digits in at least three groups. */
static const char *skip_time(const char *at, const char *end)
{
	const char *from = at;
	unsigned groups = 0;

	if (at == end || !is_digit(*at))
		return NULL;
	for (; at < end && (is_digit(*at) || strchr(":-/.,TZ+", *at)) && *at; at++)
		groups += *at == ':' || *at == '-' || *at == '/';
	return groups >= 2 && at - from <= 40 ? at : NULL;
}

static const char *skip_brackets(const char *at, const char *end)
{
	const char *limit = end - at > 80 ? at + 80 : end, *close;

	if (at == end || (*at != '[' && *at != '('))
		return NULL;
	close = memchr(at, *at == '[' ? ']' : ')', (size_t)(limit - at));
	if (!close)
		return NULL;
	if (*at == '[')
		return starts(at, end, "[ExpandableSegmentVA]") ? NULL : close + 1;
	/* "(RayTrainWorker pid=12, ip=10.0.0.1) ": any other text in round brackets may be the error's own. */
	return memmem(at, (size_t)(close - at), "pid=", 4) || memmem(at, (size_t)(close - at), "rank", 4) ? close + 1
	                                                                                                  : NULL;
}

static const char *skip_word(const char *at, const char *end)
{
	static const char *const words[] = {"INFO", "WARNING", "WARN",   "ERROR",  "CRITICAL", "FATAL", "DEBUG",
	                                    "info", "warning", "stderr", "stdout", "error",    ">",     "#"};
	const char *from = at;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!starts(at, end, words[i]))
			continue;
		at += strlen(words[i]);
		if (at < end && (*at == ':' || *at == ' ' || *at == ']' || *at == '\t'))
			return at + 1;
		at = from;
	}
	/* "3: " of srun -l, "trainer-1  | " of docker compose, "worker-0: ". */
	while (at < end && is_word(*at) && at - from < 40)
		at++;
	if (at == from)
		return NULL;
	if (end - at >= 2 && at[0] == ':' && at[1] == ' ' && is_digit(at[-1]))
		return at + 2;
	while (at < end && *at == ' ')
		at++;
	return at < end && *at == '|' ? at + 1 : NULL;
}

/* "Jan 31 12:00:00 host python[123]: " and "E0131 12:00:00.123456 12 file.cc:34] ". */
static const char *skip_head(const char *at, const char *end)
{
	const char *limit = end - at > HEAD_MAX ? at + HEAD_MAX : end;

	for (const char *c = at + 2; c < limit; c++) {
		if (*c == '\n')
			return NULL;
		if (*c != ']' || !is_digit(c[-1]))
			continue;
		const char *digits = c - 1;
		while (digits > at && is_digit(*digits))
			digits--;
		if (*digits == ':' && c + 1 < end && c[1] == ' ')
			return c + 1;
		if (*digits == '[' && digits > at && is_word(digits[-1]) && c + 1 < end && c[1] == ':')
			return c + 2;
	}
	return NULL;
}

/* What joins the parts of a prefix: ": ", "- ", "<stderr>". */
static const char *skip_joint(const char *at, const char *end)
{
	if (end - at >= 2 && (*at == ':' || *at == '-') && at[1] == ' ')
		return at + 2;
	return starts(at, end, "<stderr>") || starts(at, end, "<stdout>") ? at + 8 : NULL;
}

static const char *skip_prefix(const char *at, const char *end)
{
	const char *from = at, *next, *head = skip_head(at, end);

	if (head)
		at = head;
	while (at < end && at - from < PREFIX_MAX) {
		if (*at != '|' && *at == ' ')
			next = at + 1;
		else if (!(next = skip_joint(at, end)) && !(next = skip_brackets(at, end)) &&
		         !(next = skip_time(at, end)) && !(next = skip_word(at, end)) && *at != '\n')
			next = skip_decoration(at, end);
		if (!next)
			break;
		at = next;
	}
	return at;
}

int vs_oom_text_read(const char *text, size_t size, struct vs_oom_text *ret_text)
{
	struct vs_oom_text read = {.bytes = malloc(size + 1), .line_starts = calloc(size + 1, 1)};
	const char *at = text, *end = text + size, *next;
	bool line_start = true;
	size_t length;

	if (!read.bytes || !read.line_starts) {
		vs_oom_text_free(&read);
		return -ENOMEM;
	}
	while (at < end) {
		if (line_ends(at, end, &length)) {
			at += length;
			line_start = true;
			continue;
		}
		if (line_start) {
			at = skip_prefix(at, end);
			read.line_starts[read.size] = 1;
			line_start = false;
			continue; /* the line may be at its end */
		}
		next = skip_decoration(at, end);
		if (next) {
			at = next;
			continue;
		}
		read.bytes[read.size++] = (char)tolower((unsigned char)*at++);
	}
	*ret_text = read;
	return 0;
}

void vs_oom_text_free(struct vs_oom_text *text)
{
	free(text->bytes);
	free(text->line_starts);
	*text = (struct vs_oom_text){0};
}

/* Where the rest of a phrase goes on, behind the prefix of the line that begins at `at`. */
static size_t resume(const struct vs_oom_text *text, size_t at, const char *rest)
{
	size_t needed = strnlen(rest, 4);

	for (size_t i = at + 1; i < text->size && i - at <= PREFIX_MAX && !text->line_starts[i]; i++) {
		size_t same = 0;
		while (same < needed && i + same < text->size && text->bytes[i + same] == rest[same])
			same++;
		if (same == needed)
			return i;
	}
	return VS_OOM_NOWHERE;
}

static size_t match(const struct vs_oom_text *text, size_t at, const char *phrase, bool prefixes)
{
	for (const char *c = phrase; *c;) {
		if (at < text->size && text->bytes[at] == *c) {
			at++;
			c++;
			continue;
		}
		if (!prefixes || c == phrase || at >= text->size || !text->line_starts[at])
			return VS_OOM_NOWHERE;
		at = resume(text, at, c);
		if (at == VS_OOM_NOWHERE)
			return at;
	}
	return at;
}

static struct vs_oom_span find(const struct vs_oom_text *text, size_t from, size_t until, const char *phrase,
                               bool prefixes)
{
	while (from < until) {
		const char *first = memchr(text->bytes + from, phrase[0], until - from);
		if (!first)
			break;
		from = (size_t)(first - text->bytes);
		size_t end = match(text, from, phrase, prefixes);
		if (end != VS_OOM_NOWHERE)
			return (struct vs_oom_span){from, end};
		from++;
	}
	return (struct vs_oom_span){VS_OOM_NOWHERE, VS_OOM_NOWHERE};
}

struct vs_oom_span vs_oom_text_find(const struct vs_oom_text *text, size_t from, size_t until, const char *phrase)
{
	struct vs_oom_span span;

	until = until < text->size ? until : text->size;
	/* To take text for a prefix is a guess: only where nothing else is found. */
	span = find(text, from, until, phrase, false);
	return span.begin == VS_OOM_NOWHERE ? find(text, from, until, phrase, true) : span;
}

struct vs_oom_span vs_oom_text_find_last(const struct vs_oom_text *text, size_t until, const char *phrase)
{
	struct vs_oom_span last = {VS_OOM_NOWHERE, VS_OOM_NOWHERE}, span;
	size_t from = 0;

	until = until < text->size ? until : text->size;
	for (int prefixes = 0; prefixes < 2; prefixes++) {
		while ((span = find(text, from, until, phrase, prefixes)).begin != VS_OOM_NOWHERE) {
			last = span;
			from = span.begin + 1;
		}
	}
	return last;
}

static const struct {
	const char *name;
	uint64_t bytes;
} units[] = {
    {"bytes", 1},     {"byte", 1},      {"kib", 1 << 10},
    {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", UINT64_C(1) << 40},
    {"kb", 1000},     {"mb", 1000000},  {"gb", 1000000000},
    {"b", 1},         {"k", 1 << 10},   {"m", 1 << 20},
    {"g", 1 << 30},
};

#define UNITS (sizeof(units) / sizeof(units[0]))

/* Digits with at most one point (or comma, as some locales have it) between them. */
static uint64_t number(const char *digits, size_t length, uint64_t unit)
{
	unsigned __int128 value = 0, scale = 1;
	bool fraction = false;

	if (!length || length > 24 || !is_digit(digits[0]) || !is_digit(digits[length - 1]))
		return VS_OOM_UNKNOWN;
	for (size_t i = 0; i < length; i++) {
		if (!is_digit(digits[i])) {
			if (fraction)
				return VS_OOM_UNKNOWN;
			fraction = true;
			continue;
		}
		value = value * 10 + (unsigned)(digits[i] - '0');
		scale *= fraction ? 10 : 1;
	}
	/* At most 24 digits and a unit of 2^40: far from 2^128. */
	value = value * unit / scale;
	return value <= UINT64_C(1) << 60 ? (uint64_t)value : VS_OOM_UNKNOWN;
}

/* A letter alone is a unit only where no word begins with it: "InUse: 512 MaxInUse: 512" has lost its blanks. */
static bool unit_fits(const struct vs_oom_text *text, size_t at, const char *name)
{
	size_t length = strlen(name);

	if (length > text->size - at || memcmp(text->bytes + at, name, length))
		return false;
	return length > 1 || at + 1 == text->size || !isalpha((unsigned char)text->bytes[at + 1]);
}

static bool numeric(char c)
{
	return is_digit(c) || c == '.' || c == ',';
}

uint64_t vs_oom_text_size_at(const struct vs_oom_text *text, size_t at, size_t *ret_other)
{
	size_t end = at;
	uint64_t unit = 1;

	while (end < text->size && numeric(text->bytes[end]) && end - at <= 25)
		end++;
	while (end > at && !is_digit(text->bytes[end - 1]))
		end--;
	if (ret_other)
		*ret_other = end;
	for (size_t i = 0; i < UNITS; i++) {
		if (!unit_fits(text, end, units[i].name))
			continue;
		unit = units[i].bytes;
		if (ret_other)
			*ret_other = end + strlen(units[i].name);
		break;
	}
	return number(text->bytes + at, end - at, unit);
}

uint64_t vs_oom_text_size_before(const struct vs_oom_text *text, size_t end)
{
	uint64_t unit = 1;
	size_t begin;

	for (size_t i = 0; i < UNITS; i++) {
		size_t length = strlen(units[i].name);
		if (length > end || memcmp(text->bytes + end - length, units[i].name, length))
			continue;
		unit = units[i].bytes;
		end -= length;
		break;
	}
	begin = end;
	while (begin > 0 && numeric(text->bytes[begin - 1]) && end - begin <= 25)
		begin--;
	while (begin < end && !is_digit(text->bytes[begin]))
		begin++;
	return number(text->bytes + begin, end - begin, unit);
}
