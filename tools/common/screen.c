/* SPDX-License-Identifier: MIT */
#include "screen.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "utf8.h"

#define WIDTH_DEFAULT 100
#define WIDTH_MIN     40
#define WIDTH_MAX     400

static bool locale_is_utf8(void)
{
	static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

struct vs_screen vs_screen_on(FILE *out)
{
	struct vs_screen screen = {.out = out, .width = WIDTH_DEFAULT, .utf8 = locale_is_utf8()};
	const char *columns = getenv("COLUMNS"), *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(fileno(out));
	struct winsize size;

	if (columns && atoi(columns) > 0)
		screen.width = atoi(columns);
	else if (terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col)
		screen.width = size.ws_col;
	screen.width = screen.width < WIDTH_MIN ? WIDTH_MIN : screen.width > WIDTH_MAX ? WIDTH_MAX : screen.width;
	screen.color = terminal && !(no_color && *no_color) && term && strcmp(term, "dumb");
	return screen;
}

const char *vs_screen_style(const struct vs_screen *screen, enum vs_style style)
{
	static const char *const codes[] = {
	    [VS_PLAIN] = "\033[0m",  [VS_BOLD] = "\033[1m",    [VS_DIM] = "\033[2m",
	    [VS_RED] = "\033[1;31m", [VS_YELLOW] = "\033[33m",
	};

	return screen->color ? codes[style] : "";
}

void vs_screen_title(const struct vs_screen *screen, const char *title)
{
	fprintf(screen->out, "\n%s%s%s\n", vs_screen_style(screen, VS_BOLD), title,
	        vs_screen_style(screen, VS_PLAIN));
}

/* The character at *text made showable: '?' for what is not; *text moves on. */
static unsigned next(const char **text, uint32_t *ret_character)
{
	unsigned length = vs_utf8_decode(*text, ret_character);

	if (!length || *ret_character < 0x20 || (*ret_character >= 0x7f && *ret_character < 0xa0)) {
		*ret_character = '?';
		*text += length ? length : 1;
		return 1;
	}
	*text += length;
	return vs_utf8_columns(*ret_character);
}

unsigned vs_text_columns(const char *text)
{
	unsigned columns = 0;
	uint32_t character;

	while (*text)
		columns += next(&text, &character);
	return columns;
}

/* Append the character that lies between `from` and `to`, or '?' where it is not showable as it is. */
static bool put(const struct vs_screen *screen, const char *from, const char *to, uint32_t character, char *ret_text,
                size_t *used, size_t size)
{
	bool copy = character != '?' && (screen->utf8 || character < 0x80);
	size_t length = copy ? (size_t)(to - from) : 1;

	if (*used + length + 1 > size)
		return false;
	memcpy(ret_text + *used, copy ? from : "?", length);
	*used += length;
	return true;
}

void vs_text_fit(const struct vs_screen *screen, const char *text, unsigned columns, enum vs_cut cut, char *ret_text,
                 size_t size)
{
	const char *ellipsis = screen->utf8 ? "…" : "~";
	unsigned total = vs_text_columns(text), room = columns, wide;
	const char *at = text, *from;
	uint32_t character;
	size_t used = 0;

	if (!size)
		return;
	bool cutting = total > columns;
	if (cutting)
		room = columns ? columns - 1 : 0;
	if (cutting && cut == VS_CUT_START) {
		for (unsigned left = total; left > room && *at;)
			left -= next(&at, &character);
		if (columns && strlen(ellipsis) + 1 <= size)
			used = strlen(strcpy(ret_text, ellipsis));
	}
	while (*at) {
		from = at;
		wide = next(&at, &character);
		if (wide > room || !put(screen, from, at, character, ret_text, &used, size))
			break;
		room -= wide;
	}
	if (cutting && cut == VS_CUT_END && columns && used + strlen(ellipsis) + 1 <= size)
		used += strlen(strcpy(ret_text + used, ellipsis));
	ret_text[used] = '\0';
}

void vs_text_bar(const struct vs_screen *screen, double part, double whole, unsigned columns, char *ret_text,
                 size_t size)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	double share = whole > 0 && part > 0 ? part / whole : 0;
	unsigned filled = (share > 1 ? 1 : share) * columns * 8 + 0.5;
	size_t used = 0;

	if (!size)
		return;
	for (; filled >= 8 && used + 4 <= size; filled -= 8)
		used += strlen(strcpy(ret_text + used, screen->utf8 ? "█" : "#"));
	if (filled && screen->utf8 && used + 4 <= size)
		used += strlen(strcpy(ret_text + used, eighths[filled % 8]));
	ret_text[used] = '\0';
}

void vs_screen_text(const struct vs_screen *screen, unsigned indent, const char *format, ...)
{
	char *text = NULL, *save = NULL;
	unsigned column = 0;
	va_list args;

	va_start(args, format);
	int r = vasprintf(&text, format, args);
	va_end(args);
	if (r < 0)
		return;
	/* A text that starts with blanks starts there; all later runs of blanks are one. */
	for (const char *at = text; *at == ' '; at++, column++)
		putc(' ', screen->out);
	unsigned start = column;
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		unsigned columns = vs_text_columns(word);
		if (column > start && column + 1 + columns > screen->width) {
			fprintf(screen->out, "\n%*s", (int)indent, "");
			column = start = indent;
		} else if (column > start) {
			putc(' ', screen->out);
			column++;
		}
		fputs(word, screen->out);
		column += columns;
	}
	putc('\n', screen->out);
	free(text);
}
