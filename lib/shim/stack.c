/* SPDX-License-Identifier: MIT
 *
 * The common case is a stack seen before: walk, hash, one look-up without a lock. There is no per-thread cache in
 * front of the table: its lines are only read once warm, so every core has them already.
 */
#include <errno.h>

#include "base/section.h"
#include "shim/modules.h"
#include "shim/native_stack.h"
#include "shim/process.h"
#include "shim/python_stack.h"
#include "shim/stack.h"
#include "trace/writer.h"

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
	uint32_t id = vs_idmap_find(&process->codes, key), file, function;
	struct vs_python_code code;

	if (id || vs_idmap_full(&process->codes) || vs_python_code_read(object, &code) < 0)
		return id;
	file = string_locked(process, code.file, code.file_size);
	function = string_locked(process, code.function, code.function_size);
	id = vs_writer_code(process->writer, file, function, code.first_line, code.lines, code.lines_size);
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
static uint32_t define(struct vs_process *process, struct vs_key key, struct vramshim_stack *stack,
                       const struct vs_python_walk *walk)
{
	uint32_t frames[VS_MAX_PYTHON], id;
	struct vs_section section;

	if (!enter(process, &section))
		return 0;
	/* Before the lock is taken: this takes the loader's. */
	if (stack->native_count)
		vs_modules_record(process);
	vs_python_prepare();
	pthread_mutex_lock(&process->intern_lock);
	id = vs_idmap_find(&process->stacks, key);
	if (!id && vs_idmap_full(&process->stacks)) {
		atomic_fetch_add_explicit(&process->stacks_dropped, 1, memory_order_relaxed);
	} else if (!id) {
		stack->python = frames;
		for (unsigned int i = 0; i < walk->count; i++)
			frames[i] = frame_locked(process, walk->frames[i].code, walk->frames[i].instruction);
		stack->python_count = walk->count;
		id = vs_writer_stack(process->writer, stack);
		if (id)
			vs_idmap_add(&process->stacks, key, id);
	}
	unlock(process, &section);
	return id;
}

uint32_t vs_stack_capture(struct vs_process *process, enum vramshim_event_type type)
{
	bool light = process->level == VS_LEVEL_LIGHT;
	struct vramshim_stack stack = {0};
	struct vs_python_walk walk; /* large: filled as far as it is used */
	uint64_t native[VS_MAX_NATIVE];
	struct vs_hash hash;
	struct vs_key key;
	uint32_t id;

	if (light && (type == VRAMSHIM_TORCH_FREE || type == VRAMSHIM_CUDA_FREE))
		return 0;
	if (!light)
		stack.native_count = vs_native_walk(native, &stack.native);
	hash = vs_hash_start(stack.native_count);
	vs_hash_words(&hash, stack.native, stack.native_count);
	vs_python_walk(&walk, &hash);
	if (!stack.native_count && !walk.count)
		return 0;
	key = vs_hash_end(&hash);
	id = vs_idmap_find(&process->stacks, key);
	if (id)
		return id;
	stack.truncated = walk.truncated || stack.native + stack.native_count == native + VS_MAX_NATIVE;
	return define(process, key, &stack, &walk);
}
