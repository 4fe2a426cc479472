/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process.h"
#include "shim/python_codes.h"
#include "shim/python_layout.h"
#include "shim/python_stack.h"
#include "shim/python_text.h"
#include "shim/readable.h"
#include "shim/symbols.h"

enum state {
	STATE_ABSENT,    /* no interpreter loaded so far */
	STATE_UNCHECKED, /* layout chosen, never held against a frame */
	STATE_READY,
	STATE_OFF, /* an interpreter that we cannot read */
};

/* One interpreter a process: PyGILState_* knows only one as well. */
static struct {
	_Atomic int state;
	_Atomic(char *) version;
	struct vs_python_layout layout;
	unsigned int compiled;       /* what compare() is compiled for */
	void *(*thread_state)(void); /* PyGILState_GetThisThreadState: a thread-specific value, no lock */
	int (*finalizing)(void);     /* NULL where the interpreter does not say */
	const void *code_type, *text_type, *bytes_type;
} python;

/* Frames that the interpreter pushes for itself, where C calls Python, are owned by the C stack or by the
 * interpreter: 3 and up in 3.12 to 3.14. */
#define FIRST_INTERNAL_OWNER 3
/* Frames held against the layout at the start. */
#define CHECKED_FRAMES 16

static inline uint64_t load64(const char *object, size_t offset)
{
	uint64_t value;

	memcpy(&value, object + offset, sizeof(value));
	return value;
}

static inline const char *load_pointer(const char *object, size_t offset)
{
	return (const char *)(uintptr_t)load64(object, offset);
}

static inline int32_t load32(const char *object, size_t offset)
{
	int32_t value;

	memcpy(&value, object + offset, sizeof(value));
	return value;
}

/* Read memory that may not be there. */
static int peek(const char *address, void *buffer, size_t size)
{
	if (!vs_readable(address, size))
		return -EFAULT;
	memcpy(buffer, address, size);
	return 0;
}

static int peek_pointer(const char *object, size_t offset, const char **ret_pointer)
{
	return object ? peek(object + offset, ret_pointer, sizeof(*ret_pointer)) : -EFAULT;
}

static bool has_type(const char *object, const void *type)
{
	const char *found;

	return peek_pointer(object, python.layout.object_type, &found) == 0 && found == type;
}

/* Stack references carry tags in their low bits since 3.14; objects are aligned to 8 bytes or more. */
static inline const char *untag(const char *pointer)
{
	return (const char *)((uintptr_t)pointer & ~(uintptr_t)7);
}

/* Whether the current frames of this thread look as the layout says: every one has a code object, each of
 * those a file, a name and a line table of the right types. */
static bool check(const char *frame)
{
	const struct vs_python_layout *layout = &python.layout;
	const char *code, *file, *name, *lines;

	for (int i = 0; frame && i < CHECKED_FRAMES; i++) {
		char owner = 0;

		if (layout->frame_owner && peek(frame + layout->frame_owner, &owner, 1) < 0)
			return false;
		if (owner < FIRST_INTERNAL_OWNER) {
			if (peek_pointer(frame, layout->frame_code, &code) < 0 ||
			    !has_type(untag(code), python.code_type))
				return false;
			code = untag(code);
			if (peek_pointer(code, layout->code_file, &file) < 0 || !has_type(file, python.text_type) ||
			    peek_pointer(code, layout->code_name, &name) < 0 || !has_type(name, python.text_type) ||
			    peek_pointer(code, layout->code_lines, &lines) < 0 || !has_type(lines, python.bytes_type))
				return false;
			if (load32(code, layout->code_first_line) < 0)
				return false;
		}
		if (peek_pointer(frame, layout->frame_previous, &frame) < 0)
			return false;
	}
	return true;
}

static void turn_off(void)
{
	int state = atomic_load(&python.state);

	if (state != STATE_OFF && atomic_compare_exchange_strong(&python.state, &state, STATE_OFF))
		vs_say("Python %s is laid out in a way not known here: Python stacks are off", vs_python_version());
}

/* What compare() reads, in the interpreters whose numbers are put into its code; the others' are looked up. 3.12 and
 * 3.13 agree. */
static const struct vs_python_layout compiled[] = {
    {.position = VS_POSITION_POINTER,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_position = 56,
     .code_file = 112,
     .code_first_line = 72},
    {.position = VS_POSITION_POINTER,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_position = 56,
     .code_file = 112,
     .code_first_line = 68},
};
#define COMPILED (sizeof(compiled) / sizeof(compiled[0]))

/* Which of them reads the same; COMPILED: none. */
static unsigned int compiled_as(const struct vs_python_layout *layout)
{
	unsigned int i = 0;

	while (i < COMPILED &&
	       !(compiled[i].position == layout->position && compiled[i].frame_code == layout->frame_code &&
	         compiled[i].frame_previous == layout->frame_previous &&
	         compiled[i].frame_position == layout->frame_position && compiled[i].code_file == layout->code_file &&
	         compiled[i].code_first_line == layout->code_first_line))
		i++;
	return i;
}

/* Newer interpreters say where things are; for the older ones the version does. */
static int choose_layout(const char *version)
{
	const struct vs_python_layout *known;
	const void *runtime = vs_symbol_find("_PyRuntime");
	unsigned long minor;
	int r = runtime ? vs_python_layout_declared(runtime, VS_PYTHON_RUNTIME_SIZE, &python.layout) : -ENOENT;

	if (r != -ENOENT)
		return r;
	if (strncmp(version, "3.", 2))
		return -EPROTO;
	minor = strtoul(version + 2, NULL, 10);
	known = vs_python_layout_of((unsigned int)minor);
	if (!known)
		return -EPROTO;
	python.layout = *known;
	return 0;
}

void vs_python_prepare(void)
{
	static atomic_flag preparing = ATOMIC_FLAG_INIT;
	/* Relaxed: two threads that search at once find the same. */
	static _Atomic(unsigned long long) searched;
	unsigned long long loads;
	const char *(*get_version)(void);
	char *version;
	int r;

	if (atomic_load(&python.state) != STATE_ABSENT)
		return;
	loads = vs_symbol_loads();
	if (atomic_exchange_explicit(&searched, loads, memory_order_relaxed) == loads)
		return;
	get_version = (const char *(*)(void))vs_symbol_find("Py_GetVersion");
	if (!get_version)
		return;
	if (atomic_flag_test_and_set(&preparing))
		return;
	/* A fixed string, "3.11.7 (main, ...)", from a function that needs no interpreter to be initialised. */
	version = strdup(get_version());
	if (!version)
		return;
	version[strcspn(version, " ")] = '\0';
	atomic_store(&python.version, version);
	python.thread_state = (void *(*)(void))vs_symbol_find("PyGILState_GetThisThreadState");
	/* Public since 3.13; there before under the other name. Both read one word, without the GIL. */
	python.finalizing = (int (*)(void))vs_symbol_find("Py_IsFinalizing");
	if (!python.finalizing)
		python.finalizing = (int (*)(void))vs_symbol_find("_Py_IsFinalizing");
	python.code_type = vs_symbol_find("PyCode_Type");
	python.text_type = vs_symbol_find("PyUnicode_Type");
	python.bytes_type = vs_symbol_find("PyBytes_Type");
	r = choose_layout(version);
	python.compiled = compiled_as(&python.layout);
	if (r < 0 || !python.thread_state || !python.code_type || !python.text_type || !python.bytes_type)
		turn_off();
	else {
		vs_python_watch_codes((void *)(uintptr_t)python.code_type, python.layout.object_type);
		atomic_store_explicit(&python.state, STATE_UNCHECKED, memory_order_release);
	}
}

bool vs_python_known(void)
{
	int state = atomic_load_explicit(&python.state, memory_order_relaxed);

	return state != STATE_ABSENT && state != STATE_OFF;
}

const char *vs_python_version(void)
{
	const char *version = atomic_load(&python.version);

	return version ? version : "";
}

/* An interpreter on its way out frees the states of threads that still run. It says so before: what was read of a
 * state is good if this is false afterwards. The frames themselves stay. */
static inline bool leaving(void)
{
	/* Acquire: what was read before this fence was read before the answer. */
	atomic_thread_fence(memory_order_acquire);
	return python.finalizing && python.finalizing();
}

/* The thread's innermost frame, or NULL. *ret_top: as in python_stack.h. */
static inline const char *innermost_frame(const struct vs_python_layout *layout, const char *thread,
                                          const uint64_t **ret_top)
{
	const char *frame = load_pointer(thread, layout->thread_frame);

	if (layout->cframe_frame >= 0 && frame && !leaving()) {
		*ret_top = (const uint64_t *)(frame + layout->cframe_frame);
		frame = load_pointer(frame, (size_t)layout->cframe_frame);
	}
	return leaving() ? NULL : frame;
}

/* The layout meets its first frame. Threads without one prove nothing. */
static int check_once(const struct vs_python_layout *layout, const char *thread)
{
	int unchecked = STATE_UNCHECKED;
	const char *frame;

	if (peek_pointer(thread, layout->thread_frame, &frame) < 0 ||
	    (layout->cframe_frame >= 0 && frame && peek_pointer(frame, (size_t)layout->cframe_frame, &frame) < 0) ||
	    !check(frame)) {
		turn_off();
		return STATE_OFF;
	}
	if (frame)
		atomic_compare_exchange_strong(&python.state, &unchecked, STATE_READY);
	return STATE_READY;
}

static inline uint64_t position(const struct vs_python_layout *layout, const char *frame)
{
	return layout->position == VS_POSITION_POINTER ? load64(frame, layout->frame_position)
	                                               : (uint32_t)load32(frame, layout->frame_position);
}

static int32_t instruction(const struct vs_python_layout *layout, const char *code, uint64_t word)
{
	switch (layout->position) {
	case VS_POSITION_BYTES:
		return (int32_t)word;
	case VS_POSITION_UNITS:
		return (int32_t)word * 2;
	default:
		return (int32_t)(word - ((uint64_t)(uintptr_t)code + layout->code_bytecode));
	}
}

static inline struct vs_python_code_identity identity(const struct vs_python_layout *layout, const char *code)
{
	size_t name = layout->code_qualified_name ? layout->code_qualified_name : layout->code_name;

	return (struct vs_python_code_identity){{(uint64_t)(uintptr_t)code, load64(code, layout->code_file),
	                                         load64(code, name),
	                                         (uint32_t)load32(code, layout->code_first_line)}};
}

/* What a comparison looks at of a code object. Two of one file and line, at one address and at the same instruction,
 * would have to be lambdas of one line: their names need not be looked at. Never 0: a file is an object. */
static inline uint64_t identity_hash(const struct vs_python_layout *layout, const char *code)
{
	return load64(code, layout->code_file) + (uint32_t)load32(code, layout->code_first_line) * VS_HASH_TURN;
}

static inline struct vs_python_fresh read_frame(const struct vs_python_layout *layout, const char *frame)
{
	struct vs_python_fresh read = {.entry = {.frame = frame,
	                                         .code = load64(frame, layout->frame_code),
	                                         .position = position(layout, frame)}};
	const char *code = untag((const char *)(uintptr_t)read.entry.code);

	if (layout->frame_owner && frame[layout->frame_owner] >= FIRST_INTERNAL_OWNER)
		return read;
	if (code && load_pointer(code, layout->object_type) == python.code_type) {
		struct vs_python_code_identity of = identity(layout, code);

		read.entry.identity = identity_hash(layout, code);
		read.words[0] = of.words[0] + read.entry.position * VS_HASH_TURN;
		read.words[1] = of.words[1] + of.words[2] * VS_HASH_TURN + (of.words[3] << 44);
	}
	return read;
}

static inline uint16_t *place_of(struct vs_python *memory, const char *frame)
{
	return &memory->places[((uint64_t)(uintptr_t)frame * VS_HASH_STEP >> 32) % VS_PYTHON_PLACES];
}

static inline struct vs_python_total total_with(struct vs_python_total total, const struct vs_python_fresh *fresh)
{
	if (fresh->entry.identity) {
		total.chain = vs_chain_add(total.chain, fresh->words[0]);
		total.chain = vs_chain_add(total.chain, fresh->words[1]);
		total.count++;
	}
	return total;
}

static inline struct vs_python_total total_of(const struct vs_python *memory, uint32_t depth)
{
	return depth ? memory->totals[depth - 1] : (struct vs_python_total){.chain = vs_chain_start(2)};
}

/* From `*frame`, which is entry `at`, outwards as long as the frames are the same ones; each is
 * read only when the one before has led to it, for the others may be gone. *frame becomes the next one, *ret_changed
 * the outermost entry that is not as it was, at + 1 if all are. Returns the outermost entry reached. `by_address`:
 * code objects are known by theirs. This is the walk of nearly every stack. */
static inline __attribute__((always_inline)) uint32_t compare(const struct vs_python_entry *entries, uint32_t at,
                                                              const struct vs_python_layout *layout, bool by_address,
                                                              const char **frame, uint32_t *ret_changed)
{
	const struct vs_python_entry *entry = &entries[at], *changed = entry + 1;
	const char *here = *frame, *next;

	for (;;) {
		/* A branch, never a value that the rest would have to wait for. */
		if (__builtin_expect((load64(here, layout->frame_code) ^ entry->code) |
		                         (position(layout, here) ^ entry->position),
		                     0) ||
		    (!by_address && entry->identity &&
		     __builtin_expect(
		         entry->identity != identity_hash(layout, untag((const char *)(uintptr_t)entry->code)), 0))) {
			changed = entry;
			__asm__("" : "+r"(changed));
		}
		next = load_pointer(here, layout->frame_previous);
		if (entry == entries)
			break;
		/* The same as `next`, and there without waiting for it. The compiler is not to know. */
		here = entry[-1].frame;
		__asm__("" : "+r"(here));
		if (next != entry[-1].frame)
			break;
		entry--;
	}
	*frame = next;
	*ret_changed = (uint32_t)(changed - entries);
	return (uint32_t)(entry - entries);
}

static inline __attribute__((always_inline)) uint32_t compare_any(const struct vs_python_entry *entries, uint32_t at,
                                                                  bool by_address, const char **frame,
                                                                  uint32_t *ret_changed)
{
	switch (python.compiled) {
	case 0:
		return compare(entries, at, &compiled[0], by_address, frame, ret_changed);
	case 1:
		return compare(entries, at, &compiled[1], by_address, frame, ret_changed);
	default:
		return compare(entries, at, &python.layout, by_address, frame, ret_changed);
	}
}

static __attribute__((noinline)) uint32_t compare_all(const struct vs_python_entry *entries, uint32_t at,
                                                      const char **frame, uint32_t *ret_changed)
{
	return compare_any(entries, at, false, frame, ret_changed);
}

void vs_python_forget(struct vs_python *memory)
{
	memory->depth = 0;
}

static inline struct vs_python_total remember(struct vs_python *memory, uint32_t at, struct vs_python_total total,
                                              const struct vs_python_fresh *fresh)
{
	memory->entries[at] = fresh->entry;
	return memory->totals[at] = total_with(total, fresh);
}

/* False: too deep to be remembered. */
static inline bool walk_from(struct vs_python *memory, const struct vs_python_layout *layout, const char *frame,
                             struct vs_python_total *ret_total)
{
	uint32_t fresh = 0, depth = 0;
	struct vs_python_total total;

	while (frame) {
		uint32_t at = *place_of(memory, frame), reached, changed;

		if (at >= memory->depth || memory->entries[at].frame != frame) {
			if (fresh == VS_PYTHON_ENTRIES)
				return false;
			memory->fresh[fresh++] = read_frame(layout, frame);
			frame = load_pointer(frame, layout->frame_previous);
			continue;
		}
		reached = compare_all(memory->entries, at, &frame, &changed);
		if (!reached && !frame) {
			/* To the end: what has changed stays where it is. */
			for (total = total_of(memory, changed); changed <= at; changed++) {
				struct vs_python_fresh now = read_frame(layout, memory->entries[changed].frame);

				total = remember(memory, changed, total, &now);
			}
			depth = at + 1;
			break;
		}
		for (uint32_t i = at + 1; i-- > reached;) {
			if (fresh == VS_PYTHON_ENTRIES)
				return false;
			memory->fresh[fresh++] = read_frame(layout, memory->entries[i].frame);
		}
	}
	if (depth + fresh > VS_PYTHON_ENTRIES)
		return false;
	total = total_of(memory, depth);
	for (; fresh; depth++) {
		*place_of(memory, memory->fresh[--fresh].entry.frame) = (uint16_t)depth;
		total = remember(memory, depth, total, &memory->fresh[fresh]);
	}
	memory->depth = depth;
	*ret_total = total;
	return true;
}

/* The innermost frames of a stack too deep to be remembered. */
static void walk_cut(struct vs_python *memory, const struct vs_python_layout *layout, const char *frame,
                     struct vs_python_stack *stack)
{
	struct vs_python_total total = {.chain = vs_chain_start(3)};
	uint32_t count = 0;

	memory->depth = 0;
	for (; frame && count < VS_PYTHON_ENTRIES && total.count < VS_MAX_PYTHON;
	     count++, frame = load_pointer(frame, layout->frame_previous)) {
		memory->fresh[count] = read_frame(layout, frame);
		total = total_with(total, &memory->fresh[count]);
	}
	*stack = (struct vs_python_stack){.innermost = (const char *)&memory->fresh[0].entry,
	                                  .step = sizeof(memory->fresh[0]),
	                                  .entry_count = count,
	                                  .count = total.count,
	                                  .truncated = true,
	                                  .chain = total.chain};
}

/* The calling thread's innermost frame, or NULL. */
static inline const char *frame_now(const uint64_t **ret_top)
{
	/* Acquire: what vs_python_prepare() found comes with the state. */
	int state = atomic_load_explicit(&python.state, memory_order_acquire);
	const char *thread;

	if (state == STATE_ABSENT || state == STATE_OFF)
		return NULL;
	thread = leaving() ? NULL : python.thread_state();
	if (!thread || (state == STATE_UNCHECKED && check_once(&python.layout, thread) != STATE_READY))
		return NULL;
	return innermost_frame(&python.layout, thread, ret_top);
}

void vs_python_walk(struct vs_python *memory, struct vs_python_stack *ret_stack)
{
	const uint64_t *top = NULL;
	const char *frame = frame_now(&top);
	struct vs_python_total total;

	*ret_stack = (struct vs_python_stack){.chain = vs_chain_start(2)};
	if (!frame)
		return;
	if (!walk_from(memory, &python.layout, frame, &total) || total.count > VS_MAX_PYTHON) {
		walk_cut(memory, &python.layout, frame, ret_stack);
	} else {
		ret_stack->innermost = (const char *)&memory->entries[memory->depth - 1];
		ret_stack->step = -(ptrdiff_t)sizeof(memory->entries[0]);
		ret_stack->entry_count = memory->depth;
		ret_stack->count = total.count;
		ret_stack->chain = total.chain;
		ret_stack->top = top;
	}
}

bool vs_python_is(const struct vs_python_entry *entries, uint32_t count, const uint64_t *top, bool same_epoch)
{
	const char *frame;
	uint32_t changed, reached;

	/* An interpreter on its way out frees other threads' frames. */
	if (top)
		frame = leaving() ? NULL : (const char *)(uintptr_t)*top;
	else
		frame = frame_now(&top);
	if (!count || !frame)
		return !count && !frame;
	if (frame != entries[count - 1].frame)
		return false;
	reached = __builtin_expect(same_epoch, true) ? compare_any(entries, count - 1, true, &frame, &changed)
	                                             : compare_all(entries, count - 1, &frame, &changed);
	return !reached && !frame && changed == count;
}

uint32_t vs_python_frames(const struct vs_python_stack *stack, struct vs_python_frame_at frames[VS_MAX_PYTHON])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->entry_count && count < VS_MAX_PYTHON; i++) {
		const struct vs_python_entry *entry = vs_python_entry_at(stack, i);
		const char *code = untag((const char *)(uintptr_t)entry->code);

		if (!entry->identity)
			continue;
		frames[count].code = code;
		frames[count++].instruction = instruction(&python.layout, code, entry->position);
	}
	return count;
}

struct vs_key vs_python_code_key(const char *code)
{
	struct vs_python_code_identity code_identity = identity(&python.layout, code);

	return vs_key_words(1, code_identity.words, 4);
}

static int read_text(const char *object, char *buffer, size_t *ret_size)
{
	const struct vs_python_layout *layout = &python.layout;
	uint32_t state, kind;
	bool compact, ascii;
	uint64_t length;

	if (!object || load_pointer(object, layout->object_type) != python.text_type)
		return -EBADMSG;
	/* kind:3 compact:1 ascii:1 */
	state = (uint32_t)load32(object, layout->text_state) >> layout->text_kind_shift;
	kind = state & 7;
	compact = state >> 3 & 1;
	ascii = state >> 4 & 1;
	length = load64(object, layout->text_length);
	if (!compact || (kind != 1 && kind != 2 && kind != 4))
		return -EBADMSG;
	*ret_size = vs_python_text(object + (ascii ? layout->text_ascii : layout->text_compact), length, kind, buffer,
	                           VS_MAX_TEXT);
	return 0;
}

int vs_python_code_read(const char *code, struct vs_python_code *ret_code)
{
	const struct vs_python_layout *layout = &python.layout;
	size_t name = layout->code_qualified_name ? layout->code_qualified_name : layout->code_name;
	const char *lines;
	int r;

	r = read_text(load_pointer(code, layout->code_file), ret_code->file, &ret_code->file_size);
	if (r < 0)
		return r;
	r = read_text(load_pointer(code, name), ret_code->function, &ret_code->function_size);
	if (r < 0)
		return r;
	ret_code->first_line = (uint32_t)load32(code, layout->code_first_line);
	ret_code->lines = NULL;
	ret_code->lines_size = 0;
	lines = load_pointer(code, layout->code_lines);
	if (lines && load_pointer(lines, layout->object_type) == python.bytes_type) {
		uint64_t size = load64(lines, layout->bytes_size);

		if (size <= VS_MAX_LINE_TABLE) {
			ret_code->lines = (const uint8_t *)lines + layout->bytes_data;
			ret_code->lines_size = size;
		}
	}
	return 0;
}
