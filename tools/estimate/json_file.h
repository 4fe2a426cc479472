/* SPDX-License-Identifier: MIT
 *
 * A JSON object from a file that somebody names, whatever is in it.
 */
#ifndef VS_ESTIMATE_JSON_FILE_H
#define VS_ESTIMATE_JSON_FILE_H

#include <jansson.h>
#include <stddef.h>

/* On failure one line on stderr: -EINVAL (content), -EISDIR (no regular file), -EFBIG, or why it cannot be read. The
 * caller releases *ret_root. Never blocks on a pipe or a device. */
int vs_json_file_read(const char *path, json_t **ret_root);

/* The same from text in memory; `name` is what messages call it. */
int vs_json_text_read(const char *text, size_t size, const char *name, json_t **ret_root);

#endif
