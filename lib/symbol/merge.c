/* SPDX-License-Identifier: MIT */
#include "symbol/merge.h"

#include <string.h>

#include "base/path.h"

static int begins(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

enum vs_native_role vs_native_role(const char *function, const char *module)
{
	const char *file = vs_path_file(module);

	if (begins(file, "libvramshim") || begins(file, "libvramsim"))
		return VS_NATIVE_RECORDER;
	if (begins(function, "_PyEval_EvalFrame") || begins(function, "PyEval_EvalFrame"))
		return VS_NATIVE_EVALUATION;
	/* The program itself (python3, python3.11) or its library. "libtorch_python.so" begins otherwise. */
	if (begins(file, "python") || begins(file, "libpython"))
		return VS_NATIVE_INTERPRETER;
	return VS_NATIVE_PLAIN;
}

size_t vs_merge(const struct vs_frame *const *native, const enum vs_native_role *roles, size_t native_count,
                const struct vs_frame *const *python, size_t python_count, struct vs_frame *out)
{
	size_t evaluations = 0, first = native_count, last = native_count, count = 0, next = 0, begin = 0;

	while (begin < native_count && roles[begin] == VS_NATIVE_RECORDER)
		begin++;
	for (size_t i = begin; i < native_count; i++) {
		evaluations += roles[i] == VS_NATIVE_EVALUATION;
		if (roles[i] == VS_NATIVE_INTERPRETER || roles[i] == VS_NATIVE_EVALUATION) {
			if (first == native_count)
				first = i;
			last = i;
		}
	}
	if (evaluations == python_count && evaluations) { /* one for one */
		for (size_t i = begin; i < native_count; i++) {
			if (roles[i] == VS_NATIVE_EVALUATION)
				out[count++] = *python[next++];
			else if (roles[i] == VS_NATIVE_PLAIN)
				out[count++] = *native[i];
		}
		return count;
	}
	for (size_t i = begin; i < first; i++)
		out[count++] = *native[i];
	for (size_t i = 0; i < python_count; i++)
		out[count++] = *python[i];
	for (size_t i = last + 1; i < native_count && first < native_count; i++)
		out[count++] = *native[i];
	return count;
}
