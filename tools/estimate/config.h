/* SPDX-License-Identifier: MIT
 *
 * Reads the shape of a model from a Hugging Face config.json.
 */
#ifndef VS_ESTIMATE_CONFIG_H
#define VS_ESTIMATE_CONFIG_H

#include "model/shape.h"

struct vs_config {
	struct vs_shape shape;
	char attention[32]; /* _attn_implementation, "" if the file does not say */
	char dtype[16];     /* "bfloat16", "" if the file does not say */
};

/* Reads FILE. On failure one line on stderr and -EINVAL (content) or another negative errno (file). */
int vs_config_read(const char *path, struct vs_config *ret);

/* The same from text in memory; `name` is what messages call it. */
int vs_config_parse(const char *text, size_t size, const char *name, struct vs_config *ret);

#endif
