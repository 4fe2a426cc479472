/* SPDX-License-Identifier: MIT
 *
 * The exported dlsym() and dlvsym(). Libraries with a CUDA runtime of their own (cuBLAS, cuDNN, NCCL, CuPy) reach the
 * driver through them alone: dlopen("libcuda.so.1"), dlsym(handle, "cuGetProcAddress_v2").
 *
 * The real ones look at their return address to know what RTLD_NEXT means, so a wrapper may not call them: it must
 * jump there with the caller's return address in place. C cannot promise a tail call; hence a few instructions.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/path.h"
#include "shim/loader.h"
#include "shim/real.h"
#include "shim/thread.h"

/* What the choice below returns for "there is none, and dlerror() says so". NULL is "let the real one answer". */
#define NOTHING ((void *)-1)

/* cu[A-Z] or cuda[A-Z]: cublas, cudnn, curl and their like are none of ours. */
static int is_cuda_name(const char *name)
{
	if (!name || name[0] != 'c' || name[1] != 'u')
		return 0;
	name += strncmp(name, "cuda", 4) ? 2 : 4;
	return *name >= 'A' && *name <= 'Z';
}

/* The driver may be two libraries, one that looks the other's functions up (WSL): what it finds, it must call. */
static int is_driver(void *caller)
{
	const char *file;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return 0;
	file = vs_path_file(info.dli_fname);
	return !strncmp(file, "libcuda.so", 10) || !strncmp(file, "libnvidia", 9);
}

static void *find(void *handle, const char *name, const char *version)
{
	return version ? vs_loader.dlvsym(handle, name, version) : vs_loader.dlsym(handle, name);
}

/* Without us, would the caller find this name by RTLD_DEFAULT or RTLD_NEXT? In what is loaded for all, or in what it
 * needs itself. */
static int is_visible(const char *name, const char *version, void *caller)
{
	return find(RTLD_NEXT, name, version) || vs_real_needed_by(caller, name, version);
}

/* Not there, and dlerror() says so, as after any search that found nothing. */
static void *nothing(const char *name, const char *version)
{
	find(RTLD_NEXT, name, version);
	return NOTHING;
}

/* Read by the assembly below. */
__attribute__((visibility("hidden"), used)) void *vs_dlsym_choose(void *handle, const char *name, const char *version,
                                                                  void *caller)
{
	enum vs_entry entry;
	void *found, *wrapper;

	if (!vs_loader.dlsym)
		vs_loader_resolve();
	if (!is_cuda_name(name))
		return NULL;
	entry = vs_real_find(name);
	if (entry == VS_ENTRY_COUNT || is_driver(caller))
		return NULL;
	/* Our export must not hide that nobody else has such a function. */
	if (handle == RTLD_NEXT)
		return is_visible(name, version, caller) ? NULL : nothing(name, version);
	found = find(handle, name, version);
	if (!found)
		return NOTHING;
	if (vs_real_is_ours(found)) {
		if (handle == RTLD_DEFAULT ? is_visible(name, version, caller) : vs_real_any(entry))
			return NULL;
		return nothing(name, version);
	}
	if (!vs_recording)
		return NULL;
	wrapper = vs_real_wrapper(entry, found);
	/* Looking for it may have failed here and there. Programs ask dlerror() whether dlsym() found something, and
	 * what was found last is what it tells of. */
	find(handle, name, version);
	return wrapper;
}

#if defined(__x86_64__)
#define GATEWAY(name, version, real)                                                                                 \
	__asm__(".text\n"                                                                                            \
	        ".globl " name "\n"                                                                                  \
	        ".type " name ", @function\n" name ":\n"                                                             \
	        "	.cfi_startproc\n"                                                                                  \
	        "	endbr64\n"                                                                                         \
	        "	pushq %rdi\n"                                                                                      \
	        "	.cfi_adjust_cfa_offset 8\n"                                                                        \
	        "	pushq %rsi\n"                                                                                      \
	        "	.cfi_adjust_cfa_offset 8\n"                                                                        \
	        "	pushq %rdx\n"                                                                                      \
	        "	.cfi_adjust_cfa_offset 8\n"                                                                        \
	        "	movq 24(%rsp), %rcx\n" version "	call vs_dlsym_choose\n"                                     \
	        "	popq %rdx\n"                                                                                       \
	        "	.cfi_adjust_cfa_offset -8\n"                                                                       \
	        "	popq %rsi\n"                                                                                       \
	        "	.cfi_adjust_cfa_offset -8\n"                                                                       \
	        "	popq %rdi\n"                                                                                       \
	        "	.cfi_adjust_cfa_offset -8\n"                                                                       \
	        "	testq %rax, %rax\n"                                                                                \
	        "	jne 1f\n"                                                                                          \
	        "	jmpq *" real "(%rip)\n"                                                                      \
	        "1:	cmpq $-1, %rax\n"                                                                                \
	        "	jne 2f\n"                                                                                          \
	        "	xorl %eax, %eax\n"                                                                                 \
	        "2:	ret\n"                                                                                           \
	        "	.cfi_endproc\n"                                                                                    \
	        ".size " name ", .-" name "\n")
GATEWAY("dlsym", "	xorl %edx, %edx\n", "vs_loader");
GATEWAY("dlvsym", "", "vs_loader+8");
#elif defined(__aarch64__)
#define GATEWAY(name, version, real)                                                                                 \
	__asm__(".text\n"                                                                                            \
	        ".globl " name "\n"                                                                                  \
	        ".type " name ", %function\n" name ":\n"                                                             \
	        "	.cfi_startproc\n"                                                                                  \
	        "	hint #34\n" /* bti c */                                                                      \
	        "	stp x29, x30, [sp, #-48]!\n"                                                                       \
	        "	.cfi_adjust_cfa_offset 48\n"                                                                       \
	        "	.cfi_rel_offset x29, 0\n"                                                                          \
	        "	.cfi_rel_offset x30, 8\n"                                                                          \
	        "	stp x0, x1, [sp, #16]\n"                                                                           \
	        "	str x2, [sp, #32]\n"                                                                               \
	        "	mov x3, x30\n" version "	bl vs_dlsym_choose\n"                                               \
	        "	mov x16, x0\n"                                                                                     \
	        "	ldp x0, x1, [sp, #16]\n"                                                                           \
	        "	ldr x2, [sp, #32]\n"                                                                               \
	        "	ldp x29, x30, [sp], #48\n"                                                                         \
	        "	.cfi_adjust_cfa_offset -48\n"                                                                      \
	        "	.cfi_restore x29\n"                                                                                \
	        "	.cfi_restore x30\n"                                                                                \
	        "	cbnz x16, 1f\n"                                                                                    \
	        "	adrp x16, vs_loader\n"                                                                             \
	        "	add x16, x16, :lo12:vs_loader\n"                                                                   \
	        "	ldr x16, [x16, #" real "]\n"                                                                 \
	        "	br x16\n"                                                                                          \
	        "1:	mov x0, x16\n"                                                                                   \
	        "	cmn x0, #1\n"                                                                                      \
	        "	csel x0, xzr, x0, eq\n"                                                                            \
	        "	ret\n"                                                                                             \
	        "	.cfi_endproc\n"                                                                                    \
	        ".size " name ", .-" name "\n")
GATEWAY("dlsym", "	mov x2, xzr\n", "0");
GATEWAY("dlvsym", "", "8");
#endif
