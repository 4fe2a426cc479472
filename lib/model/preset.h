/* SPDX-License-Identifier: MIT
 *
 * Published models by name: the sizes of their public config.json files.
 */
#ifndef VS_MODEL_PRESET_H
#define VS_MODEL_PRESET_H

#include "model/shape.h"

/* The name of preset number `index`, NULL past the last; its shape in ret_shape, if not NULL. */
const char *vs_preset_at(size_t index, struct vs_shape *ret_shape);
/* Letters and digits count, case and punctuation do not: "Llama 2 7B" finds "llama-2-7b". -ENOENT. */
int vs_preset_find(const char *name, struct vs_shape *ret_shape);

#endif
