/* SPDX-License-Identifier: MIT
 *
 * What people look at: its width, whether it can show colour and UTF-8, and text made to fit.
 */
#ifndef VS_COMMON_SCREEN_H
#define VS_COMMON_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct vs_screen {
	FILE *out;
	unsigned width; /* columns, 40 to 400 */
	bool color;
	bool utf8;
};

/* Width: COLUMNS, else the terminal's, else 100. Colour only on a terminal and without NO_COLOR or TERM=dumb. UTF-8
 * by LC_ALL, LC_CTYPE or LANG, as setlocale(3) ranks them. */
struct vs_screen vs_screen_on(FILE *out);

enum vs_style { VS_PLAIN, VS_BOLD, VS_DIM, VS_RED, VS_YELLOW };
/* The escape sequence that starts a style; "" without colour. VS_PLAIN ends it. */
const char *vs_screen_style(const struct vs_screen *screen, enum vs_style style);
/* A headline: bold, with a blank line above. */
void vs_screen_title(const struct vs_screen *screen, const char *title);
/* printf of running text, broken at spaces to the width, continued lines indented by `indent` columns. */
void vs_screen_text(const struct vs_screen *screen, unsigned indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Columns of a text. Control characters and bytes that are not UTF-8 count 1: they are shown as '?'. */
unsigned vs_text_columns(const char *text);

enum vs_cut { VS_CUT_END, VS_CUT_START }; /* what is left out where it does not fit */
/* Copy `text`, made safe to show, in at most `columns` columns, with an ellipsis where it is cut. `size` bounds the
 * copy in bytes and never splits a character. */
void vs_text_fit(const struct vs_screen *screen, const char *text, unsigned columns, enum vs_cut cut, char *ret_text,
                 size_t size);

/* A bar for `part` of `whole` in `columns` columns, by eighths of a column where UTF-8 can show them. */
void vs_text_bar(const struct vs_screen *screen, double part, double whole, unsigned columns, char *ret_text,
                 size_t size);

#endif
