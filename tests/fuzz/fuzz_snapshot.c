/* SPDX-License-Identifier: MIT
 *
 * Snapshots from hostile bytes: read, replayed exactly, replayed on a card, written again.
 */
#include <stdint.h>
#include <stdlib.h>

#include "caching/from_snapshot.h"
#include "snapshot/write.h"

/* The replay of a few hundred absurd events can be as slow as it is pointless: sizes are bounded, not the fun. */
#define MAX_INPUT (1 << 16)

static void replay(const struct vs_snapshot *snapshot, int32_t device)
{
	struct vs_replay_card card = {.total = UINT64_C(24) << 30, .outside = UINT64_C(400) << 20};
	struct vs_snapshot_recording recording;
	struct vs_replay_program *program;
	struct vs_replay_exactness e;
	struct vs_replay_outcome outcome;

	if (vs_snapshot_recording(snapshot, device, device & 1 ? 0 : card.total, &recording) < 0)
		return;
	if (vs_replay_baseline(&recording.recording, &e, &program) == 0) {
		if (e.addresses_exact > e.addresses || e.segments_exact > e.segments || e.ooms_exact > e.ooms)
			abort();
		vs_replay_scenario(program, &recording.recording.settings, &card, &outcome);
		recording.recording.settings.expandable_segments ^= true;
		vs_replay_scenario(program, &recording.recording.settings, &card, &outcome);
		vs_replay_perfect(program);
		vs_replay_program_free(program);
	}
	vs_snapshot_recording_done(&recording);
}

/* What was read and written must read the same. */
static void again(const struct vs_snapshot *snapshot)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *back;
	char *data = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&data, &size);

	if (!out)
		return;
	if (vs_snapshot_write(snapshot, out) < 0 || fclose(out) != 0)
		abort();
	if (vs_snapshot_parse(data, size, &back, &error) < 0 || back->segment_count != snapshot->segment_count ||
	    back->block_count != snapshot->block_count)
		abort();
	vs_snapshot_free(back);
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *snapshot;

	if (size > MAX_INPUT || vs_snapshot_parse(data, size, &snapshot, &error) < 0)
		return 0;
	for (int32_t device = 0; device < snapshot->device_count && device < 4; device++)
		replay(snapshot, device);
	again(snapshot);
	vs_snapshot_free(snapshot);
	return 0;
}
