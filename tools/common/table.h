/* SPDX-License-Identifier: MIT
 *
 * Rows and columns for people: collected, then printed aligned.
 */
#ifndef VS_COMMON_TABLE_H
#define VS_COMMON_TABLE_H

#include "screen.h"

#define VS_TABLE_COLUMNS 16

enum vs_column {
	VS_LEFT,
	VS_RIGHT,      /* numbers */
	VS_FLEX,       /* left; takes what width is left, cut at the end. At most one a table */
	VS_FLEX_START, /* the same, cut at the start: paths */
};

struct vs_table;

/* `titles` is comma-separated ("tag,size,share"); an empty title is allowed, all empty: no title line. The kinds are
 * one for each title. NULL when memory is out; the other functions accept NULL. */
struct vs_table *vs_table_new(const char *titles, const enum vs_column *kinds);
/* Fill the next cell, row by row. Text is copied; NULL is an empty cell. */
void vs_table_cell(struct vs_table *table, const char *text);
void vs_table_cellf(struct vs_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The row just begun or just completed gets this style. */
void vs_table_style(struct vs_table *table, enum vs_style style);
/* Print, indented by `indent` columns, and free. */
void vs_table_print(struct vs_table *table, const struct vs_screen *screen, unsigned indent);

#endif
