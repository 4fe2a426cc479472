/* SPDX-License-Identifier: MIT
 *
 * An exported dlopen() before the real one. That finds $ORIGIN and RPATH by its return address, so whoever stands
 * before it may not call it: it must jump there with the caller's return address in place. C cannot promise a tail
 * call; hence a few instructions. In one source file of a library.
 */
#ifndef VS_BASE_DLOPEN_GATEWAY_H
#define VS_BASE_DLOPEN_GATEWAY_H

/* The caller's arguments, where the assembly below has put them; may be changed. */
struct vs_dlopen_call {
	const char *file; /* NULL: the program itself */
	int mode;
};

/* Returns the dlopen() that is to be called with them. The including file defines it. */
__attribute__((visibility("hidden"), used)) void *vs_dlopen_prepare(struct vs_dlopen_call *call);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "	.cfi_startproc\n"
        "	endbr64\n"
        "	subq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	pushq %rsi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	pushq %rdi\n"
        "	.cfi_adjust_cfa_offset 8\n"
        "	movq %rsp, %rdi\n"
        "	call vs_dlopen_prepare\n"
        "	popq %rdi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	popq %rsi\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	addq $8, %rsp\n"
        "	.cfi_adjust_cfa_offset -8\n"
        "	jmpq *%rax\n"
        "	.cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        "	.cfi_startproc\n"
        "	hint #34\n" /* bti c */
        "	stp x29, x30, [sp, #-32]!\n"
        "	.cfi_adjust_cfa_offset 32\n"
        "	.cfi_rel_offset x29, 0\n"
        "	.cfi_rel_offset x30, 8\n"
        "	stp x0, x1, [sp, #16]\n"
        "	add x0, sp, #16\n"
        "	bl vs_dlopen_prepare\n"
        "	mov x16, x0\n"
        "	ldp x0, x1, [sp, #16]\n"
        "	ldp x29, x30, [sp], #32\n"
        "	.cfi_adjust_cfa_offset -32\n"
        "	.cfi_restore x29\n"
        "	.cfi_restore x30\n"
        "	br x16\n"
        "	.cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#endif

#endif
