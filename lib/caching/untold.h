/* SPDX-License-Identifier: MIT
 *
 * The pools that neither events nor final segments tell, from what was chosen
 * and what was not.
 */
#ifndef VS_CACHING_UNTOLD_H
#define VS_CACHING_UNTOLD_H

#include "caching/lives.h"

/* Sets the pools of lives that ended, and `pools` of refusals, where there is one answer at least. Else all stays as
 * it is: the replay says what does not fit. -ENOMEM. */
int vs_untold_solve(const struct vs_replay_recording *recording, const struct vs_replay_program *program,
                    struct vs_lives *lives, uint16_t *pools);

#endif
