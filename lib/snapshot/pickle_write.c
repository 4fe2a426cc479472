/* SPDX-License-Identifier: MIT */
#include "snapshot/pickle_write.h"

#include <errno.h>
#include <string.h>

static void put(struct vs_pickle_writer *w, const char *bytes, size_t size)
{
	fwrite(bytes, 1, size, w->out);
}

static void opcode(struct vs_pickle_writer *w, unsigned char code)
{
	putc(code, w->out);
}

static void little(struct vs_pickle_writer *w, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		putc((int)(value >> (8 * i) & 0xff), w->out);
}

void vs_pickle_begin(struct vs_pickle_writer *w, FILE *out)
{
	*w = (struct vs_pickle_writer){.out = out};
	put(w, "\x80\x04", 2); /* PROTO 4 */
}

int vs_pickle_end(struct vs_pickle_writer *w)
{
	opcode(w, '.'); /* STOP */
	return ferror(w->out) ? -EIO : 0;
}

void vs_pickle_dict_begin(struct vs_pickle_writer *w)
{
	put(w, "}(", 2); /* EMPTY_DICT MARK */
}

void vs_pickle_dict_end(struct vs_pickle_writer *w)
{
	opcode(w, 'u'); /* SETITEMS */
}

void vs_pickle_list_begin(struct vs_pickle_writer *w)
{
	put(w, "](", 2); /* EMPTY_LIST MARK */
}

void vs_pickle_list_end(struct vs_pickle_writer *w)
{
	opcode(w, 'e'); /* APPENDS */
}

void vs_pickle_pair(struct vs_pickle_writer *w)
{
	opcode(w, 0x86); /* TUPLE2 */
}

void vs_pickle_none(struct vs_pickle_writer *w)
{
	opcode(w, 'N');
}

void vs_pickle_bool(struct vs_pickle_writer *w, bool value)
{
	opcode(w, value ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
}

void vs_pickle_number(struct vs_pickle_writer *w, uint64_t value)
{
	unsigned int bytes = 1;

	if (value <= 0xff) {
		opcode(w, 'K'); /* BININT1 */
		little(w, value, 1);
		return;
	}
	if (value <= 0xffff) {
		opcode(w, 'M'); /* BININT2 */
		little(w, value, 2);
		return;
	}
	if (value <= INT32_MAX) {
		opcode(w, 'J'); /* BININT */
		little(w, value, 4);
		return;
	}
	/* LONG1: two's complement, so the top bit must stay free. What does not fit 8 bytes cannot be shown by the
	 * viewer either: no address or size is that large. */
	if (value > INT64_MAX)
		value = INT64_MAX;
	while (bytes < 8 && value >> (8 * bytes - 1))
		bytes++;
	opcode(w, 0x8a);
	little(w, bytes, 1);
	little(w, value, bytes);
}

void vs_pickle_negative(struct vs_pickle_writer *w, int32_t value)
{
	opcode(w, 'J'); /* BININT */
	little(w, (uint32_t)value, 4);
}

void vs_pickle_real(struct vs_pickle_writer *w, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	opcode(w, 'G'); /* BINFLOAT: big-endian */
	for (unsigned int i = 8; i-- > 0;)
		putc((int)(bits >> (8 * i) & 0xff), w->out);
}

/* The length of the UTF-8 sequence that begins here; 0 where it is none (RFC 3629). */
static size_t sequence(const unsigned char *at)
{
	static const struct {
		unsigned char first_low, first_high, second_low, second_high, length;
	} forms[] = {
	    {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
	    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
	    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (at[0] < forms[i].first_low || at[0] > forms[i].first_high)
			continue;
		if (forms[i].length > 1 && (at[1] < forms[i].second_low || at[1] > forms[i].second_high))
			return 0;
		for (size_t j = 2; j < forms[i].length; j++) {
			if ((at[j] & 0xc0) != 0x80)
				return 0;
		}
		return forms[i].length;
	}
	return 0;
}

void vs_pickle_text(struct vs_pickle_writer *w, const char *text)
{
	size_t size = strlen(text);

	if (size <= 0xff) {
		opcode(w, 0x8c); /* SHORT_BINUNICODE */
		little(w, size, 1);
	} else {
		size = size > UINT32_MAX ? UINT32_MAX : size;
		opcode(w, 'X'); /* BINUNICODE */
		little(w, size, 4);
	}
	for (size_t at = 0; at < size;) {
		size_t length = sequence((const unsigned char *)text + at);

		if (length && at + length <= size)
			put(w, text + at, length);
		else
			putc('?', w->out);
		at += length && at + length <= size ? length : 1;
	}
}

uint32_t vs_pickle_remember(struct vs_pickle_writer *w)
{
	opcode(w, 0x94); /* MEMOIZE */
	return w->memo++;
}

void vs_pickle_again(struct vs_pickle_writer *w, uint32_t memo)
{
	opcode(w, memo <= 0xff ? 'h' : 'j'); /* BINGET, LONG_BINGET */
	little(w, memo, memo <= 0xff ? 1 : 4);
}

void vs_pickle_key(struct vs_pickle_writer *w, const char *text, uint32_t *memo)
{
	if (*memo) {
		vs_pickle_again(w, *memo - 1);
		return;
	}
	vs_pickle_text(w, text);
	*memo = vs_pickle_remember(w) + 1;
}
