/* SPDX-License-Identifier: MIT */
#include "paper_config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/message.h"
#include "model/paper_config.h"

/* Published ones have up to some 100 KiB (quantization lists). */
#define FILE_MAX (4 << 20)

static int number(void *config, const char *key, uint64_t *ret_value)
{
	const json_t *value = json_object_get(config, key);

	if (!json_is_integer(value))
		value = json_object_get(json_object_get(config, "text_config"), key);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return 0;
	*ret_value = json_integer_value(value);
	return 1;
}

static int read_file(const char *path, char **ret_text, size_t *ret_size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	char *text = NULL;
	size_t size = 0;
	int r = 0;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EISDIR;
	else if (st.st_size > FILE_MAX)
		r = -EFBIG;
	else if (!(text = malloc(FILE_MAX)))
		r = -ENOMEM;
	while (r == 0 && size < FILE_MAX) {
		ssize_t got = read(fd, text + size, FILE_MAX - size);
		if (got < 0)
			r = -errno;
		if (got <= 0)
			break;
		size += got;
	}
	close(fd);
	if (r < 0) {
		free(text);
		return r;
	}
	*ret_text = text;
	*ret_size = size;
	return 0;
}

int vs_paper_config_read(const char *path, struct vs_paper_shape *shape)
{
	const char *missing = NULL;
	json_error_t error;
	char *text = NULL;
	size_t size = 0;
	int r = read_file(path, &text, &size);

	if (r < 0) {
		vs_complain("--config %s: %s", path,
		            r == -EISDIR  ? "is not a file: name a model's config.json"
		            : r == -EFBIG ? "is too large for a config.json"
		                          : strerror(-r));
		return r;
	}
	json_t *config = json_loadb(text, size, 0, &error);
	free(text);
	if (!json_is_object(config)) {
		vs_complain("--config %s: is not a JSON object%s%s", path, config ? "" : ": ",
		            config ? "" : error.text);
		r = -EBADMSG;
	} else {
		r = vs_paper_shape_read(number, config, shape, &missing);
		if (r < 0)
			vs_complain("--config %s: has no usable \"%s\": give --layers, --hidden and --heads instead",
			            path, missing);
	}
	json_decref(config);
	return r;
}
