/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GAP       2 /* blank columns between two columns */
#define FLEX_MIN  12
#define CELL_SIZE 4096

struct vs_table {
	unsigned columns;
	enum vs_column kinds[VS_TABLE_COLUMNS];
	char **cells; /* the titles are the first row */
	size_t count, room;
	enum vs_style *styles; /* by row */
	size_t styles_room;
	bool titled;
	bool broken; /* memory was out: what is there is printed */
};

static bool reserve(void **array, size_t *room, size_t needed, size_t size)
{
	if (needed <= *room)
		return true;
	size_t larger = needed * 2 + 64;
	void *grown = reallocarray(*array, larger, size);
	if (!grown)
		return false;
	memset((char *)grown + *room * size, 0, (larger - *room) * size);
	*array = grown;
	*room = larger;
	return true;
}

static void add(struct vs_table *table, char *text)
{
	if (!table || !text || table->broken ||
	    !reserve((void **)&table->cells, &table->room, table->count + 1, sizeof(char *))) {
		if (table)
			table->broken = true;
		free(text);
		return;
	}
	table->cells[table->count++] = text;
}

struct vs_table *vs_table_new(const char *titles, const enum vs_column *kinds)
{
	struct vs_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	while (table->columns < VS_TABLE_COLUMNS) {
		size_t length = strcspn(titles, ",");
		table->kinds[table->columns] = kinds[table->columns];
		table->columns++;
		table->titled |= length > 0;
		add(table, strndup(titles, length));
		if (!titles[length])
			break;
		titles += length + 1;
	}
	return table;
}

void vs_table_cell(struct vs_table *table, const char *text)
{
	add(table, strdup(text ? text : ""));
}

void vs_table_cellf(struct vs_table *table, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	add(table, text);
}

void vs_table_style(struct vs_table *table, enum vs_style style)
{
	size_t row = table ? (table->count - 1) / table->columns : 0;

	if (table && reserve((void **)&table->styles, &table->styles_room, row + 1, sizeof(enum vs_style)))
		table->styles[row] = style;
}

static void measure(const struct vs_table *table, const struct vs_screen *screen, unsigned indent, unsigned *widths)
{
	unsigned total = indent + GAP * (table->columns - 1);
	int flex = -1;

	for (unsigned i = 0; i < table->columns; i++)
		widths[i] = 0;
	for (size_t i = table->titled ? 0 : table->columns; i < table->count; i++) {
		unsigned columns = vs_text_columns(table->cells[i]);
		if (columns > widths[i % table->columns])
			widths[i % table->columns] = columns;
	}
	for (unsigned i = 0; i < table->columns; i++) {
		total += widths[i];
		if (table->kinds[i] >= VS_FLEX)
			flex = i;
	}
	if (flex >= 0 && total > screen->width) {
		unsigned excess = total - screen->width;
		unsigned width = widths[flex] > excess ? widths[flex] - excess : 0;
		if (width < FLEX_MIN)
			width = widths[flex] < FLEX_MIN ? widths[flex] : FLEX_MIN;
		widths[flex] = width;
	}
}

static void print_row(const struct vs_table *table, const struct vs_screen *screen, size_t row,
                      const unsigned *widths)
{
	char text[CELL_SIZE];
	unsigned pending = 0; /* blanks are printed only before text: no line ends in them */

	for (unsigned i = 0; i < table->columns && row * table->columns + i < table->count; i++) {
		vs_text_fit(screen, table->cells[row * table->columns + i], widths[i],
		            table->kinds[i] == VS_FLEX_START ? VS_CUT_START : VS_CUT_END, text, sizeof(text));
		unsigned blank = widths[i] - vs_text_columns(text);
		if (table->kinds[i] == VS_RIGHT)
			pending += blank;
		if (*text) {
			fprintf(screen->out, "%*s%s", (int)pending, "", text);
			pending = 0;
		}
		pending += GAP + (table->kinds[i] == VS_RIGHT ? 0 : blank);
	}
}

void vs_table_print(struct vs_table *table, const struct vs_screen *screen, unsigned indent)
{
	unsigned widths[VS_TABLE_COLUMNS];

	if (!table)
		return;
	measure(table, screen, indent, widths);
	size_t rows = (table->count + table->columns - 1) / table->columns;
	for (size_t row = table->titled ? 0 : 1; row < rows; row++) {
		enum vs_style style = row == 0 ? VS_DIM : row < table->styles_room ? table->styles[row] : VS_PLAIN;
		fprintf(screen->out, "%*s%s", (int)indent, "",
		        style != VS_PLAIN ? vs_screen_style(screen, style) : "");
		print_row(table, screen, row, widths);
		fprintf(screen->out, "%s\n", style != VS_PLAIN ? vs_screen_style(screen, VS_PLAIN) : "");
	}
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table->styles);
	free(table);
}
