/* SPDX-License-Identifier: MIT */
#include "replay_input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/message.h"

/* --- snapshots --- */

static uint64_t snapshot_bytes(const struct vs_snapshot *snapshot, int32_t device)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < snapshot->segment_count; i++) {
		if (snapshot->segments[i].device == device)
			bytes += snapshot->segments[i].total_size;
	}
	return bytes;
}

static int fullest_snapshot_device(const struct vs_snapshot *snapshot)
{
	int device = 0;

	for (int32_t i = 1; i < snapshot->device_count; i++) {
		if (snapshot_bytes(snapshot, i) > snapshot_bytes(snapshot, device))
			device = i;
	}
	return device;
}

static int open_snapshot(const char *path, const struct vs_replay_choice *choice, struct vs_replay_input *input)
{
	struct vs_snapshot_error error;
	int r;

	r = vs_snapshot_load(path, &input->from_snapshot, &error);
	if (r < 0) {
		vs_complain("%s: %s", path, error.text);
		return r;
	}
	input->device = choice->device >= 0 ? choice->device : fullest_snapshot_device(input->from_snapshot);
	if (input->device >= input->from_snapshot->device_count) {
		vs_complain("%s: nothing about GPU %d: it has %d", path, input->device,
		            input->from_snapshot->device_count);
		return -ENOENT;
	}
	r = vs_snapshot_recording(input->from_snapshot, input->device, choice->total, &input->snapshot_recording);
	if (r < 0) {
		vs_complain("%s: %s", path, strerror(-r));
		return r;
	}
	input->snapshot = true;
	input->rank = -1;
	input->recording = input->snapshot_recording.recording;
	/* What is wrong with it, the replay itself says. */
	if (!choice->version)
		vs_replay_find_version(&input->recording);
	return 0;
}

/* --- runs --- */

static uint64_t reserved_peak(const struct vramshim_trace *trace, int device)
{
	const struct vramshim_device_totals *totals = vramshim_trace_device(trace, device);

	return totals ? totals->reserved_peak : 0;
}

#define MAX_DEVICES 64 /* ordinals looked at; more than any machine has */

/* The process and device to replay; false where nothing fits the choice. */
static bool choose(const struct vs_run *run, const struct vs_replay_choice *choice, size_t *ret_process,
                   int *ret_device)
{
	uint64_t most = 0;

	for (size_t i = 0; i < run->count; i++) {
		if (choice->rank >= 0 && run->processes[i].rank != choice->rank)
			continue;
		for (int device = 0; device < MAX_DEVICES; device++) {
			uint64_t peak = reserved_peak(run->processes[i].trace, device);

			if ((choice->device >= 0 && device != choice->device) || peak <= most)
				continue;
			most = peak;
			*ret_process = i;
			*ret_device = device;
		}
	}
	return most > 0;
}

static int open_run(const char *path, const struct vs_replay_choice *choice, struct vs_replay_input *input)
{
	size_t process;
	int r;

	r = vs_run_open(path, &input->run);
	if (r < 0)
		return r;
	if (!choose(&input->run, choice, &process, &input->device)) {
		vs_complain("%s: no allocations of PyTorch%s: nothing to replay", path,
		            choice->rank >= 0 || choice->device >= 0 ? " by this rank on this GPU" : "");
		return -ENOENT;
	}
	r = vs_trace_recording(input->run.processes[process].trace, input->device, &input->trace_recording);
	if (r < 0) {
		vs_complain("%s: %s", path, strerror(-r));
		return r;
	}
	input->trace = input->run.processes[process].trace;
	input->pid = vramshim_trace_info(input->run.processes[process].trace)->pid;
	input->rank = input->run.processes[process].rank;
	input->recording = input->trace_recording.recording;
	input->context = input->trace_recording.context;
	input->unknown = input->trace_recording.unknown;
	input->lost = input->trace_recording.lost;
	snprintf(input->device_name, sizeof(input->device_name), "%s", input->trace_recording.device_name);
	return 0;
}

int vs_replay_open(const char *path, const struct vs_replay_choice *choice, struct vs_replay_input *ret_input)
{
	struct vs_replay_input input = {0};
	struct stat st;
	int r;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && vs_snapshot_probe(path))
		r = open_snapshot(path, choice, &input);
	else
		r = open_run(path, choice, &input);
	if (r < 0) {
		vs_replay_close(&input);
		return r;
	}
	if (choice->version)
		input.recording.settings.version = choice->version;
	input.history = input.recording.event_count > 0;
	*ret_input = input;
	return 0;
}

void vs_replay_close(struct vs_replay_input *input)
{
	vs_snapshot_recording_done(&input->snapshot_recording);
	vs_trace_recording_done(&input->trace_recording);
	vs_snapshot_free(input->from_snapshot);
	vs_run_close(&input->run);
}
