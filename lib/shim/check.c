/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/check.h"
#include "shim/native_stack.h"
#include "shim/process.h"
#include "shim/python_stack.h"
#include "shim/stack.h"

/* Zeroed: without bounds of the thread's stack there are no rules, and without a last stack nothing is reused. Never
 * freed, as threads of tests are few. */
struct full {
	struct vs_native native;
	struct vs_python python;
};

static __thread struct full *full __attribute__((tls_model("initial-exec")));
static __thread bool python_known __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t ways[VS_CHECK_WAYS], checked, wrong;

void vs_check_count(enum vs_check_way way)
{
	atomic_fetch_add(&ways[way], 1);
}

void vs_check_begin(void)
{
	python_known = vs_python_known();
}

static void show(const char *which, const struct vs_native_stack *native, const struct vs_python_stack *python)
{
	vs_say("check: %s: %u native frames, %u of Python", which, native->count, python->count);
	for (uint32_t i = 0; i < native->count; i++)
		vs_say("check:   %#lx", (unsigned long)native->frames[native->count - 1 - i]);
}

void vs_check_stack(struct vs_process *process, uint32_t id, int light)
{
	struct vs_native_stack native = {.chain = vs_chain_start(0)};
	struct vs_python_stack python;
	uint32_t expected;

	atomic_fetch_add(&checked, 1);
	if (python_known != vs_python_known())
		return;
	if (!full) {
		full = mmap(NULL, sizeof(*full), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (full == MAP_FAILED) {
			full = NULL;
			return;
		}
	}
	full->python.depth = 0;
	if (!light) {
		vs_native_walk(&full->native, __builtin_frame_address(0), &native);
		/* It has counted itself. */
		atomic_fetch_sub(&ways[VS_CHECK_BY_LIBUNWIND], 1);
	}
	vs_python_walk(&full->python, &python);
	expected = vs_stack_id(process, &native, &python);
	/* A full table, or a full disk, gives 0. */
	if (id == expected || !id || !expected)
		return;
	if (atomic_fetch_add(&wrong, 1) < 3) {
		vs_say("check: stack %u is taken for %u", expected, id);
		show("really", &native, &python);
	}
}

__attribute__((destructor)) static void sum_up(void)
{
	if (atomic_load(&checked))
		vs_say("check: %lu stacks, %lu guessed, %lu by rules, %lu by libunwind, %lu wrong",
		       (unsigned long)checked, (unsigned long)ways[VS_CHECK_GUESSED],
		       (unsigned long)ways[VS_CHECK_BY_RULES], (unsigned long)ways[VS_CHECK_BY_LIBUNWIND],
		       (unsigned long)wrong);
}
