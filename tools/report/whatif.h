/* SPDX-License-Identifier: MIT
 *
 * The scenarios of vramreport whatif, and their outcomes.
 */
#ifndef VS_REPORT_WHATIF_H
#define VS_REPORT_WHATIF_H

#include "cards.h"
#include "replay_input.h"

#include <stdbool.h>
#include <stdio.h>

#define VS_WHATIF_SCENARIOS 32

struct vs_whatif_scenario {
	char name[128];
	char text[512]; /* what it sets, beyond what the recording had */
	bool perfect;
	struct vs_caching_settings settings;
	char full[512]; /* all settings in force, as text */
	struct vs_replay_outcome outcome;
	bool fits; /* on the card; true where the card is unknown and nothing was refused */
	const struct vs_gpu_memory *smallest; /* that it fits on; NULL: none of the table */
};

struct vs_whatif {
	struct vs_replay_choice choice;
	const struct vs_gpu_memory *card; /* asked for; NULL: the recording's */
	uint64_t memory;                  /* asked for; 0: the recording's */
	uint64_t outside;                 /* likewise: what others take of it */
	bool outside_known;
	double scale; /* of what grows with the batch; 0: as recorded */
	bool sweep, json;
	uint64_t until_ns; /* CLOCK_MONOTONIC; scenarios that are not run by then are left out; 0: no limit */

	struct vs_replay_input input;
	struct vs_replay_exactness exactness;
	struct vs_replay_program *program;
	bool exact;
	struct vs_replay_card on;   /* what the scenarios run on */
	const char *outside_source; /* where on.outside is from: "stated", "assumed", "recorded", "unknown" */
	bool card_known;
	uint64_t perfect; /* the lower bound, bytes */
	uint64_t scaled;  /* requests that were scaled */
	struct vs_whatif_scenario scenarios[VS_WHATIF_SCENARIOS];
	size_t count;
};

/* Do the scenarios of a sweep help PyTorch's request of event `event` of the recording, which was refused? */
bool vs_whatif_serves(const struct vs_whatif_scenario *scenario, size_t event);

/* `settings` NULL: the perfect allocator. Says what is wrong and returns a negative errno. */
int vs_whatif_add(struct vs_whatif *whatif, const char *name, const char *settings);
int vs_whatif_add_sweep(struct vs_whatif *whatif);
/* Open the input and make the baseline; says what is wrong. */
int vs_whatif_open(struct vs_whatif *whatif, const char *path);
/* All scenarios; with none asked for, the recorded settings on the card. -ENOMEM. */
int vs_whatif_run(struct vs_whatif *whatif);
void vs_whatif_close(struct vs_whatif *whatif);

/* The exit status. */
int vs_whatif_json(const struct vs_whatif *whatif, FILE *out);
int vs_whatif_text(const struct vs_whatif *whatif, FILE *out);
int vs_whatif_status(const struct vs_whatif *whatif);

#endif
