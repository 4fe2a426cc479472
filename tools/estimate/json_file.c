/* SPDX-License-Identifier: MIT */
#include "json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/message.h"

/* A real config.json has a few KiB, with quantization lists some 100; a tokenizer or a checkpoint given by mistake
 * has more. */
#define FILE_MAX (4 << 20)

static const char *reason(int error)
{
	switch (error) {
	case -EISDIR:
		return "is not a file: name a model's config.json";
	case -EFBIG:
		return "is too large for a config.json";
	default:
		return strerror(-error);
	}
}

static int read_text(int fd, char **ret_text, size_t *ret_size)
{
	struct stat st;
	size_t size = 0;
	int r = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EISDIR;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (size < (size_t)st.st_size) {
		ssize_t got = read(fd, text + size, (size_t)st.st_size - size);
		if (got < 0)
			r = -errno;
		if (got <= 0)
			break;
		size += (size_t)got;
	}
	if (r < 0) {
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_size = size;
	return 0;
}

int vs_json_text_read(const char *text, size_t size, const char *name, json_t **ret_root)
{
	json_error_t error;

	if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		vs_complain("%s: begins with a byte order mark: save it as UTF-8 without one", name);
		return -EINVAL;
	}
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(root)) {
		bool comments = memmem(text, size, "//", 2) || memmem(text, size, "/*", 2);
		if (root)
			vs_complain("%s: is not a JSON object: name a model's config.json", name);
		else
			vs_complain("%s: is not a JSON object: line %d: %s%s", name, error.line, error.text,
			            comments ? " (JSON has no comments)" : "");
		json_decref(root);
		return -EINVAL;
	}
	*ret_root = root;
	return 0;
}

int vs_json_file_read(const char *path, json_t **ret_root)
{
	/* O_NONBLOCK: opening a pipe must not wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	size_t size = 0;
	int r;

	if (fd < 0) {
		r = -errno;
		vs_complain("%s: %s", path, strerror(-r));
		return r;
	}
	r = read_text(fd, &text, &size);
	close(fd);
	if (r < 0)
		vs_complain("%s: %s", path, reason(r));
	else
		r = vs_json_text_read(text, size, path, ret_root);
	free(text);
	return r;
}
