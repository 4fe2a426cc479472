/* SPDX-License-Identifier: MIT
 *
 * Three formats, each described in CPython's Objects/lnotab_notes.txt of its
 * time and, for the last, Objects/locations.md.
 */
#include "symbol/python_line.h"

#include <limits.h>
#include <stdbool.h>

/* co_lnotab, up to 3.9: pairs (bytes of code, signed lines). A line begins where its address is reached. */
static int64_t line_lnotab(const uint8_t *p, const uint8_t *end, int64_t line, int64_t instruction)
{
	int64_t address = 0;

	for (; end - p >= 2; p += 2) {
		address += p[0];
		if (address > instruction)
			break;
		line += (int8_t)p[1];
	}
	return line;
}

/* co_linetable of 3.10: pairs (bytes of code, signed lines) where each pair is a range; -128: no line. */
static int64_t line_ranges(const uint8_t *p, const uint8_t *end, int64_t line, int64_t instruction)
{
	int64_t address = 0;

	for (; end - p >= 2; p += 2) {
		int8_t delta = (int8_t)p[1];

		address += p[0];
		if (delta != -128)
			line += delta;
		if (address > instruction)
			return delta == -128 ? -1 : line;
	}
	return -1;
}

/* Six bits a byte, least significant first, bit 6 says that more follow. */
static bool varint(const uint8_t **p, const uint8_t *end, uint32_t *ret_value)
{
	uint32_t value = 0;

	for (unsigned shift = 0; *p < end && shift < 32; shift += 6) {
		uint8_t byte = *(*p)++;

		value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64)) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

/* co_linetable from 3.11 on: entries that begin with a byte 1cccclll: format c, l + 1 code units of two bytes. */
static int64_t line_locations(const uint8_t *p, const uint8_t *end, int64_t line, int64_t instruction)
{
	int64_t address = 0;

	while (p < end) {
		uint8_t head = *p++;
		unsigned format = (head >> 3) & 15;
		bool none = format == 15;
		uint32_t raw;

		if (!(head & 128))
			return -1;
		if (format == 13 || format == 14) { /* no columns, or everything: the line is a signed varint */
			if (!varint(&p, end, &raw))
				return -1;
			line += raw & 1 ? -(int64_t)(raw >> 1) : (int64_t)(raw >> 1);
		} else if (format >= 10 && format <= 12) {
			line += format - 10;
		} /* 0..9: the same line, with columns in one byte */

		address += ((head & 7) + 1) * 2;
		if (address > instruction)
			return none ? -1 : line;
		while (p < end && !(*p & 128)) /* columns */
			p++;
	}
	return -1;
}

uint32_t vs_python_line(const struct vramshim_code *code, int32_t instruction, unsigned minor)
{
	const uint8_t *table = code->line_table, *end = table ? table + code->line_table_size : NULL;
	int64_t line;

	if (!table || instruction < 0)
		return code->first_line;
	if (minor <= 9)
		line = line_lnotab(table, end, code->first_line, instruction);
	else if (minor == 10)
		line = line_ranges(table, end, code->first_line, instruction);
	else
		line = line_locations(table, end, code->first_line, instruction);
	return line > 0 && line <= INT_MAX ? (uint32_t)line : code->first_line;
}
