/* SPDX-License-Identifier: MIT
 *
 * Read a model's config.json.
 */
#ifndef VS_REPORT_PAPER_CONFIG_H
#define VS_REPORT_PAPER_CONFIG_H

#include "model/paper.h"

/* Fill the sizes that `shape` lacks (0) from the file; for models with several towers, from its "text_config". Says
 * what is wrong on stderr and returns a negative errno. */
int vs_paper_config_read(const char *path, struct vs_paper_shape *shape);

#endif
