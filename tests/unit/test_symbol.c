/* SPDX-License-Identifier: MIT */
#include "trace_helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <symbol/elf_file.h>
#include <symbol/merge.h>
#include <symbol/python_line.h>
#include <symbol/readable.h>
#include <symbol/symbol.h>
#include <unistd.h>

#include "python_lines.h"

/* Every instruction of every version's table gives the line that its own interpreter gives. */
static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(*goldens); i++) {
		const struct golden *golden = &goldens[i];
		struct vramshim_code code = {.first_line = golden->first_line,
		                             .line_table = golden->table,
		                             .line_table_size = golden->table_size};

		for (size_t unit = 0; unit < golden->line_count; unit++) {
			uint32_t wanted = golden->lines[unit] ? golden->lines[unit] : golden->first_line;
			uint32_t got = vs_python_line(&code, (int32_t)unit * 2, golden->minor);

			if (got != wanted)
				fail_msg("3.%u, byte %zu: line %u, not %u", golden->minor, unit * 2, got, wanted);
		}
		assert_int_equal(vs_python_line(&code, -1, golden->minor), golden->first_line);
	}
}

/* Cut and damaged tables: no reading past the end (the sanitizer sees it), never line 0. */
static void test_lines_damaged(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(*goldens); i++) {
		for (size_t size = 0; size <= goldens[i].table_size; size++) {
			uint8_t *table = malloc(size + 1);
			struct vramshim_code code = {.first_line = 7, .line_table = table, .line_table_size = size};

			assert_non_null(table);
			memcpy(table, goldens[i].table, size);
			if (size)
				table[random_below(&random, size)] = (uint8_t)random_below(&random, 256);
			table = realloc(table, size ? size : 1);
			code.line_table = table;
			for (int32_t at = 0; at < 400; at += 2)
				for (unsigned minor = 8; minor <= 13; minor++)
					assert_true(vs_python_line(&code, at, minor) > 0);
			free(table);
		}
	}
	assert_int_equal(vs_python_line(&(struct vramshim_code){.first_line = 3}, 4, 11), 3);
}

static void test_readable(void **state)
{
	static const char *const names[][2] = {
	    {"cudaMalloc", "cudaMalloc"},
	    {"_Z3foov", "foo"},
	    {"_ZN2at6native2mmERKNS_6TensorES3_", "at::native::mm"},
	    {"_ZN2at12_GLOBAL__N_112_GLOBAL__N_115wrapper_CUDA_mmERKNS_6TensorES4_",
	     "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_mm"},
	    {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
	     "11InputBufferERKS2_INS0_10ReadyQueueEE",
	     "torch::autograd::Engine::evaluate_function"},
	    {"_ZNKSt8functionIFviEEclEi", "std::function<>::operator()"},
	    {"_ZN1AlsERKS_", "A::operator<<"},
	    {"_ZN1AcvbEv", "A::operator bool"},
	    {"_Z1fIiEvT_", "f<>"},
	    {"_ZZ4mainENKUlvE_clEv", "main::{lambda#1}::operator()"},
	    {"_Znotmangled", "_Znotmangled"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *name = vs_readable(names[i][0]);

		assert_string_equal(name, names[i][1]);
		free(name);
	}
}

static struct vs_frame frame_of(enum vs_frame_kind kind, const char *function)
{
	return (struct vs_frame){.kind = kind, .function = function, .file = "", .module = ""};
}

/* One letter a frame: n native, e evaluation, i interpreter, r recorder; digits are the Python frames in the result.
 */
static void assert_merged(const char *roles, size_t python_count, const char *wanted)
{
	struct vs_frame native[16], python[16], out[32];
	const struct vs_frame *natives[16], *pythons[16];
	enum vs_native_role role[16];
	char got[33] = "";
	size_t count = strlen(roles);

	for (size_t i = 0; i < count; i++) {
		native[i] = frame_of(VS_FRAME_NATIVE, "native");
		natives[i] = &native[i];
		role[i] = roles[i] == 'e'   ? VS_NATIVE_EVALUATION
		          : roles[i] == 'i' ? VS_NATIVE_INTERPRETER
		          : roles[i] == 'r' ? VS_NATIVE_RECORDER
		                            : VS_NATIVE_PLAIN;
	}
	for (size_t i = 0; i < python_count; i++) {
		python[i] = frame_of(VS_FRAME_PYTHON, "python");
		python[i].line = (uint32_t)i;
		pythons[i] = &python[i];
	}
	count = vs_merge(natives, role, count, pythons, python_count, out);
	assert_true(count < sizeof(got));
	for (size_t i = 0; i < count; i++)
		got[i] = out[i].kind == VS_FRAME_PYTHON ? (char)('0' + out[i].line) : 'n';
	assert_string_equal(got, wanted);
}

static void test_merge(void **state)
{
	(void)state;
	assert_merged("rnnein", 3, "nn012n");   /* 3.11: one evaluation runs them all */
	assert_merged("nnieinie", 2, "nn0n1");  /* up to 3.10: one for one */
	assert_merged("nneinien", 3, "nn012n"); /* two runs, and no telling where the first ends */
	assert_merged("nnn", 0, "nnn");
	assert_merged("", 2, "01");       /* Python stacks only */
	assert_merged("nnn", 2, "nnn01"); /* cut before the interpreter is reached */
	assert_merged("nini", 0, "n");
}

static void test_roles(void **state)
{
	(void)state;
	assert_int_equal(vs_native_role("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"), VS_NATIVE_EVALUATION);
	assert_int_equal(vs_native_role("_PyEval_EvalFrameDefault.cold", "/x/libpython3.12.so.1.0"),
	                 VS_NATIVE_EVALUATION);
	assert_int_equal(vs_native_role("method_vectorcall", "/usr/bin/python3.11"), VS_NATIVE_INTERPRETER);
	assert_int_equal(vs_native_role("THPVariable_to", "/x/libtorch_python.so"), VS_NATIVE_PLAIN);
	assert_int_equal(vs_native_role("hook", "/x/libvramshim.so"), VS_NATIVE_RECORDER);
}

__attribute__((noinline)) uint64_t a_function_to_find(void);
uint64_t a_function_to_find(void)
{
	return (uint64_t)__builtin_return_address(0);
}

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uint64_t *)base = info->dlpi_addr; /* the program itself comes first */
	return 1;
}

static void test_elf(void **state)
{
	uint64_t base, inside = (uint64_t)(void *)a_function_to_find;
	struct vs_elf_file *file = NULL;
	char *folder = scratch_make(), *text = scratch_path(folder, "text");

	(void)state;
	dl_iterate_phdr(find_base, &base);
	assert_int_equal(vs_elf_file_open("/proc/self/exe", "", &file), 0);
	assert_string_equal(vs_elf_file_function(file, inside - base), "a_function_to_find");
	assert_null(vs_elf_file_function(file, 0));
	assert_null(vs_elf_file_function(file, UINT64_MAX));
	vs_elf_file_close(file);

	file = (void *)1;
	assert_int_equal(vs_elf_file_open("/proc/self/exe", "00", &file), -ESTALE);
	assert_int_equal(vs_elf_file_open("/nowhere", "", &file), -ENOENT);
	write_whole(text, "not an ELF file", 15);
	assert_int_equal(vs_elf_file_open(text, "", &file), -ENOEXEC);
	assert_ptr_equal(file, (void *)1);
	vs_elf_file_close(NULL);
	free(text);
	scratch_remove(folder);
}

static uint32_t intern(struct vs_writer *writer, const char *text)
{
	return vs_writer_string(writer, text, strlen(text));
}

/* A whole stack from a trace: this program's own function, an address in a module whose file is gone, one in none. */
static void test_stack(void **state)
{
	char *folder = scratch_make(), *path = scratch_path(folder, "a.vst");
	uint64_t base, here = (uint64_t)(void *)a_function_to_find;
	struct vramshim_trace *trace;
	const struct vs_frame *frames, *again;
	struct vs_writer *writer;
	struct vs_symbols *symbols;
	uint32_t python, code, id;
	size_t count;

	(void)state;
	dl_iterate_phdr(find_base, &base);
	assert_int_equal(vs_writer_open(path, 0, &writer), 0);
	vs_writer_fact(writer, "python", "3.11.7");
	vs_writer_module(writer, &(struct vramshim_module){base, here, here + 64, "/proc/self/exe", ""});
	vs_writer_module(writer, &(struct vramshim_module){0x500000000000, 0x500000000000, 0x500000010000,
	                                                   "/nowhere/libgone.so.1", "abcd"});
	code = vs_writer_code(writer, intern(writer, "job/model.py"), intern(writer, "Net.forward"),
	                      goldens[3].first_line, goldens[3].table, goldens[3].table_size);
	python = vs_writer_python_frame(writer, code, 22 * 2);
	id = vs_writer_stack(writer, &(struct vramshim_stack){(uint64_t[]){here + 5, 0x500000001234, 0x600000000000},
	                                                      &python, 3, 1, false});
	assert_true(id);
	vs_log_append(
	    vs_log_new(writer, 1),
	    &(struct vramshim_event){.type = VRAMSHIM_TORCH_ALLOC, .address = 512, .size = 512, .stack = id});
	vs_writer_finish(writer);

	assert_int_equal(vramshim_trace_open(path, &trace), 0);
	assert_int_equal(vs_symbols_new(trace, &symbols), 0);
	assert_int_equal(vs_symbol_stack(symbols, id, &frames, &count), 0);
	assert_int_equal(count, 4);
	assert_string_equal(frames[0].function, "a_function_to_find");
	assert_string_equal(frames[0].module, "/proc/self/exe");
	assert_string_equal(frames[1].function, "libgone.so.1+0x1234");
	assert_string_equal(frames[2].function, "0x600000000000");
	assert_int_equal(frames[3].kind, VS_FRAME_PYTHON);
	assert_string_equal(frames[3].function, "Net.forward");
	assert_string_equal(frames[3].file, "job/model.py");
	assert_int_equal(frames[3].line, goldens[3].lines[22]);
	assert_int_equal(vs_symbol_stack(symbols, id, &again, &count), 0);
	assert_ptr_equal(again, frames);
	assert_int_equal(vs_symbol_stack(symbols, 0, &again, &count), -ENOENT);
	assert_int_equal(vs_symbol_stack(symbols, id + 1, &again, &count), -ENOENT);
	vs_symbols_free(symbols);
	vs_symbols_free(NULL);
	vramshim_trace_close(trace);
	free(path);
	scratch_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines), cmocka_unit_test(test_lines_damaged), cmocka_unit_test(test_readable),
	    cmocka_unit_test(test_merge), cmocka_unit_test(test_roles),         cmocka_unit_test(test_elf),
	    cmocka_unit_test(test_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
