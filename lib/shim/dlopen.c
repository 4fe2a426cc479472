/* SPDX-License-Identifier: MIT
 *
 * dlopen() finds $ORIGIN and RPATH by its return address, so a wrapper may not call the real one: it must jump
 * there with the caller's return address in place. C cannot promise a tail call; hence a few instructions.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/dlopen.h"
#include "shim/libraries.h"
#include "shim/loader.h"

/* Read by the assembly below. */
__attribute__((visibility("hidden"), used)) void *vs_dlopen_real;
__attribute__((visibility("hidden"), used)) int vs_dlopen_flags;

__attribute__((visibility("hidden"), used)) void vs_dlopen_resolve(void)
{
	vs_dlopen_real = vs_loader_next("dlopen");
}

/* Names of libraries, one behind the other, each with its 0. */
struct names {
	char *text;
	size_t used, size;
};

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
	struct names *names = data;
	size_t length = strlen(info->dlpi_name) + 1;

	(void)size;
	/* Without a folder: the program itself, and the kernel's. */
	if (strchr(info->dlpi_name, '/') && length <= names->size - names->used) {
		memcpy(names->text + names->used, info->dlpi_name, length);
		names->used += length;
	}
	return 0;
}

void vs_dlopen_keep(void)
{
	/* A process with more than some thousand libraries keeps the first ones. */
	struct names names = {.size = 1 << 20};

	if (vs_dlopen_flags)
		return;
	/* Relaxed, as dlopen() reads it: a library that is opened at this moment was so before or after it. */
	__atomic_store_n(&vs_dlopen_flags, RTLD_NODELETE, __ATOMIC_RELAXED);
	names.text =
	    mmap(NULL, names.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (names.text == MAP_FAILED)
		return;
	/* Not in the callback, which holds a lock that others wait for while they hold the one that dlopen() needs.
	 */
	vs_libraries_each(collect, &names);
	for (size_t at = 0; at < names.used; at += strlen(names.text + at) + 1)
		dlopen(names.text + at, RTLD_LAZY | RTLD_NOLOAD);
	munmap(names.text, names.size);
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "	.cfi_startproc\n"
        "	endbr64\n"
        "	cmpq $0, vs_dlopen_real(%rip)\n"
        "	jne 1f\n"
        "	pushq %rdi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	pushq %rsi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	subq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	call vs_dlopen_resolve\n"
        "	addq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	popq %rsi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	popq %rdi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "1:	orl vs_dlopen_flags(%rip), %esi\n"
        "	jmpq *vs_dlopen_real(%rip)\n"
        "	.cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        "	.cfi_startproc\n"
        "	hint #34\n" /* bti c */
        "	adrp x16, vs_dlopen_real\n"
        "	ldr x16, [x16, :lo12:vs_dlopen_real]\n"
        "	cbnz x16, 1f\n"
        "	stp x29, x30, [sp, #-32]!\n"
        "	.cfi_adjust_cfa_offset 32\n"
        "	.cfi_rel_offset x29, 0\n"
        "	.cfi_rel_offset x30, 8\n"
        "	stp x0, x1, [sp, #16]\n"
        "	bl vs_dlopen_resolve\n"
        "	ldp x0, x1, [sp, #16]\n"
        "	ldp x29, x30, [sp], #32\n"
        "	.cfi_adjust_cfa_offset -32\n"
        "	.cfi_restore x29\n"
        "	.cfi_restore x30\n"
        "1:	adrp x16, vs_dlopen_flags\n"
        "	ldr w17, [x16, :lo12:vs_dlopen_flags]\n"
        "	orr w1, w1, w17\n"
        "	adrp x16, vs_dlopen_real\n"
        "	ldr x16, [x16, :lo12:vs_dlopen_real]\n"
        "	br x16\n"
        "	.cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#endif
