/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/message.h"
#include "oom.h"

/* The last error counts, so of a longer log the end is enough. */
#define TEXT_MAX ((size_t)16 << 20)

/* The last TEXT_MAX bytes at least, twice that at most. */
static int read_end(FILE *file, char **ret_text, size_t *ret_size)
{
	size_t capacity = 1 << 16, size = 0, got;
	char *text = malloc(capacity), *larger;

	while (text && (got = fread(text + size, 1, capacity - size, file)) > 0) {
		size += got;
		if (size < capacity)
			continue;
		if (capacity < 2 * TEXT_MAX) {
			capacity *= 2;
			larger = realloc(text, capacity);
			if (!larger)
				free(text);
			text = larger;
		} else {
			memmove(text, text + size - TEXT_MAX, TEXT_MAX);
			size = TEXT_MAX;
		}
	}
	if (!text)
		return -ENOMEM;
	if (ferror(file)) {
		int r = vs_errno();
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_size = size;
	return 0;
}

int vs_oom_case_message(const char *path, struct vs_oom_case *ret_case)
{
	bool standard = !strcmp(path, "-");
	FILE *file = standard ? stdin : fopen(path, "rb");
	char *text = NULL;
	size_t size;
	int r = file ? read_end(file, &text, &size) : vs_errno();

	if (file && !standard)
		fclose(file);
	if (r < 0) {
		vs_complain("%s: %s", path, strerror(-r));
		return r;
	}
	*ret_case = (struct vs_oom_case){0};
	r = vs_oom_read_message(text, size, &ret_case->oom);
	free(text);
	if (r == -ENODATA)
		vs_complain("%s: no out-of-memory error of PyTorch, JAX or CUDA in this text: give the error's own "
		            "lines",
		            path);
	else if (r < 0)
		vs_complain("%s: %s", path, strerror(-r));
	if (r < 0)
		return r;
	ret_case->cause = vs_oom_judge(&ret_case->oom);
	vs_oom_remedies(&ret_case->oom, ret_case->cause, NULL, &ret_case->remedies);
	return 0;
}
