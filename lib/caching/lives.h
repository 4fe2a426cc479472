/* SPDX-License-Identifier: MIT
 *
 * Which pool each event was about, for recordings that do not say.
 */
#ifndef VS_CACHING_LIVES_H
#define VS_CACHING_LIVES_H

#include "caching/program.h"

/* *ret_pools: the program's pool of each event, malloc'ed; NULL where all are in the default pools. -ENOMEM. */
int vs_lives_find_pools(const struct vs_replay_recording *recording, struct vs_replay_program *program,
                        uint16_t **ret_pools);

#endif
