/* SPDX-License-Identifier: MIT
 *
 * The environment that makes a command a recorded job.
 */
#ifndef VS_RUN_ENVIRONMENT_H
#define VS_RUN_ENVIRONMENT_H

#include <stdint.h>

struct vs_request {
	const char *out;     /* absolute folder of the run */
	const char *level;   /* "full" or "light" */
	uint64_t max_size;   /* bytes a trace; 0: the recorder's default */
	const char *gpu;     /* key of the simulated GPU, or NULL for the real ones */
	unsigned gpu_count;  /* simulated GPUs */
	uint64_t gpu_memory; /* bytes of each; 0: as the real card has */
};

/* Calls set(name, value, arg) for every variable to be set, and stops at the first that returns < 0. Says what is
 * missing on stderr (a library of ours that is not there, a path the loader cannot take) and returns a negative
 * errno. */
int vs_environment_build(const struct vs_request *request, int (*set)(const char *name, const char *value, void *arg),
                         void *arg);

#endif
