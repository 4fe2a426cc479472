/* SPDX-License-Identifier: MIT */
#include "tag/rules.h"

#include <stdbool.h>
#include <string.h>

static const struct vs_rule rules[] = {
#define VS_RULE(kind, where, what, context, role, flags)                                                             \
	{kind, where, what, VS_CONTEXT_##context, VS_ROLE_##role, flags},
#include "tag/rules.def"
#undef VS_RULE
};

#define RULE_COUNT (sizeof(rules) / sizeof(*rules))

/* Is `name` one of the alternatives of "a|b|c"? */
static bool is_one_of(const char *alternatives, const char *name)
{
	size_t length = strlen(name);

	for (const char *p = alternatives;; p++) {
		size_t part = strcspn(p, "|");

		if (part == length && !memcmp(p, name, length))
			return true;
		p += part;
		if (!*p)
			return false;
	}
}

/* Does `text` contain one of the alternatives? */
static bool contains_one_of(const char *text, const char *alternatives)
{
	for (const char *p = alternatives;; p++) {
		size_t part = strcspn(p, "|");

		if (memmem(text, strlen(text), p, part))
			return true;
		p += part;
		if (!*p)
			return false;
	}
}

static bool is_place(const char *where, const char *file)
{
	size_t length = strlen(where), whole = strlen(file);

	if (!length)
		return true;
	if (where[length - 1] == '/') { /* a folder; never a part of its name */
		for (const char *p = strstr(file, where); p; p = strstr(p + 1, where))
			if (p == file || p[-1] == '/')
				return true;
		return false;
	}
	return whole >= length && !strcmp(file + whole - length, where) &&
	       (whole == length || file[whole - length - 1] == '/');
}

uint16_t vs_rule_native(const char *function)
{
	for (size_t i = 0; i < RULE_COUNT; i++)
		if (rules[i].kind == 'N' && contains_one_of(function, rules[i].what))
			return (uint16_t)(i + 1);
	return 0;
}

uint16_t vs_rule_python(const char *file, const char *function)
{
	const char *dot = strrchr(function, '.'), *name = dot ? dot + 1 : function;

	for (size_t i = 0; i < RULE_COUNT; i++)
		if (rules[i].kind == 'P' && is_place(rules[i].where, file) &&
		    (!*rules[i].what || is_one_of(rules[i].what, name)))
			return (uint16_t)(i + 1);
	return 0;
}

const struct vs_rule *vs_rule(uint16_t number)
{
	return number && number <= RULE_COUNT ? &rules[number - 1] : NULL;
}
