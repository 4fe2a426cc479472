/* SPDX-License-Identifier: MIT
 *
 * What can be replayed: one device of one process, from a run or from a PyTorch snapshot.
 */
#ifndef VS_REPORT_REPLAY_INPUT_H
#define VS_REPORT_REPLAY_INPUT_H

#include "caching/from_snapshot.h"
#include "caching/from_trace.h"
#include "run.h"

#include <stdbool.h>

struct vs_replay_choice {
	int device;       /* -1: the one with the most memory */
	int rank;         /* -1: likewise */
	uint64_t total;   /* bytes of the card; 0: as recorded */
	uint32_t version; /* of torch, 100 * major + minor; 0: as recorded */
};

struct vs_replay_input {
	bool snapshot; /* else a trace */
	uint32_t pid;  /* 0: a snapshot does not tell */
	int rank, device;
	char device_name[96]; /* "" unknown */
	struct vs_replay_recording recording;
	uint64_t context;                  /* bytes of the card that the CUDA context takes; 0 unknown */
	const char *unknown;               /* the part of the settings that could not be read, or NULL */
	bool lost;                         /* events are missing */
	bool history;                      /* there are events */
	struct vs_snapshot *from_snapshot; /* what the above is made of */
	struct vs_snapshot_recording snapshot_recording;
	struct vs_trace_recording trace_recording;
	struct vs_run run;
	struct vramshim_trace *trace; /* of the process chosen */
};

/* Says what is wrong on stderr and returns a negative errno. */
int vs_replay_open(const char *path, const struct vs_replay_choice *choice, struct vs_replay_input *ret_input);
void vs_replay_close(struct vs_replay_input *input);

#endif
