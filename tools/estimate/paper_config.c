/* SPDX-License-Identifier: MIT */
#include "paper_config.h"

#include "common/message.h"
#include "json_file.h"
#include "model/paper_config.h"

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

int vs_paper_config_read(const char *path, struct vs_paper_shape *shape)
{
	const char *missing = NULL;
	json_t *config;
	int r = vs_json_file_read(path, &config);

	if (r < 0)
		return r;
	r = vs_paper_shape_read(number, config, shape, &missing);
	if (r < 0)
		vs_complain("%s: has no usable \"%s\": give --layers, --hidden and --heads instead", path, missing);
	json_decref(config);
	return r;
}
