/* SPDX-License-Identifier: MIT
 *
 * The common case is a stack seen before: walk, hash, one look-up without a lock. There is no per-thread cache in
 * front of the table: its lines are only read once warm, so every core has them already.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/section.h"
#include "shim/check.h"
#include "shim/dlopen.h"
#include "shim/modules.h"
#include "shim/native_stack.h"
#include "shim/process.h"
#include "shim/python_codes.h"
#include "shim/python_stack.h"
#include "shim/stack.h"
#include "shim/stack_guess.h"
#include "shim/thread.h"
#include "trace/writer.h"

/* Of a thread at the most. More are needed where a signal handler interrupts a capture and goes on elsewhere, on a
 * stack of the job's own making, say: the capture may come back, and go on with what it had. */
#define STACKS_MAX 4

struct vs_stacks {
	/* Being changed; on entry: a signal handler left, for good or for a while, and all may be half done. */
	uint32_t busy;
	/* Of the thread's, around: behind this one are those that were left, the latest last. */
	struct vs_stacks *next;
	struct vs_native native;
	struct vs_python python;
	struct vs_guesses guesses;
};

struct vs_stacks *vs_stacks_new(void)
{
	struct vs_stacks *stacks =
	    mmap(NULL, sizeof(*stacks), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stacks == MAP_FAILED)
		return NULL;
	vs_native_begin(&stacks->native);
	stacks->next = stacks;
	return stacks;
}

static void restart(struct vs_stacks *stacks)
{
	vs_native_forget(&stacks->native);
	vs_python_forget(&stacks->python);
	vs_guesses_forget(&stacks->guesses);
	stacks->busy = 0;
}

void vs_stacks_restart(struct vs_stacks *stacks)
{
	struct vs_stacks *at = stacks;

	do {
		restart(at);
		at = at->next;
	} while (at != stacks);
}

void vs_stacks_free(struct vs_stacks *stacks)
{
	struct vs_stacks *at = stacks, *next;

	if (!stacks)
		return;
	do {
		next = at->next;
		vs_guesses_release(&at->guesses);
		munmap(at, sizeof(*at));
		at = next;
	} while (at != stacks);
}

/* Whether they were free, and are the caller's now: in one instruction, so that a handler comes before or after. Not
 * a locked one, which would be ten times dearer: the thread alone is concerned. */
static inline bool claim(struct vs_stacks *stacks)
{
	bool was_busy;

#if defined(__x86_64__)
	__asm__ volatile("btsl $0, %0" : "+m"(stacks->busy), "=@ccc"(was_busy) : : "memory");
#else
	was_busy = __atomic_exchange_n(&stacks->busy, 1, __ATOMIC_RELAXED);
#endif
	return !was_busy;
}

/* In place of one that was left, claimed. */
static __attribute__((noinline)) struct vs_stacks *another(struct vs_stacks *left)
{
	struct vs_stacks *at = left->next;
	unsigned int count = 1;
	struct vs_section section;

	vs_section_enter(&section);
	for (; at != left && at->busy; at = at->next)
		count++;
	if (at == left) {
		at = count < STACKS_MAX ? vs_stacks_new() : NULL;
		if (at) {
			at->next = left->next;
			left->next = at;
		} else {
			/* Whoever left it first of all is not expected back. */
			at = left->next;
			restart(at);
		}
	}
	at->busy = 1;
	vs_thread.stacks = at;
	vs_section_leave(&section);
	return at;
}

size_t vs_stack_left(void)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	const struct vs_stacks *stacks = vs_thread.stacks;

	return stacks && here >= stacks->native.low && here < stacks->native.high ? here - stacks->native.low : 0;
}

static uint32_t string_locked(struct vs_process *process, const char *text, size_t size)
{
	struct vs_key key = vs_key_text(text, size);
	uint32_t id = vs_idmap_find(&process->strings, key);

	if (!id && !vs_idmap_full(&process->strings)) {
		id = vs_writer_string(process->writer, text, size);
		if (id)
			vs_idmap_add(&process->strings, key, id);
	}
	return id;
}

/* False in a child that was forked by a signal handler and has returned from it into what the parent was doing: of
 * the parent's locks, another thread may have held any. */
static bool enter(struct vs_process *process, struct vs_section *section)
{
	vs_section_enter(section);
	if (process == vs_process_peek())
		return true;
	vs_section_leave(section);
	return false;
}

static bool lock(struct vs_process *process, struct vs_section *section)
{
	if (!enter(process, section))
		return false;
	pthread_mutex_lock(&process->intern_lock);
	return true;
}

static void unlock(struct vs_process *process, const struct vs_section *section)
{
	pthread_mutex_unlock(&process->intern_lock);
	vs_section_leave(section);
}

uint32_t vs_stack_string(struct vs_process *process, const char *text, size_t size)
{
	uint32_t id = vs_idmap_find(&process->strings, vs_key_text(text, size));
	struct vs_section section;

	if (!id && lock(process, &section)) {
		id = string_locked(process, text, size);
		unlock(process, &section);
	}
	return id;
}

static uint32_t code_locked(struct vs_process *process, const char *object)
{
	struct vs_key key = vs_python_code_key(object);
	struct vs_python_code *code = &process->scratch.code;
	uint32_t id = vs_idmap_find(&process->codes, key), file, function;

	if (id || vs_idmap_full(&process->codes) || vs_python_code_read(object, code) < 0)
		return id;
	file = string_locked(process, code->file, code->file_size);
	function = string_locked(process, code->function, code->function_size);
	id = vs_writer_code(process->writer, file, function, code->first_line, code->lines, code->lines_size);
	if (id)
		vs_idmap_add(&process->codes, key, id);
	return id;
}

static uint32_t frame_locked(struct vs_process *process, const char *object, int32_t instruction)
{
	uint32_t code = code_locked(process, object);
	struct vs_key key;
	uint32_t id;

	if (!code)
		return 0;
	key = vs_key_words(2, (uint64_t[]){code, (uint32_t)instruction}, 2);
	id = vs_idmap_find(&process->frames, key);
	if (!id && !vs_idmap_full(&process->frames)) {
		/* Bytecode that is not the code object's own (a thread's copy in free-threaded builds) is far away.
		 */
		id = vs_writer_python_frame(process->writer, code, instruction >= -2 ? instruction : -1);
		if (id)
			vs_idmap_add(&process->frames, key, id);
	}
	return id;
}

/* A stack seen for the first time. */
static uint32_t define(struct vs_process *process, struct vs_key key, const struct vs_native_stack *native,
                       const struct vs_python_stack *python)
{
	struct vs_scratch *scratch = &process->scratch;
	struct vramshim_stack stack = {.native = scratch->addresses,
	                               .python = scratch->frames,
	                               .native_count = native->count,
	                               .truncated = native->truncated || python->truncated};
	struct vs_section section;
	uint32_t id;

	if (!enter(process, &section))
		return 0;
	/* Before the lock is taken: this takes the loader's. */
	vs_dlopen_keep();
	if (native->count)
		vs_modules_record(process);
	vs_python_prepare();
	pthread_mutex_lock(&process->intern_lock);
	id = vs_idmap_find(&process->stacks, key);
	if (!id && vs_idmap_full(&process->stacks)) {
		atomic_fetch_add_explicit(&process->stacks_dropped, 1, memory_order_relaxed);
	} else if (!id) {
		for (uint32_t i = 0; i < native->count; i++)
			scratch->addresses[i] = native->frames[native->count - 1 - i];
		stack.python_count = vs_python_frames(python, scratch->objects);
		for (uint32_t i = 0; i < stack.python_count; i++)
			scratch->frames[i] =
			    frame_locked(process, scratch->objects[i].code, scratch->objects[i].instruction);
		id = vs_writer_stack(process->writer, &stack);
		if (id)
			vs_idmap_add(&process->stacks, key, id);
	}
	unlock(process, &section);
	return id;
}

uint32_t vs_stack_id(struct vs_process *process, const struct vs_native_stack *native,
                     const struct vs_python_stack *python)
{
	struct vs_hash hash = vs_hash_start(native->count);
	struct vs_key key;
	uint32_t id;

	if (!native->count && !python->count)
		return 0;
	vs_hash_add(&hash, native->chain.low, native->chain.high);
	vs_hash_add(&hash, python->chain.low, python->chain.high);
	key = vs_hash_end(&hash);
	id = vs_idmap_find(&process->stacks, key);
	return id ? id : define(process, key, native, python);
}

/* Whether the calling thread's stack is the guessed one. First the native one: where the Python one begins is known
 * from it. */
static inline bool holds(struct vs_guess *guess, bool with_python, const uint64_t *record)
{
	uint64_t epoch = vs_python_epoch();

	if (!vs_guess_fits(guess, record))
		return false;
	if (!with_python)
		return true;
	if (!vs_python_is(guess->entries, guess->python_count, guess->top ? record + guess->top : NULL,
	                  guess->epoch == epoch))
		return false;
	guess->epoch = vs_python_epoch_noted(epoch);
	return true;
}

static inline bool same_chain(struct vs_chain a, struct vs_chain b)
{
	return a.low == b.low && a.high == b.high;
}

/* Python's stack alone. */
static __attribute__((noinline)) uint32_t walk_python(struct vs_process *process, struct vs_stacks *stacks,
                                                      bool with_python)
{
	const struct vs_native_stack native = {.chain = vs_chain_start(0)};
	struct vs_python_stack python = {.chain = vs_chain_start(2)};

	if (with_python)
		vs_python_walk(&stacks->python, &python);
	return vs_stack_id(process, &native, &python);
}

/* The guess was wrong, or there was none. */
static __attribute__((noinline)) uint32_t walk(struct vs_process *process, struct vs_stacks *stacks, bool with_python,
                                               const uint64_t *record, struct vs_guess **guess)
{
	struct vs_python_stack python = {.chain = vs_chain_start(2)};
	struct vs_native_stack native;
	uint64_t epoch = vs_python_epoch();
	struct vs_section section;
	struct vs_guess *latest;
	uint32_t id;

	if (with_python)
		vs_python_walk(&stacks->python, &python);
	/* A generator's frames, for one, are not where the last one's were. */
	if (*guess && same_chain((*guess)->python, python.chain) && vs_guess_fits(*guess, record)) {
		vs_guess_move(*guess, &python, epoch);
		vs_check_count(VS_CHECK_GUESSED);
		return (*guess)->id;
	}
	if (vs_native_unprepared()) {
		vs_section_enter(&section);
		vs_native_prepare();
		vs_section_leave(&section);
	}
	vs_native_walk(&stacks->native, record, &native);
	id = vs_stack_id(process, &native, &python);
	latest = vs_guess_of(&stacks->guesses, id);
	if (!latest || !holds(latest, with_python, record))
		latest = vs_guess_add(&stacks->guesses, &stacks->native, record, &python, id, epoch);
	*guess = latest;
	return id;
}

/* What is taken of a stack. */
static const struct taken {
	bool native, python, of_frees;
} taken[] = {
    [VS_LEVEL_FULL] = {true, true, true},
    [VS_LEVEL_LIGHT] = {false, true, false},
    [VS_LEVEL_NATIVE] = {true, false, true},
    [VS_LEVEL_NONE] = {false, false, false},
};

__attribute__((noinline)) uint32_t vs_stack_capture(struct vs_process *process, enum vramshim_event_type type)
{
	const uint64_t *record = __builtin_frame_address(0);
	const struct taken *take = &taken[process->level];
	struct vs_stacks *stacks = vs_thread.stacks;
	struct vs_guess **guess;
	uint32_t id;

	if (!stacks || (!take->of_frees && (type == VRAMSHIM_TORCH_FREE || type == VRAMSHIM_CUDA_FREE)))
		return 0;
	if (!claim(stacks))
		stacks = another(stacks);
	/* For a handler on this thread, as in vs_enter(). */
	__asm__ volatile("" ::: "memory");
	vs_check_begin();
	guess = vs_guess_next(&stacks->guesses, type == VRAMSHIM_TORCH_FREE);
	if (!take->native) {
		id = walk_python(process, stacks, take->python);
	} else if (*guess && holds(*guess, take->python, record)) {
		id = (*guess)->id;
		vs_check_count(VS_CHECK_GUESSED);
	} else {
		id = walk(process, stacks, take->python, record, guess);
	}
	if (take->python)
		vs_check_stack(process, id, !take->native);
	vs_guess_was(&stacks->guesses, id);
	__asm__ volatile("" ::: "memory");
	stacks->busy = 0;
	if (take->native)
		vs_guess_prefetch(&stacks->guesses);
	return id;
}
