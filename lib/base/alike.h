/* SPDX-License-Identifier: MIT
 *
 * Names as people type them.
 */
#ifndef VS_BASE_ALIKE_H
#define VS_BASE_ALIKE_H

#include <ctype.h>
#include <stdbool.h>

/* Letters and digits alone, whatever their case: "A100 80" and "a100-80" are alike. */
static inline bool vs_alike(const char *left, const char *right)
{
	for (;;) {
		while (*left && !isalnum((unsigned char)*left))
			left++;
		while (*right && !isalnum((unsigned char)*right))
			right++;
		if (tolower((unsigned char)*left) != tolower((unsigned char)*right))
			return false;
		if (!*left)
			return true;
		left++;
		right++;
	}
}

#endif
