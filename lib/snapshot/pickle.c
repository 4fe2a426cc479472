/* SPDX-License-Identifier: MIT
 *
 * The stack machine of Python's pickle, data opcodes only. Opcodes and their
 * arguments: CPython's Lib/pickletools.py describes all of them.
 */
#include "snapshot/pickle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* A value is a tag in the low 3 bits and a payload: a small integer, or an index into one of the tables. */
enum tag { TAG_CONSTANT, TAG_INT, TAG_WIDE, TAG_FLOAT, TAG_STRING, TAG_LIST, TAG_DICT };
enum constant { CONSTANT_NONE, CONSTANT_FALSE, CONSTANT_TRUE };

/* CPython's own pickler recurses once a level and stops near 1000. */
#define MAX_MARKS 1000
/* Memo indices are given out one by one, each by an opcode of at least one byte; pickletools.optimize() may drop
 * some of them and keep the numbers, hence the slack. */
#define MEMO_SLACK 65536

struct wide { /* an integer beyond 61 bits */
	uint64_t bits;
	bool negative;
};

struct text {
	const char *text;
	uint32_t size;
	uint32_t visit;
};

struct container {
	vs_pickle_value *items;
	uint32_t count;
	uint32_t capacity;
	uint32_t visit;
};

struct vs_pickle {
	const uint8_t *data;
	size_t size;
	size_t at; /* of the next byte */

	vs_pickle_value *stack;
	size_t stack_count, stack_capacity;
	size_t *marks; /* heights of the stack */
	size_t mark_count, mark_capacity;
	vs_pickle_value *memo; /* 0: unset (no value is 0 but None, which is never memoised by a pickler) */
	size_t memo_count, memo_capacity;

	struct wide *wides;
	size_t wide_count, wide_capacity;
	double *floats;
	size_t float_count, float_capacity;
	struct text *strings;
	size_t string_count, string_capacity;
	struct container *containers;
	size_t container_count, container_capacity;

	vs_pickle_value root;
	struct vs_pickle_error *error;
};

static vs_pickle_value make(enum tag tag, uint64_t payload)
{
	return payload << 3 | tag;
}

static enum tag tag_of(vs_pickle_value value)
{
	return value & 7;
}

static int fail(struct vs_pickle *p, int error, const char *what)
{
	snprintf(p->error->text, sizeof(p->error->text), "%s at byte %zu", what, p->at);
	return error;
}

static int cut(struct vs_pickle *p)
{
	return fail(p, -EBADMSG, "the pickle is cut short");
}

static int push(struct vs_pickle *p, vs_pickle_value value)
{
	int r = vs_grow(&p->stack, &p->stack_capacity, p->stack_count + 1, sizeof(*p->stack));

	if (r < 0)
		return fail(p, r, "out of memory");
	p->stack[p->stack_count++] = value;
	return 0;
}

/* How many values are above the last mark: opcodes must not reach below it. */
static size_t above_mark(const struct vs_pickle *p)
{
	return p->stack_count - (p->mark_count ? p->marks[p->mark_count - 1] : 0);
}

static int need(struct vs_pickle *p, size_t count)
{
	return above_mark(p) < count ? fail(p, -EBADMSG, "the pickle's stack is empty") : 0;
}

/* Take `count` bytes of argument. */
static const uint8_t *take(struct vs_pickle *p, uint64_t count)
{
	const uint8_t *bytes = p->data + p->at;

	if (count > p->size - p->at)
		return NULL;
	p->at += count;
	return bytes;
}

static uint64_t little(const uint8_t *bytes, unsigned int count)
{
	uint64_t n = 0;

	for (unsigned int i = count; i-- > 0;)
		n = n << 8 | bytes[i];
	return n;
}

static int push_wide(struct vs_pickle *p, uint64_t bits, bool negative)
{
	int r = vs_grow(&p->wides, &p->wide_capacity, p->wide_count + 1, sizeof(*p->wides));

	if (r < 0)
		return fail(p, r, "out of memory");
	p->wides[p->wide_count] = (struct wide){.bits = bits, .negative = negative};
	return push(p, make(TAG_WIDE, p->wide_count++));
}

static int push_int(struct vs_pickle *p, uint64_t bits, bool negative)
{
	int64_t n = (int64_t)bits;

	/* What survives the shift by the tag's 3 bits is stored in place. */
	if (negative == (n < 0) && (int64_t)((uint64_t)n << 3) >> 3 == n)
		return push(p, make(TAG_INT, (uint64_t)n));
	return push_wide(p, bits, negative);
}

static int push_text(struct vs_pickle *p, uint64_t size)
{
	const uint8_t *bytes = take(p, size);
	int r;

	if (!bytes)
		return cut(p);
	if (size > UINT32_MAX)
		return fail(p, -EOVERFLOW, "a string of 4 GiB or more");
	r = vs_grow(&p->strings, &p->string_capacity, p->string_count + 1, sizeof(*p->strings));
	if (r < 0)
		return fail(p, r, "out of memory");
	p->strings[p->string_count] = (struct text){.text = (const char *)bytes, .size = (uint32_t)size};
	return push(p, make(TAG_STRING, p->string_count++));
}

static int push_container(struct vs_pickle *p, enum tag tag)
{
	int r = vs_grow(&p->containers, &p->container_capacity, p->container_count + 1, sizeof(*p->containers));

	if (r < 0)
		return fail(p, r, "out of memory");
	p->containers[p->container_count] = (struct container){0};
	return push(p, make(tag, p->container_count++));
}

/* Move the top `count` values of the stack to the end of a container. */
static int fill(struct vs_pickle *p, vs_pickle_value into, size_t count)
{
	struct container *c = &p->containers[into >> 3];

	if (count > UINT32_MAX / 2 - c->count)
		return fail(p, -EOVERFLOW, "a container of more than 2^31 items");
	if (c->count + count > c->capacity) {
		/* The first fill is exact: most containers are small and filled once. */
		size_t capacity = c->count ? (c->count + count) * 2 : count;
		vs_pickle_value *fresh;

		if (capacity > UINT32_MAX)
			capacity = UINT32_MAX;
		fresh = realloc(c->items, capacity * sizeof(*fresh));
		if (!fresh)
			return fail(p, -ENOMEM, "out of memory");
		c->items = fresh;
		c->capacity = (uint32_t)capacity;
	}
	if (count)
		memcpy(c->items + c->count, p->stack + p->stack_count - count, count * sizeof(*c->items));
	c->count += (uint32_t)count;
	p->stack_count -= count;
	return 0;
}

/* The top `count` values become a new container. */
static int collect(struct vs_pickle *p, enum tag tag, size_t count)
{
	vs_pickle_value made;
	int r = need(p, count);

	if (r < 0)
		return r;
	r = push_container(p, tag);
	if (r < 0)
		return r;
	made = p->stack[--p->stack_count];
	r = fill(p, made, count);
	return r < 0 ? r : push(p, made);
}

static int push_mark(struct vs_pickle *p)
{
	int r;

	if (p->mark_count == MAX_MARKS)
		return fail(p, -EOVERFLOW, "nested deeper than 1000 levels");
	r = vs_grow(&p->marks, &p->mark_capacity, p->mark_count + 1, sizeof(*p->marks));
	if (r < 0)
		return fail(p, r, "out of memory");
	p->marks[p->mark_count++] = p->stack_count;
	return 0;
}

/* Drop the last mark; what was above it is then the top of the stack. */
static int pop_mark(struct vs_pickle *p, size_t *ret_count)
{
	if (!p->mark_count)
		return fail(p, -EBADMSG, "no mark on the pickle's stack");
	*ret_count = p->stack_count - p->marks[--p->mark_count];
	return 0;
}

static int collect_marked(struct vs_pickle *p, enum tag tag)
{
	size_t count;
	int r = pop_mark(p, &count);

	if (r < 0)
		return r;
	if (tag == TAG_DICT && count % 2)
		return fail(p, -EBADMSG, "a dict with a key and no value");
	return collect(p, tag, count);
}

/* Add the top `count` values to the container below them. */
static int extend(struct vs_pickle *p, enum tag tag, size_t count)
{
	int r = need(p, count + 1);

	if (r < 0)
		return r;
	if (tag_of(p->stack[p->stack_count - count - 1]) != tag || (tag == TAG_DICT && count % 2))
		return fail(p, -EBADMSG, "items for something that is no such container");
	return fill(p, p->stack[p->stack_count - count - 1], count);
}

static int extend_marked(struct vs_pickle *p, enum tag tag)
{
	size_t count;
	int r = pop_mark(p, &count);

	return r < 0 ? r : extend(p, tag, count);
}

static int memo_put(struct vs_pickle *p, uint64_t index)
{
	int r = need(p, 1);

	if (r < 0)
		return r;
	if (index > p->size + MEMO_SLACK)
		return fail(p, -EOVERFLOW, "a memo index beyond the file's size");
	if (index >= p->memo_capacity) {
		size_t capacity = index + 1 > p->memo_capacity * 2 ? index + 1 : p->memo_capacity * 2;
		vs_pickle_value *fresh = realloc(p->memo, capacity * sizeof(*fresh));

		if (!fresh)
			return fail(p, -ENOMEM, "out of memory");
		memset(fresh + p->memo_capacity, 0, (capacity - p->memo_capacity) * sizeof(*fresh));
		p->memo = fresh;
		p->memo_capacity = capacity;
	}
	/* MEMOIZE counts the entries, as CPython does; a pickle uses either it or PUT. */
	if (!p->memo[index])
		p->memo_count++;
	p->memo[index] = p->stack[p->stack_count - 1];
	return 0;
}

static int memo_get(struct vs_pickle *p, uint64_t index)
{
	if (index >= p->memo_capacity || !p->memo[index])
		return fail(p, -EBADMSG, "a memo entry that was never set");
	return push(p, p->memo[index]);
}

static int push_long(struct vs_pickle *p, uint64_t size)
{
	const uint8_t *bytes = take(p, size);
	bool negative;

	if (!bytes)
		return cut(p);
	negative = size && bytes[size - 1] & 0x80;
	if (size > 9 || (size == 9 && bytes[8] != (negative ? 0xff : 0)))
		return fail(p, -EOVERFLOW, "an integer of more than 64 bits");
	if (size == 9 && negative && !(bytes[7] & 0x80))
		return fail(p, -EOVERFLOW, "an integer of more than 64 bits");
	if (size > 8)
		size = 8;
	else if (negative && size < 8)
		return push_int(p, little(bytes, (unsigned int)size) | ~UINT64_C(0) << (8 * size), true);
	return push_int(p, little(bytes, (unsigned int)size), negative);
}

static int push_double(struct vs_pickle *p)
{
	const uint8_t *bytes = take(p, 8);
	uint64_t bits = 0;
	int r;

	if (!bytes)
		return cut(p);
	for (unsigned int i = 0; i < 8; i++)
		bits = bits << 8 | bytes[i];
	r = vs_grow(&p->floats, &p->float_capacity, p->float_count + 1, sizeof(*p->floats));
	if (r < 0)
		return fail(p, r, "out of memory");
	memcpy(&p->floats[p->float_count], &bits, sizeof(bits));
	return push(p, make(TAG_FLOAT, p->float_count++));
}

/* What an opcode does with its argument. */
enum action {
	ACT_UNKNOWN,
	ACT_REFUSE, /* could run code, or needs it */
	ACT_SKIP,   /* PROTO, FRAME: only the argument's length matters */
	ACT_INT,
	ACT_SIGNED,
	ACT_LONG,
	ACT_FLOAT,
	ACT_TEXT,
	ACT_CONSTANT,
	ACT_NEW,
	ACT_TUPLE,
	ACT_MARKED,
	ACT_EXTEND,
	ACT_EXTEND_MARKED,
	ACT_MARK,
	ACT_POP,
	ACT_POP_MARK,
	ACT_DUP,
	ACT_PUT,
	ACT_MEMOIZE,
	ACT_GET,
	ACT_STOP,
};

struct opcode {
	const char *name;
	uint8_t action;
	uint8_t argument; /* bytes of a fixed-size argument (a length, an index, a number) */
	uint8_t detail;   /* tag, count or constant */
};

static const struct opcode opcodes[256] = {
    [0x80] = {"PROTO", ACT_SKIP, 1},
    [0x95] = {"FRAME", ACT_SKIP, 8},
    ['.'] = {"STOP", ACT_STOP},
    ['K'] = {"BININT1", ACT_INT, 1},
    ['M'] = {"BININT2", ACT_INT, 2},
    ['J'] = {"BININT", ACT_SIGNED, 4},
    [0x8a] = {"LONG1", ACT_LONG, 1},
    [0x8b] = {"LONG4", ACT_LONG, 4},
    ['G'] = {"BINFLOAT", ACT_FLOAT},
    ['N'] = {"NONE", ACT_CONSTANT, 0, CONSTANT_NONE},
    [0x88] = {"NEWTRUE", ACT_CONSTANT, 0, CONSTANT_TRUE},
    [0x89] = {"NEWFALSE", ACT_CONSTANT, 0, CONSTANT_FALSE},
    ['U'] = {"SHORT_BINSTRING", ACT_TEXT, 1},
    ['T'] = {"BINSTRING", ACT_TEXT, 4},
    [0x8c] = {"SHORT_BINUNICODE", ACT_TEXT, 1},
    ['X'] = {"BINUNICODE", ACT_TEXT, 4},
    [0x8d] = {"BINUNICODE8", ACT_TEXT, 8},
    ['C'] = {"SHORT_BINBYTES", ACT_TEXT, 1},
    ['B'] = {"BINBYTES", ACT_TEXT, 4},
    [0x8e] = {"BINBYTES8", ACT_TEXT, 8},
    [0x96] = {"BYTEARRAY8", ACT_TEXT, 8},
    [']'] = {"EMPTY_LIST", ACT_NEW, 0, TAG_LIST},
    [')'] = {"EMPTY_TUPLE", ACT_NEW, 0, TAG_LIST},
    ['}'] = {"EMPTY_DICT", ACT_NEW, 0, TAG_DICT},
    [0x8f] = {"EMPTY_SET", ACT_NEW, 0, TAG_LIST},
    [0x85] = {"TUPLE1", ACT_TUPLE, 0, 1},
    [0x86] = {"TUPLE2", ACT_TUPLE, 0, 2},
    [0x87] = {"TUPLE3", ACT_TUPLE, 0, 3},
    ['l'] = {"LIST", ACT_MARKED, 0, TAG_LIST},
    ['t'] = {"TUPLE", ACT_MARKED, 0, TAG_LIST},
    ['d'] = {"DICT", ACT_MARKED, 0, TAG_DICT},
    [0x91] = {"FROZENSET", ACT_MARKED, 0, TAG_LIST},
    ['a'] = {"APPEND", ACT_EXTEND, 1, TAG_LIST},
    ['s'] = {"SETITEM", ACT_EXTEND, 2, TAG_DICT},
    ['e'] = {"APPENDS", ACT_EXTEND_MARKED, 0, TAG_LIST},
    ['u'] = {"SETITEMS", ACT_EXTEND_MARKED, 0, TAG_DICT},
    [0x90] = {"ADDITEMS", ACT_EXTEND_MARKED, 0, TAG_LIST},
    ['('] = {"MARK", ACT_MARK},
    ['0'] = {"POP", ACT_POP},
    ['1'] = {"POP_MARK", ACT_POP_MARK},
    ['2'] = {"DUP", ACT_DUP},
    ['q'] = {"BINPUT", ACT_PUT, 1},
    ['r'] = {"LONG_BINPUT", ACT_PUT, 4},
    [0x94] = {"MEMOIZE", ACT_MEMOIZE},
    ['h'] = {"BINGET", ACT_GET, 1},
    ['j'] = {"LONG_BINGET", ACT_GET, 4},
    ['c'] = {"GLOBAL", ACT_REFUSE},
    [0x93] = {"STACK_GLOBAL", ACT_REFUSE},
    ['R'] = {"REDUCE", ACT_REFUSE},
    ['b'] = {"BUILD", ACT_REFUSE},
    ['i'] = {"INST", ACT_REFUSE},
    ['o'] = {"OBJ", ACT_REFUSE},
    [0x81] = {"NEWOBJ", ACT_REFUSE},
    [0x92] = {"NEWOBJ_EX", ACT_REFUSE},
    ['P'] = {"PERSID", ACT_REFUSE},
    ['Q'] = {"BINPERSID", ACT_REFUSE},
    [0x82] = {"EXT1", ACT_REFUSE},
    [0x83] = {"EXT2", ACT_REFUSE},
    [0x84] = {"EXT4", ACT_REFUSE},
    [0x97] = {"NEXT_BUFFER", ACT_REFUSE},
    [0x98] = {"READONLY_BUFFER", ACT_REFUSE},
};

static int refuse(struct vs_pickle *p, const struct opcode *op)
{
	snprintf(p->error->text, sizeof(p->error->text),
	         "opcode %s at byte %zu: a snapshot is data, this pickle wants to run code", op->name, p->at - 1);
	return -EPERM;
}

static int pop(struct vs_pickle *p)
{
	int r;

	/* As CPython: POP right after MARK drops the mark. */
	if (p->mark_count && !above_mark(p)) {
		p->mark_count--;
		return 0;
	}
	r = need(p, 1);
	if (r == 0)
		p->stack_count--;
	return r;
}

static int step(struct vs_pickle *p, const struct opcode *op)
{
	const uint8_t *bytes = NULL;
	uint64_t argument = 0;
	size_t count;
	int r;

	/* For ACT_EXTEND the number is how many values it takes, for ACT_FLOAT the argument is big-endian. */
	if (op->argument && op->action != ACT_EXTEND) {
		bytes = take(p, op->argument);
		if (!bytes)
			return cut(p);
		argument = little(bytes, op->argument);
	}
	switch ((enum action)op->action) {
	case ACT_REFUSE:
		return refuse(p, op);
	case ACT_SKIP:
		return 0;
	case ACT_INT:
		return push_int(p, argument, false);
	case ACT_SIGNED:
		return push_int(p, (uint64_t)(int64_t)(int32_t)argument, (int32_t)argument < 0);
	case ACT_LONG:
		return push_long(p, argument);
	case ACT_FLOAT:
		return push_double(p);
	case ACT_TEXT:
		return push_text(p, argument);
	case ACT_CONSTANT:
		return push(p, make(TAG_CONSTANT, op->detail));
	case ACT_NEW:
		return push_container(p, op->detail);
	case ACT_TUPLE:
		return collect(p, TAG_LIST, op->detail);
	case ACT_MARKED:
		return collect_marked(p, op->detail);
	case ACT_EXTEND:
		return extend(p, op->detail, op->argument);
	case ACT_EXTEND_MARKED:
		return extend_marked(p, op->detail);
	case ACT_MARK:
		return push_mark(p);
	case ACT_POP:
		return pop(p);
	case ACT_POP_MARK:
		r = pop_mark(p, &count);
		if (r == 0)
			p->stack_count -= count;
		return r;
	case ACT_DUP:
		r = need(p, 1);
		return r < 0 ? r : push(p, p->stack[p->stack_count - 1]);
	case ACT_PUT:
		return memo_put(p, argument);
	case ACT_MEMOIZE:
		return memo_put(p, p->memo_count);
	case ACT_GET:
		return memo_get(p, argument);
	case ACT_STOP:
	case ACT_UNKNOWN:
		break;
	}
	p->at--;
	return fail(p, -EBADMSG, "a byte that is no opcode of a binary pickle");
}

static int run(struct vs_pickle *p)
{
	if (p->size < 2 || p->data[0] != 0x80)
		return fail(p, -EBADMSG, "no binary pickle: it does not begin with a protocol");
	if (p->data[1] < 2 || p->data[1] > 5)
		return fail(p, -EBADMSG, "a pickle protocol that is not 2, 3, 4 or 5");
	while (p->at < p->size) {
		const struct opcode *op = &opcodes[p->data[p->at++]];
		int r;

		if (op->action == ACT_STOP) {
			r = need(p, 1);
			if (r == 0)
				p->root = p->stack[p->stack_count - 1];
			return r;
		}
		r = step(p, op);
		if (r < 0)
			return r;
	}
	return cut(p);
}

static void drop_machine(struct vs_pickle *p)
{
	free(p->stack);
	free(p->marks);
	free(p->memo);
	p->stack = NULL;
	p->marks = NULL;
	p->memo = NULL;
}

int vs_pickle_parse(const void *data, size_t size, struct vs_pickle **ret_pickle, struct vs_pickle_error *ret_error)
{
	struct vs_pickle *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		snprintf(ret_error->text, sizeof(ret_error->text), "out of memory");
		return -ENOMEM;
	}
	p->data = data;
	p->size = size;
	p->error = ret_error;
	r = run(p);
	drop_machine(p);
	if (r < 0) {
		vs_pickle_free(p);
		return r;
	}
	p->error = NULL;
	*ret_pickle = p;
	return 0;
}

void vs_pickle_free(struct vs_pickle *p)
{
	if (!p)
		return;
	drop_machine(p);
	for (size_t i = 0; i < p->container_count; i++)
		free(p->containers[i].items);
	free(p->containers);
	free(p->strings);
	free(p->floats);
	free(p->wides);
	free(p);
}

vs_pickle_value vs_pickle_root(const struct vs_pickle *p)
{
	return p->root;
}

enum vs_pickle_type vs_pickle_type(vs_pickle_value value)
{
	switch (tag_of(value)) {
	case TAG_INT:
	case TAG_WIDE:
		return VS_PICKLE_INT;
	case TAG_FLOAT:
		return VS_PICKLE_FLOAT;
	case TAG_STRING:
		return VS_PICKLE_STRING;
	case TAG_LIST:
		return VS_PICKLE_LIST;
	case TAG_DICT:
		return VS_PICKLE_DICT;
	case TAG_CONSTANT:
		break;
	}
	return value >> 3 == CONSTANT_NONE ? VS_PICKLE_NONE : VS_PICKLE_BOOL;
}

bool vs_pickle_int(const struct vs_pickle *p, vs_pickle_value value, int64_t *ret)
{
	const struct wide *wide;

	switch (tag_of(value)) {
	case TAG_INT:
		*ret = (int64_t)value >> 3;
		return true;
	case TAG_WIDE:
		wide = &p->wides[value >> 3];
		if (wide->negative != ((int64_t)wide->bits < 0))
			return false;
		*ret = (int64_t)wide->bits;
		return true;
	case TAG_CONSTANT:
		if (value >> 3 == CONSTANT_NONE)
			return false;
		*ret = value >> 3 == CONSTANT_TRUE;
		return true;
	default:
		return false;
	}
}

bool vs_pickle_uint(const struct vs_pickle *p, vs_pickle_value value, uint64_t *ret)
{
	int64_t n;

	if (tag_of(value) == TAG_WIDE) {
		if (p->wides[value >> 3].negative)
			return false;
		*ret = p->wides[value >> 3].bits;
		return true;
	}
	if (!vs_pickle_int(p, value, &n) || n < 0)
		return false;
	*ret = (uint64_t)n;
	return true;
}

bool vs_pickle_float(const struct vs_pickle *p, vs_pickle_value value, double *ret)
{
	uint64_t wide;
	int64_t n;

	if (tag_of(value) == TAG_FLOAT)
		*ret = p->floats[value >> 3];
	else if (vs_pickle_int(p, value, &n))
		*ret = (double)n;
	else if (vs_pickle_uint(p, value, &wide))
		*ret = (double)wide;
	else
		return false;
	return true;
}

bool vs_pickle_string(const struct vs_pickle *p, vs_pickle_value value, const char **ret_text, size_t *ret_size)
{
	if (tag_of(value) != TAG_STRING)
		return false;
	*ret_text = p->strings[value >> 3].text;
	*ret_size = p->strings[value >> 3].size;
	return true;
}

bool vs_pickle_items(const struct vs_pickle *p, vs_pickle_value value, const vs_pickle_value **ret_items,
                     size_t *ret_count)
{
	if (tag_of(value) != TAG_LIST && tag_of(value) != TAG_DICT)
		return false;
	*ret_items = p->containers[value >> 3].items;
	*ret_count = p->containers[value >> 3].count;
	return true;
}

bool vs_pickle_get(const struct vs_pickle *p, vs_pickle_value dict, const char *key, vs_pickle_value *ret_value)
{
	size_t count, size, length = strlen(key);
	const vs_pickle_value *items;
	const char *text;

	if (tag_of(dict) != TAG_DICT || !vs_pickle_items(p, dict, &items, &count))
		return false;
	for (; count >= 2; count -= 2) {
		if (vs_pickle_string(p, items[count - 2], &text, &size) && size == length &&
		    !memcmp(text, key, size)) {
			*ret_value = items[count - 1];
			return true;
		}
	}
	return false;
}

uint32_t *vs_pickle_visit(struct vs_pickle *p, vs_pickle_value value)
{
	if (tag_of(value) == TAG_STRING)
		return &p->strings[value >> 3].visit;
	if (tag_of(value) != TAG_LIST && tag_of(value) != TAG_DICT)
		return NULL;
	return &p->containers[value >> 3].visit;
}
