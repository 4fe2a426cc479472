/* SPDX-License-Identifier: MIT
 *
 * vramreport snapshot: a run in PyTorch's own format.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "common/json.h"
#include "common/message.h"
#include "export.h"
#include "snapshot/write.h"

static const char help[] =
    "Usage: vramreport snapshot [OPTION]... RUN|SNAPSHOT -o FILE.pickle\n"
    "\n"
    "Writes a PyTorch memory snapshot that PyTorch's viewer (pytorch.org/memory_viz) and\n"
    "torch.cuda._memory_viz open: one process, with our tags as categories. A snapshot is\n"
    "written again, in the layout and protocol that all viewers read.\n"
    "\n"
    "  -o, --output FILE  where to write; - is standard output\n"
    "      --rank N       this rank's process (default: the first)\n"
    "      --json         say what was written as one JSON object (schema vramshim/snapshot/1)\n"
    "  -h, --help         show this text\n";

enum { OPTION_RANK = VS_OPTION_FIRST, OPTION_JSON };

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"rank", required_argument, NULL, OPTION_RANK},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct arguments {
	const char *output;
	int rank;
	bool json;
};

static void say(const struct vs_snapshot *snapshot, const char *path)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/snapshot/1");
	vs_json_string(&json, "file", path);
	vs_json_unsigned(&json, "segments", snapshot->segment_count);
	vs_json_unsigned(&json, "blocks", snapshot->block_count);
	vs_json_unsigned(&json, "events", snapshot->event_count);
	vs_json_unsigned(&json, "stacks", snapshot->stack_count - 1);
	vs_json_end(&json);
}

/* The file appears whole or not at all: a viewer may be waiting for it. */
static int write_file(const struct vs_snapshot *snapshot, const char *path)
{
	char *temporary = NULL;
	FILE *out;
	int r;

	if (!strcmp(path, "-"))
		return vs_snapshot_write(snapshot, stdout);
	if (asprintf(&temporary, "%s.part", path) < 0)
		return -ENOMEM;
	out = fopen(temporary, "wxe");
	r = out ? vs_snapshot_write(snapshot, out) : -errno;
	if (out && fclose(out) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0 && out)
		unlink(temporary);
	free(temporary);
	return r;
}

static int finish(const struct vs_snapshot *snapshot, const struct arguments *arguments)
{
	int r = write_file(snapshot, arguments->output);

	if (r < 0) {
		vs_complain("%s: %s", arguments->output, strerror(-r));
		return VS_ANSWER_NONE;
	}
	if (arguments->json && strcmp(arguments->output, "-") != 0)
		say(snapshot, arguments->output);
	return VS_ANSWER_YES;
}

static int from_snapshot(const char *path, const struct arguments *arguments)
{
	struct vs_snapshot_error error;
	struct vs_snapshot *snapshot;
	int status;

	if (vs_snapshot_load(path, &snapshot, &error) < 0) {
		vs_complain("%s: %s", path, error.text);
		return VS_ANSWER_NONE;
	}
	status = finish(snapshot, arguments);
	vs_snapshot_free(snapshot);
	return status;
}

static int from_run(const char *path, const struct arguments *arguments)
{
	struct vs_snapshot *snapshot = NULL;
	struct vs_run run;
	int r = -ENOENT, status = VS_ANSWER_NONE;

	if (vs_run_open(path, &run) < 0)
		return VS_ANSWER_NONE;
	for (size_t i = 0; r == -ENOENT && i < run.count; i++) {
		if (arguments->rank < 0 || run.processes[i].rank == arguments->rank)
			r = vs_export(&run.processes[i], &snapshot);
	}
	if (r == 0)
		status = finish(snapshot, arguments);
	else
		vs_complain("%s: %s", path,
		            r == -ENOENT ? "no allocations of PyTorch by this process: nothing to write"
		                         : strerror(-r));
	vs_export_free(snapshot);
	vs_run_close(&run);
	return status;
}

int vs_cmd_snapshot(int argc, char **argv)
{
	struct arguments arguments = {.rank = -1};
	const char *path;
	struct stat st;
	uint64_t number;
	int option;

	while ((option = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		case 'o':
			arguments.output = optarg;
			break;
		case OPTION_RANK:
			if (vs_option_number("--rank", optarg, 0, 1 << 20, &number) < 0)
				return VS_ANSWER_NONE;
			arguments.rank = (int)number;
			break;
		case OPTION_JSON:
			arguments.json = true;
			break;
		default:
			return vs_option_problem(option, argv);
		}
	}
	path = vs_operand_run(argc, argv);
	if (!path)
		return VS_ANSWER_NONE;
	if (!arguments.output) {
		vs_complain("snapshot: no file to write: say -o FILE.pickle");
		return VS_ANSWER_NONE;
	}
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && vs_snapshot_probe(path))
		return from_snapshot(path, &arguments);
	return from_run(path, &arguments);
}
