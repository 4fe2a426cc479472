/* SPDX-License-Identifier: MIT
 *
 * The sizes that the estimate on paper needs, from the config.json of any model.
 */
#ifndef VS_ESTIMATE_PAPER_CONFIG_H
#define VS_ESTIMATE_PAPER_CONFIG_H

#include "model/paper.h"

/* Fill the sizes that `shape` lacks (0) from the file; for models with several towers, from its "text_config". Says
 * what is wrong on stderr and returns a negative errno. */
int vs_paper_config_read(const char *path, struct vs_paper_shape *shape);

#endif
