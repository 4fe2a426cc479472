/* SPDX-License-Identifier: MIT
 *
 * Replays snapshots and prints how exact the model is: one row a file.
 *
 *   exactness [--total BYTES] [--outside BYTES] [--version N] [--fraction F] [--expect-peak BYTES] FILE...
 *
 * Without --version it is found from the recording itself.
 *
 * With --total and --outside the recorded program also runs freely on a card of that size: its refusals, its
 * reserved peak and its final segments must come out as recorded. Exit status 0 where every row is exact.
 */
#include "caching/from_snapshot.h"
#include "caching/settings.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
	uint64_t total, outside, expect_peak;
	uint32_t version;
	double fraction;
	const char *settings;
};

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void say_first(const struct vs_snapshot *snapshot, const struct vs_snapshot_recording *recording,
                      const struct vs_replay_exactness *e)
{
	const struct vs_snapshot_event *event;

	if (e->first_wrong >= recording->recording.event_count)
		return;
	event = &snapshot->events[recording->sources[e->first_wrong]];
	printf("    first wrong: event %zu, action %d, address %#" PRIx64 ", size %" PRIu64 "\n",
	       recording->sources[e->first_wrong], event->action, event->address, event->size);
}

/* The program without the recording's help: addresses by policy, refusals by the card's size. */
static bool runs_freely(const struct vs_replay_program *program, const struct vs_replay_recording *recording,
                        const struct vs_replay_exactness *e, const struct options *options)
{
	struct vs_replay_card card = {.total = options->total, .outside = options->outside};
	struct vs_replay_outcome outcome;
	bool same;

	if (!options->outside)
		return true;
	if (vs_replay_scenario(program, &recording->settings, &card, &outcome) < 0)
		return false;
	same = !outcome.stopped && !outcome.served && outcome.stats.reserved == e->stats.reserved &&
	       outcome.stats.reserved_peak == e->stats.reserved_peak && outcome.stats.ooms == e->stats.ooms;
	if (options->expect_peak)
		same &= outcome.stats.reserved_peak == options->expect_peak;
	if (!same)
		printf("    freely: refused %d at event %zu, served %" PRIu64 ", reserved %" PRIu64 " (%" PRIu64
		       "), peak %" PRIu64 " (%" PRIu64 ", torch %" PRIu64 "), refusals %" PRIu64 " (%" PRIu64 ")\n",
		       outcome.stopped, outcome.refused_event, outcome.served, outcome.stats.reserved,
		       e->stats.reserved, outcome.stats.reserved_peak, e->stats.reserved_peak, options->expect_peak,
		       outcome.stats.ooms, e->stats.ooms);
	return same;
}

static int replay_device(const char *path, const struct vs_snapshot *snapshot, int32_t device,
                         const struct options *options)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *where;
	struct vs_snapshot_recording recording;
	struct vs_replay_program *program;
	struct vs_replay_exactness e;
	char settings[512];
	bool exact, freely;
	double start;

	if (vs_snapshot_recording(snapshot, device, options->total, &recording) < 0)
		return -ENOMEM;
	if (options->outside)
		recording.recording.room = options->total - options->outside;
	if (options->version)
		recording.recording.settings.version = options->version;
	if (options->fraction > 0)
		recording.recording.settings.memory_fraction = options->fraction;
	if (options->settings &&
	    vs_caching_parse_settings(options->settings, &recording.recording.settings, &where) < 0)
		return -EINVAL;
	if (!options->version && vs_replay_find_version(&recording.recording) < 0)
		return -ENOMEM;
	start = seconds();
	if (vs_replay_baseline(&recording.recording, &e, &program) < 0)
		return -ENOMEM;
	exact = e.addresses == e.addresses_exact && e.segments == e.segments_exact && e.ooms == e.ooms_exact &&
	        !e.unknown_frees && !e.overlaps;
	vs_caching_print_settings(&recording.recording.settings, settings, sizeof(settings));
	printf("%-44s %7" PRIu64 "/%-7" PRIu64 " %6" PRIu64 "/%-6" PRIu64 " %3" PRIu64 "/%-3" PRIu64 " %14" PRIu64
	       " %5.2f M/s %s%s\n",
	       name, e.addresses_exact, e.addresses, e.segments_exact, e.segments, e.ooms_exact, e.ooms,
	       e.stats.reserved, (double)recording.recording.event_count / (seconds() - start) / 1e6, settings,
	       exact ? "" : "  INEXACT");
	if (!exact) {
		say_first(snapshot, &recording, &e);
		printf("    unknown frees %" PRIu64 ", overlaps %" PRIu64 "\n", e.unknown_frees, e.overlaps);
	}
	freely = runs_freely(program, &recording.recording, &e, options);
	vs_replay_program_free(program);
	vs_snapshot_recording_done(&recording);
	return exact && freely ? 0 : 1;
}

static int replay_file(const char *path, const struct options *options)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *snapshot;
	int worst = 0;

	if (vs_snapshot_load(path, &snapshot, &error) < 0) {
		fprintf(stderr, "exactness: %s: %s\n", path, error.text);
		return 2;
	}
	for (int32_t device = 0; device < snapshot->device_count; device++) {
		int r = replay_device(path, snapshot, device, options);

		if (r)
			worst = r < 0 ? 2 : r;
	}
	vs_snapshot_free(snapshot);
	return worst;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"total", required_argument, NULL, 't'},
	    {"version", required_argument, NULL, 'v'},
	    {"fraction", required_argument, NULL, 'f'},
	    {"settings", required_argument, NULL, 's'},
	    {"outside", required_argument, NULL, 'o'},
	    {"expect-peak", required_argument, NULL, 'p'},
	    {0},
	};
	struct options options = {0};
	int worst = 0, option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (option == 't')
			options.total = strtoull(optarg, NULL, 0);
		else if (option == 'o')
			options.outside = strtoull(optarg, NULL, 0);
		else if (option == 'p')
			options.expect_peak = strtoull(optarg, NULL, 0);
		else if (option == 'v')
			options.version = (uint32_t)strtoul(optarg, NULL, 0);
		else if (option == 'f')
			options.fraction = strtod(optarg, NULL);
		else if (option == 's')
			options.settings = optarg;
		else
			return 2;
	}
	printf("%-44s %-15s %-13s %-7s %14s\n", "snapshot", "addresses", "segments", "ooms", "reserved");
	for (; optind < argc; optind++) {
		int r = replay_file(argv[optind], &options);

		worst = r > worst ? r : worst;
	}
	return worst;
}
