/* SPDX-License-Identifier: MIT
 *
 * The table of call-stack rules (rules.def): what one frame means. Matching is
 * string work, so it is done once for each distinct frame; stacks are then
 * evaluated from rule numbers (site.h).
 */
#ifndef VS_TAG_RULES_H
#define VS_TAG_RULES_H

#include "tag/site.h"

struct vs_rule {
	char kind; /* 'N' native, 'P' Python */
	const char
	    *where; /* P: places joined by '|': "a/b.py" matches the end of a path, "a/b/" a folder anywhere in it;
	             * "" any file */
	const char *what; /* P: function names joined by '|' (the last part of a qualified name), "" any;
	                   * N: parts of a symbol joined by '|' */
	uint8_t context;  /* enum vs_context; NONE: the rule says nothing of it */
	uint8_t role;     /* enum vs_role */
	uint16_t flags;   /* enum vs_site_flags */
	/* For people: whose function it is, the oldest release known to have it, the file of its repository. */
	const char *library, *since, *source;
};

/* Numbers of rules, from 1; 0: none applies. The first row of the table that matches wins. */
uint16_t vs_rule_native(const char *function);
uint16_t vs_rule_python(const char *file, const char *function);

/* NULL for 0 and unknown numbers. */
const struct vs_rule *vs_rule(uint16_t number);

#endif
