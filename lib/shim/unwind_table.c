/* SPDX-License-Identifier: MIT
 *
 * Reads one function's entry in .eh_frame (the Linux Standard Base, Core 5.0, chapter 10.6; the instructions are
 * DWARF 5, chapter 6.4.2) and says what holds at one address.
 */
#include <string.h>

#include "shim/unwind_rule.h"

/* DWARF's numbers of x86-64's registers (System V ABI, AMD64 supplement, figure 3.36). */
enum { REGISTER_RBP = 6, REGISTER_RSP = 7, REGISTER_RETURN = 16 };

/* Pointer encodings (LSB, 10.5). */
enum {
	POINTER_ABSOLUTE = 0x00,
	POINTER_U16 = 0x02,
	POINTER_U32 = 0x03,
	POINTER_U64 = 0x04,
	POINTER_S16 = 0x0a,
	POINTER_S32 = 0x0b,
	POINTER_S64 = 0x0c,
	POINTER_FORM = 0x0f,
	POINTER_RELATIVE = 0x70, /* to what */
	POINTER_TO_ITSELF = 0x10,
};

/* Nested DW_CFA_remember_state: compilers need one. */
#define MAX_REMEMBERED 8

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

enum where {
	WHERE_SAME, /* as in the callee */
	WHERE_AT,   /* saved at cfa + offset */
	WHERE_OTHER,
	WHERE_NOWHERE, /* undefined */
};

struct place {
	enum where where;
	int64_t offset;
};

struct row {
	uint64_t cfa_register;
	int64_t cfa_offset;
	bool cfa_other; /* an expression */
	struct place rbp, rsp, return_address;
};

struct common { /* a CIE */
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer; /* encoding of the function's bounds */
	bool augmented, signal;
	struct cursor instructions;
};

static uint64_t get(struct cursor *c, unsigned int size)
{
	uint64_t value = 0;

	if ((uint64_t)(c->end - c->at) < size) {
		c->bad = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&value, c->at, size);
	c->at += size;
	return value;
}

/* LEB128; *ret_high: the bits above those that were given, all ones if the last byte given is negative. */
static uint64_t get_leb(struct cursor *c, uint64_t *ret_high)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = get(c, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	*ret_high = shift < 64 && byte & 0x40 ? ~UINT64_C(0) << shift : 0;
	return value;
}

static uint64_t get_unsigned(struct cursor *c)
{
	uint64_t high;

	return get_leb(c, &high);
}

static int64_t get_signed(struct cursor *c)
{
	uint64_t high, low = get_leb(c, &high);

	return (int64_t)(low | high);
}

static void skip(struct cursor *c, uint64_t size)
{
	if (size > (uint64_t)(c->end - c->at)) {
		c->bad = true;
		size = (uint64_t)(c->end - c->at);
	}
	c->at += size;
}

static uint64_t get_form(struct cursor *c, uint8_t encoding)
{
	switch (encoding & POINTER_FORM) {
	case POINTER_ABSOLUTE:
	case POINTER_U64:
	case POINTER_S64:
		return get(c, 8);
	case POINTER_U32:
		return get(c, 4);
	case POINTER_S32:
		return (uint64_t)(int64_t)(int32_t)get(c, 4);
	case POINTER_U16:
		return get(c, 2);
	case POINTER_S16:
		return (uint64_t)(int64_t)(int16_t)get(c, 2);
	default:
		c->bad = true;
		return 0;
	}
}

static uint64_t get_pointer(struct cursor *c, uint8_t encoding)
{
	uint64_t base = (encoding & POINTER_RELATIVE) == POINTER_TO_ITSELF ? (uint64_t)(uintptr_t)c->at : 0;

	if (encoding & ~(POINTER_FORM | POINTER_TO_ITSELF))
		c->bad = true;
	return base + get_form(c, encoding);
}

/* The contents of the entry at `at`, behind its length; bad where it runs out of the table, or is in the 64-bit form,
 * which nobody writes. */
static struct cursor entry(const uint8_t *at, const uint8_t *low, const uint8_t *high)
{
	struct cursor c = {at, high, at < low || at > high};
	uint64_t size;

	if (c.bad)
		return c;
	size = get(&c, 4);
	if (!size || size == UINT32_MAX || size > (uint64_t)(high - c.at))
		c.bad = true;
	else
		c.end = c.at + size;
	return c;
}

static bool read_common(struct cursor c, struct common *ret)
{
	const char *augmentation;
	struct cursor extra = c;

	*ret = (struct common){.pointer = POINTER_ABSOLUTE};
	if (c.bad || get(&c, 4) != 0 || get(&c, 1) != 1)
		return false;
	augmentation = (const char *)c.at;
	skip(&c, strnlen(augmentation, (size_t)(c.end - c.at)) + 1);
	ret->code_align = get_unsigned(&c);
	ret->data_align = get_signed(&c);
	if (get(&c, 1) != REGISTER_RETURN || c.bad)
		return false;
	if (*augmentation == 'z') {
		uint64_t size = get_unsigned(&c);

		ret->augmented = true;
		extra = c;
		skip(&c, size);
		extra.end = c.at;
		augmentation++;
	}
	for (; *augmentation; augmentation++) {
		switch (ret->augmented ? *augmentation : '?') {
		case 'R':
			ret->pointer = (uint8_t)get(&extra, 1);
			break;
		case 'L':
			get(&extra, 1);
			break;
		case 'P':
			/* Whichever way it leads, it is as long as its form. */
			get_form(&extra, (uint8_t)get(&extra, 1));
			break;
		case 'S':
			ret->signal = true;
			break;
		default:
			return false;
		}
	}
	ret->instructions = c;
	return !c.bad && !extra.bad;
}

static struct place *place_of(struct row *row, uint64_t reg)
{
	return reg == REGISTER_RBP      ? &row->rbp
	       : reg == REGISTER_RSP    ? &row->rsp
	       : reg == REGISTER_RETURN ? &row->return_address
	                                : NULL;
}

static void set(struct row *row, uint64_t reg, enum where where, int64_t offset)
{
	struct place *place = place_of(row, reg);

	if (place)
		*place = (struct place){where, offset};
}

static void restore(struct row *row, const struct row *initial, uint64_t reg)
{
	struct row copy = *initial;
	const struct place *from = place_of(&copy, reg);

	if (from)
		set(row, reg, from->where, from->offset);
}

/* Modulo 2^64: what is out of range is no rule later on. */
static int64_t scaled(const struct common *common, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)common->data_align);
}

struct machine {
	struct common common;
	struct row row, initial, remembered[MAX_REMEMBERED];
	unsigned int depth;
	uint64_t location, target;
};

/* The instructions that carry an operand in their low six bits. */
static void run_packed(struct machine *m, struct cursor *c, uint8_t code)
{
	uint8_t operand = code & 0x3f;

	switch (code >> 6) {
	case 1: /* DW_CFA_advance_loc */
		m->location += operand * m->common.code_align;
		break;
	case 2: /* DW_CFA_offset */
		set(&m->row, operand, WHERE_AT, scaled(&m->common, get_unsigned(c)));
		break;
	default: /* DW_CFA_restore */
		restore(&m->row, &m->initial, operand);
	}
}

static void run_expression(struct machine *m, struct cursor *c, uint8_t code)
{
	if (code == 0x0f) /* DW_CFA_def_cfa_expression */
		m->row.cfa_other = true;
	else /* DW_CFA_expression, DW_CFA_val_expression */
		set(&m->row, get_unsigned(c), WHERE_OTHER, 0);
	skip(c, get_unsigned(c));
}

static void run_cfa(struct machine *m, struct cursor *c, uint8_t code)
{
	struct row *row = &m->row;

	switch (code) {
	case 0x0c: /* DW_CFA_def_cfa */
		row->cfa_register = get_unsigned(c);
		row->cfa_offset = (int64_t)get_unsigned(c);
		row->cfa_other = false;
		break;
	case 0x12: /* DW_CFA_def_cfa_sf */
		row->cfa_register = get_unsigned(c);
		row->cfa_offset = scaled(&m->common, (uint64_t)get_signed(c));
		row->cfa_other = false;
		break;
	case 0x0d: /* DW_CFA_def_cfa_register */
		row->cfa_register = get_unsigned(c);
		break;
	case 0x0e: /* DW_CFA_def_cfa_offset */
		row->cfa_offset = (int64_t)get_unsigned(c);
		break;
	default: /* DW_CFA_def_cfa_offset_sf */
		row->cfa_offset = scaled(&m->common, (uint64_t)get_signed(c));
	}
}

static void run_register(struct machine *m, struct cursor *c, uint8_t code)
{
	uint64_t reg = get_unsigned(c);

	switch (code) {
	case 0x05: /* DW_CFA_offset_extended */
		set(&m->row, reg, WHERE_AT, scaled(&m->common, get_unsigned(c)));
		break;
	case 0x11: /* DW_CFA_offset_extended_sf */
		set(&m->row, reg, WHERE_AT, scaled(&m->common, (uint64_t)get_signed(c)));
		break;
	case 0x2f: /* DW_CFA_GNU_negative_offset_extended */
		set(&m->row, reg, WHERE_AT, scaled(&m->common, -get_unsigned(c)));
		break;
	case 0x06: /* DW_CFA_restore_extended */
		restore(&m->row, &m->initial, reg);
		break;
	case 0x07: /* DW_CFA_undefined */
		set(&m->row, reg, WHERE_NOWHERE, 0);
		break;
	case 0x08: /* DW_CFA_same_value */
		set(&m->row, reg, WHERE_SAME, 0);
		break;
	default: /* DW_CFA_register, DW_CFA_val_offset, DW_CFA_val_offset_sf: one more number, of either sign */
		get_unsigned(c);
		set(&m->row, reg, WHERE_OTHER, 0);
	}
}

/* False: not an instruction we know. */
static bool run_one(struct machine *m, struct cursor *c)
{
	uint8_t code = (uint8_t)get(c, 1);

	if (code >> 6) {
		run_packed(m, c, code);
		return true;
	}
	switch (code) {
	case 0x00: /* DW_CFA_nop */
		return true;
	case 0x01: /* DW_CFA_set_loc */
		m->location = get_pointer(c, m->common.pointer);
		return true;
	case 0x02: /* DW_CFA_advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		m->location += get(c, 1u << (code - 2)) * m->common.code_align;
		return true;
	case 0x0a: /* DW_CFA_remember_state */
		if (m->depth == MAX_REMEMBERED)
			return false;
		m->remembered[m->depth++] = m->row;
		return true;
	case 0x0b: /* DW_CFA_restore_state */
		if (!m->depth)
			return false;
		m->row = m->remembered[--m->depth];
		return true;
	case 0x05:
	case 0x06:
	case 0x07:
	case 0x08:
	case 0x09:
	case 0x11:
	case 0x14:
	case 0x15:
	case 0x2f:
		run_register(m, c, code);
		return true;
	case 0x0c:
	case 0x0d:
	case 0x0e:
	case 0x12:
	case 0x13:
		run_cfa(m, c, code);
		return true;
	case 0x0f:
	case 0x10:
	case 0x16:
		run_expression(m, c, code);
		return true;
	case 0x2e: /* DW_CFA_GNU_args_size */
		get_unsigned(c);
		return true;
	default:
		return false;
	}
}

/* Up to the target: what an advance beyond it brings holds no longer there. */
static bool run(struct machine *m, struct cursor c)
{
	while (c.at < c.end && !c.bad) {
		struct row before = m->row;

		if (!run_one(m, &c))
			return false;
		if (m->location > m->target) {
			m->row = before;
			return !c.bad;
		}
	}
	return !c.bad;
}

static struct vs_unwind_rule judge(const struct row *row)
{
	struct vs_unwind_rule rule = {.kind = VS_UNWIND_FOREIGN};

	if (row->return_address.where == WHERE_NOWHERE) {
		rule.kind = VS_UNWIND_END;
		return rule;
	}
	if (row->cfa_other || (row->cfa_register != REGISTER_RSP && row->cfa_register != REGISTER_RBP) ||
	    row->cfa_offset < 8 || row->cfa_offset > INT32_MAX || row->return_address.where != WHERE_AT ||
	    row->return_address.offset != -8 || row->rsp.where != WHERE_SAME)
		return rule;
	if (row->rbp.where != WHERE_SAME &&
	    (row->rbp.where != WHERE_AT || row->rbp.offset > -16 || row->rbp.offset < INT16_MIN))
		return rule;
	rule.kind = VS_UNWIND_PLAIN;
	rule.cfa_from_rbp = row->cfa_register == REGISTER_RBP;
	rule.cfa_offset = (int32_t)row->cfa_offset;
	rule.rbp_saved = row->rbp.where == WHERE_AT;
	rule.rbp_offset = (int16_t)row->rbp.offset;
	return rule;
}

struct vs_unwind_rule vs_unwind_read(const uint8_t *function, const uint8_t *low, const uint8_t *high,
                                     uint64_t target)
{
	const struct vs_unwind_rule foreign = {.kind = VS_UNWIND_FOREIGN};
	struct cursor c = entry(function, low, high);
	struct machine m = {.target = target};
	const uint8_t *link = c.at;
	uint64_t begin, size, distance = get(&c, 4);

	/* Distance back to the common part; 0 would be one itself. */
	if (c.bad || !distance || distance > (uint64_t)(link - low) ||
	    !read_common(entry(link - distance, low, high), &m.common) || m.common.signal)
		return foreign;
	begin = get_pointer(&c, m.common.pointer);
	size = get_form(&c, m.common.pointer);
	if (m.common.augmented)
		skip(&c, get_unsigned(&c));
	if (c.bad || target < begin || target - begin >= size)
		return foreign;
	m.location = 0;
	if (!run(&m, m.common.instructions))
		return foreign;
	m.initial = m.row;
	m.location = begin;
	if (!run(&m, c))
		return foreign;
	return judge(&m.row);
}
