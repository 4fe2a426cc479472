/* SPDX-License-Identifier: MIT
 *
 * The sizes of a transformer under the names that model families give them in their config.json.
 */
#ifndef VS_MODEL_PAPER_CONFIG_H
#define VS_MODEL_PAPER_CONFIG_H

#include "model/paper.h"

/* Looks a key up: 1 and *ret_value for a whole number >= 0, 0 for anything else. */
typedef int vs_paper_number(void *config, const char *key, uint64_t *ret_value);

/* Fill layers, hidden and heads of `shape` (what is there already, not 0, stays). 0; or -ENOENT and *ret_missing: the
 * usual name of the first size that the config does not have, or that is 0 or absurd. `shape` is untouched then. */
int vs_paper_shape_read(vs_paper_number *number, void *config, struct vs_paper_shape *shape,
                        const char **ret_missing);

#endif
