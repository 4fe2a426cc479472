/* SPDX-License-Identifier: MIT */
#include "symbol/readable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* libstdc++'s demangler, an Itanium C++ ABI interface, so callable from C without a C++ header. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Length of an operator's name at `p` ("operator<<", "operator()"), 0 if none is there: its brackets are not
 * brackets. */
static size_t operator_length(const char *start, const char *p)
{
	static const char *const symbols[] = {"()", "[]", "<=>", "->*", "<<=", ">>=", "<<",
	                                      ">>", "<=", ">=",  "->",  "<",   ">"};

	if (strncmp(p, "operator", 8) || (p > start && is_name(p[-1])))
		return 0;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		if (!strncmp(p + 8, symbols[i], strlen(symbols[i])))
			return 8 + strlen(symbols[i]);
	return 0;
}

/* Drop "(...)" and empty "<...>", except for "(anonymous namespace)". In place. */
static void drop_arguments(char *text)
{
	const char *anonymous = "(anonymous namespace)";
	int round = 0, angle = 0;
	char *out = text;

	for (const char *p = text; *p;) {
		size_t length = operator_length(text, p);

		if (!length && !strncmp(p, anonymous, strlen(anonymous)))
			length = strlen(anonymous);
		if (length) {
			if (!round && !angle) {
				memmove(out, p, length);
				out += length;
			}
			p += length;
			continue;
		}
		if (*p == '<' && !round && !angle++)
			*out++ = '<';
		else if (*p == '>' && !round && angle && !--angle)
			*out++ = '>';
		else if (*p == '(' && !angle)
			round++;
		else if (*p == ')' && !angle && round)
			round--;
		else if (*p != '<' && *p != '>' && !round && !angle)
			*out++ = *p;
		p++;
	}
	*out = '\0';
}

/* Drop a return type in front and qualifiers behind. In place; returns where the name begins. */
static char *drop_around(char *text)
{
	static const char *const behind[] = {" const", " volatile", " &", " &&", " [clone .cold]"};
	char *begin = text, *clone = strstr(text, " [clone");

	if (clone)
		*clone = '\0';
	for (size_t i = 0; i < sizeof(behind) / sizeof(*behind); i++) {
		size_t length = strlen(text), tail = strlen(behind[i]);

		if (length > tail && !strcmp(text + length - tail, behind[i]))
			text[length - tail] = '\0';
	}
	for (char *p = text; *p; p++) {
		if (!strncmp(p, "operator", 8)) /* "operator bool", "operator new": the space is part of the name */
			break;
		if (*p == '(') { /* of (anonymous namespace): skip its space */
			p = strchr(p, ')');
			if (!p)
				break;
		}
		if (*p == ' ')
			begin = p + 1;
	}
	while (*begin == '*' || *begin == '&')
		begin++;
	return begin;
}

/* Shorten `text`, which is freed; `symbol` where nothing would be left of it. */
static char *shorten(char *text, const char *symbol)
{
	char *begin;

	drop_arguments(text);
	begin = drop_around(text);
	if (!*begin) {
		free(text);
		return strdup(symbol);
	}
	memmove(text, begin, strlen(begin) + 1);
	return text;
}

char *vs_readable(const char *symbol)
{
	char *text = NULL;
	int status = 0;

	if (symbol[0] == '_' && symbol[1] == 'Z')
		text = __cxa_demangle(symbol, NULL, NULL, &status);
	if (!text) /* C, or a name that the demangler does not know */
		return strdup(symbol);
	return shorten(text, symbol);
}

char *vs_readable_demangled(const char *name)
{
	char *text = strdup(name);

	return text ? shorten(text, name) : NULL;
}
