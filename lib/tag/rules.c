/* SPDX-License-Identifier: MIT */
#include "tag/rules.h"

#include <stdbool.h>
#include <string.h>

static const struct vs_rule rules[] = {
#define VS_NATIVE(what, context, role, flags, library, since, source)                                                \
	{'N', "", what, VS_CONTEXT_##context, VS_ROLE_##role, flags, library, since, source},
#define VS_PYTHON(where, what, context, role, flags, library, since)                                                 \
	{'P', where, what, VS_CONTEXT_##context, VS_ROLE_##role, flags, library, since, where},
#include "tag/rules.def"
#undef VS_NATIVE
#undef VS_PYTHON
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

/* `where` is the first `length` characters. */
static bool is_place(const char *where, size_t length, const char *file)
{
	size_t whole = strlen(file);

	if (!length)
		return true;
	if (where[length - 1] == '/') { /* a folder; never a part of its name */
		for (const char *p = memmem(file, whole, where, length); p;
		     p = memmem(p + 1, whole - (size_t)(p + 1 - file), where, length))
			if (p == file || p[-1] == '/')
				return true;
		return false;
	}
	return whole >= length && !memcmp(file + whole - length, where, length) &&
	       (whole == length || file[whole - length - 1] == '/');
}

static bool is_one_of_places(const char *alternatives, const char *file)
{
	for (const char *p = alternatives;; p++) {
		size_t part = strcspn(p, "|");

		if (is_place(p, part, file))
			return true;
		p += part;
		if (!*p)
			return false;
	}
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
		if (rules[i].kind == 'P' && is_one_of_places(rules[i].where, file) &&
		    (!*rules[i].what || is_one_of(rules[i].what, name)))
			return (uint16_t)(i + 1);
	return 0;
}

const struct vs_rule *vs_rule(uint16_t number)
{
	return number && number <= RULE_COUNT ? &rules[number - 1] : NULL;
}
