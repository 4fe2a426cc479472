/* SPDX-License-Identifier: MIT
 *
 * A device that answers as the recorded one did: it reads the segment events
 * that the recording has between two requests.
 */
#ifndef VS_CACHING_ORACLE_H
#define VS_CACHING_ORACLE_H

#include "caching/replay.h"

struct vs_oracle {
	const struct vs_replay_event *events;
	size_t begin, end;       /* the events open to be answered from */
	unsigned char *answered; /* one an event: the model did this too */
	bool refused;            /* the request under way was refused in the end */
	uint64_t invented;       /* next address where the recording has none */
	uint64_t extra;          /* what the model did and the recording has not */
};

struct vs_caching_device vs_oracle_device(struct vs_oracle *oracle, uint64_t total);

#endif
