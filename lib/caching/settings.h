/* SPDX-License-Identifier: MIT
 *
 * PYTORCH_CUDA_ALLOC_CONF, read as PyTorch reads it.
 */
#ifndef VS_CACHING_SETTINGS_H
#define VS_CACHING_SETTINGS_H

#include "caching/caching.h"

/* Apply "key:value,key:[a:b,>:c]" to `settings`. Keys that are about other things (pinned memory, ...) are skipped.
 * -EINVAL: a value that PyTorch would refuse, a key it does not know, or another allocator (backend); *ret_where then
 * points at it in `text`. What came before it is applied. */
int vs_caching_parse_settings(const char *text, struct vs_caching_settings *settings, const char **ret_where);

/* The settings that differ from the defaults, as such a text; "default" where none does. */
void vs_caching_print_settings(const struct vs_caching_settings *settings, char *text, size_t size);

#endif
