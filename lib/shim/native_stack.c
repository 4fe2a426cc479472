/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "base/section.h"
#include "shim/check.h"
#include "shim/libraries.h"
#include "shim/libunwind.h"
#include "shim/native_stack.h"
#include "shim/symbols.h"
#include "shim/unwind_rule.h"

static _Atomic(int (*)(void **, int)) backtrace_function;
static atomic_int beginner, prepared; /* which process began to prepare, which one has: pids */

/* Relaxed: threads that prepare at once find the same. */
static _Atomic(const char *) missing;
static _Atomic uint64_t main_stack_end; /* the first stack pointer of the process; 0: not known */

/* Where this library's own code lies; the linker defines both. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* The kernel keeps this much below the top of the first thread's stack free of other mappings, whatever the limit
 * (MIN_GAP, arch/x86/mm/mmap.c). What is used of it is there: it grows from the top without holes. */
#define MAIN_STACK_SIZE (UINT64_C(128) << 20)
/* No code lies below: libunwind's own bound for the end of a stack. */
#define LOWEST_CODE 0x4000

void vs_native_prepare(void)
{
	int me = (int)getpid(), by = 0;
	int (*backtrace)(void **, int) = NULL;
	void **stack_end;
	const char *off = "off: libunwind.so.8 is not installed";

	if (atomic_load_explicit(&prepared, memory_order_acquire) == me)
		return;
	atomic_compare_exchange_strong(&beginner, &by, me);
	/* In the child of a process that was being recorded, one of libunwind's locks may be held for ever by a
	 * thread that did not come along. CUDA does not survive such a fork either, so little is missed. */
	if (by && by != me)
		off = "off: the process was forked from a recorded one";
	else if (vs_libraries_lost())
		off = "off: the process was forked while another thread held the list of libraries";
	else
		by = me;
	if (by == me) {
		stack_end = vs_symbol_find("__libc_stack_end");
		main_stack_end = stack_end ? (uint64_t)(uintptr_t)*stack_end : 0;
		vs_unwind_prepare();
		if (!vs_libraries_hold())
			return;
		backtrace = vs_libunwind_open();
		vs_libraries_release();
	}
	atomic_store_explicit(&missing, backtrace ? NULL : off, memory_order_relaxed);
	atomic_store_explicit(&backtrace_function, backtrace, memory_order_relaxed);
	atomic_store_explicit(&prepared, me, memory_order_release);
}

bool vs_native_unprepared(void)
{
	return !atomic_load_explicit(&backtrace_function, memory_order_relaxed) &&
	       !atomic_load_explicit(&missing, memory_order_relaxed);
}

const char *vs_native_missing(void)
{
	return atomic_load_explicit(&missing, memory_order_relaxed);
}

void vs_native_begin(struct vs_native *native)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	pthread_attr_t attributes;
	size_t size;
	void *low;

	if (here < main_stack_end && main_stack_end - here < MAIN_STACK_SIZE) {
		native->low = main_stack_end - MAIN_STACK_SIZE;
		native->high = main_stack_end;
	} else if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
		if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
			native->low = (uint64_t)(uintptr_t)low;
			native->high = native->low + size;
		}
		pthread_attr_destroy(&attributes);
	}
}

static inline uint64_t load(uint64_t address)
{
	return *(const uint64_t *)(uintptr_t)address;
}

/* How many entries of the last stack, from the outermost on, are as they were, seen from `sp`: whoever is in the
 * state of one of them has the same frames outside of it. All that is read lies between sp and the end of the
 * thread's stack, whether it is still part of a frame or not. */
static uint32_t unchanged(const struct vs_native *native, uint64_t sp)
{
	uint32_t count = 0;

	while (count < native->depth && native->sps[count] > sp && load(native->sps[count] - 8) == native->pcs[count])
		count++;
	for (uint32_t i = 0; i < native->saved_count && native->saved[i].by < count; i++)
		if (load(native->saved[i].slot) != native->saved[i].value)
			return native->saved[i].by;
	return count;
}

static void forget_from(struct vs_native *native, uint32_t depth)
{
	native->depth = depth;
	while (native->saved_count && native->saved[native->saved_count - 1].by >= depth)
		native->saved_count--;
}

void vs_native_forget(struct vs_native *native)
{
	native->depth = native->saved_count = 0;
}

/* Remember one more frame, the caller of nobody yet. */
static inline void remember(struct vs_native *native, const struct vs_native_fresh *frame)
{
	uint32_t at = native->depth++;
	bool outer_matters = at && native->rbp_matters[at - 1];

	native->pcs[at] = frame->pc;
	native->sps[at] = frame->sp;
	native->bps[at] = frame->bp;
	native->chains[at] = vs_chain_add(at > native->root ? native->chains[at - 1] : vs_chain_start(1), frame->pc);
	native->rbp_matters[at] = frame->cfa_from_rbp || (!frame->rbp_saved && outer_matters);
	if (frame->rbp_saved && outer_matters) {
		uint32_t saved = native->saved_count++;

		native->saved[saved].slot = native->sps[at - 1] + (uint64_t)frame->rbp_offset;
		native->saved[saved].value = native->bps[at - 1];
		native->saved[saved].by = at;
	}
}

/* False: not by rules. The last stack is then unharmed, or forgotten. */
static bool walk_by_rules(struct vs_native *native, uint64_t pc, uint64_t sp, uint64_t bp)
{
	uint64_t high = native->high;
	uint32_t same, fresh = 0;

	if (sp < native->low || sp >= high)
		return false;
	same = unchanged(native, sp);
	for (;;) {
		struct vs_native_fresh *frame = &native->fresh[fresh];
		struct vs_unwind_rule rule;
		uint64_t cfa;

		while (same && native->sps[same - 1] < sp)
			same--;
		if (same && native->sps[same - 1] == sp && native->pcs[same - 1] == pc &&
		    (!native->rbp_matters[same - 1] || native->bps[same - 1] == bp))
			break;
		*frame = (struct vs_native_fresh){.pc = pc, .sp = sp, .bp = bp};
		fresh++;
		if (pc < LOWEST_CODE) {
			same = 0;
			break;
		}
		rule = vs_unwind_rule(pc);
		if (rule.kind == VS_UNWIND_FOREIGN || fresh == VS_NATIVE_ENTRIES)
			return false;
		if (rule.kind == VS_UNWIND_END) {
			same = 0;
			break;
		}
		frame->cfa_from_rbp = rule.cfa_from_rbp;
		frame->rbp_saved = rule.rbp_saved;
		frame->rbp_offset = rule.rbp_offset;
		cfa = (rule.cfa_from_rbp ? bp : sp) + (uint64_t)(int64_t)rule.cfa_offset;
		/* Only ever outwards, and never beyond the thread's stack. */
		if (cfa <= sp || cfa > high || cfa % 8)
			return false;
		pc = load(cfa - 8);
		if (rule.rbp_saved) {
			uint64_t slot = cfa + (uint64_t)(int64_t)rule.rbp_offset;

			if (slot < sp || slot >= cfa)
				return false;
			bp = load(slot);
		}
		sp = cfa;
	}
	if (same + fresh > VS_NATIVE_ENTRIES)
		return false;
	forget_from(native, same);
	if (!same)
		native->root = native->fresh[fresh - 1].pc < LOWEST_CODE;
	while (fresh)
		remember(native, &native->fresh[--fresh]);
	return true;
}

/* Leaves nothing behind to be compared with. */
static bool walk_by_libunwind(struct vs_native *native, int (*walk)(void **, int))
{
	void *found[VS_NATIVE_ENTRIES];
	struct vs_section section;
	int count;

	/* It probes memory by system calls: a thread that is cancelled must not vanish there. And what it keeps of a
	 * thread is no longer whole where a handler leaves it, or comes back to it after other walks. */
	vs_section_enter(&section);
	count = walk(found, VS_NATIVE_ENTRIES);
	vs_section_leave(&section);
	vs_native_forget(native);
	native->root = 0;
	for (int i = count; i > 0; i--) {
		struct vs_native_fresh frame = {.pc = (uint64_t)(uintptr_t)found[i - 1]};

		remember(native, &frame);
	}
	return count > 0;
}

/* The same stack has the same chain, however much of it was found. */
static void cut(struct vs_native_stack *stack)
{
	stack->frames += stack->count - VS_MAX_NATIVE;
	stack->count = VS_MAX_NATIVE;
	stack->truncated = true;
	stack->chain = vs_chain_start(1);
	for (uint32_t i = 0; i < VS_MAX_NATIVE; i++)
		stack->chain = vs_chain_add(stack->chain, stack->frames[i]);
}

static inline bool own(uint64_t pc)
{
	return pc >= (uint64_t)(uintptr_t)__ehdr_start && pc < (uint64_t)(uintptr_t)etext;
}

void vs_native_walk(struct vs_native *native, const uint64_t *record, struct vs_native_stack *ret_stack)
{
	int (*walk)(void **, int) = atomic_load_explicit(&backtrace_function, memory_order_relaxed);
	uint32_t count;
	bool by_rules = false;

	ret_stack->count = 0;
	ret_stack->truncated = false;
	ret_stack->chain = vs_chain_start(0);
	if (!walk)
		return;
#if defined(__x86_64__)
	by_rules = walk_by_rules(native, record[1], (uint64_t)(uintptr_t)(record + 2), record[0]);
#else
	(void)record;
#endif
	if (!by_rules && !walk_by_libunwind(native, walk))
		return;
	count = native->depth;
	while (count > native->root && own(native->pcs[count - 1]))
		count--;
	if (count > native->root) {
		ret_stack->chain = native->chains[count - 1];
		ret_stack->count = count - native->root;
		ret_stack->frames = native->pcs + native->root;
		ret_stack->truncated = native->depth == VS_NATIVE_ENTRIES;
	}
	if (ret_stack->count > VS_MAX_NATIVE)
		cut(ret_stack);
	vs_check_count(by_rules ? VS_CHECK_BY_RULES : VS_CHECK_BY_LIBUNWIND);
	if (!by_rules)
		vs_native_forget(native);
}
