/* SPDX-License-Identifier: MIT
 *
 * One step of reading UTF-8 that nobody has checked.
 */
#ifndef VS_COMMON_UTF8_H
#define VS_COMMON_UTF8_H

#include <stdint.h>

/* Read the character at `text` (NUL-terminated, not at its end): its length in bytes, or 0 where the byte starts no
 * valid one (overlong, surrogate, above U+10FFFF, cut). */
unsigned vs_utf8_decode(const char *text, uint32_t *ret_character);
/* Columns a terminal gives to a character: 0 combining, 2 East Asian wide, else 1. */
unsigned vs_utf8_columns(uint32_t character);

#endif
