/* SPDX-License-Identifier: MIT
 *
 * vramreport whatif: the same program under other allocator settings, or on another card.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caching/settings.h"
#include "cards.h"
#include "command.h"
#include "common/json.h"
#include "common/message.h"
#include "common/screen.h"
#include "common/size.h"
#include "common/table.h"
#include "replay_input.h"
#include "whatif.h"

static const char help[] = "Usage: vramreport whatif [OPTION]... RUN|SNAPSHOT\n"
                           "\n"
                           "Replays PyTorch's allocator, checks that the replay is exact, and then replays the\n"
                           "same requests under other settings or on another card.\n"
                           "\n"
                           "Scenarios, each tried by itself:\n"
                           "      --expandable-segments      expandable_segments:True\n"
                           "      --max-split-size SIZE      max_split_size_mb (128M)\n"
                           "      --gc-threshold FRACTION    garbage_collection_threshold (0.8)\n"
                           "      --roundup N                roundup_power2_divisions\n"
                           "      --settings TEXT            any PYTORCH_CUDA_ALLOC_CONF\n"
                           "      --perfect                  a perfect allocator: the lower bound\n"
                           "      --sweep                    the sensible ones, ranked\n"
                           "      --scale-activations F      all of them, what grows with the batch times F\n"
                           "The card:\n"
                           "      --gpu NAME                 as vramrun --list-gpus names it\n"
                           "      --gpu-memory SIZE          this much memory\n"
                           "      --outside SIZE             what context and others take of it\n"
                           "What to replay:\n"
                           "      --device N                 this GPU (default: the fullest)\n"
                           "      --rank N                   this rank's process\n"
                           "      --torch VERSION            of a snapshot, which does not tell (2.6)\n"
                           "\n"
                           "      --json                     one JSON object (schema vramshim/whatif/1)\n"
                           "  -h, --help                     show this text\n"
                           "\n"
                           "Exit status: 0 fits and is exact, 1 does not fit or is not exact, 2 bad usage or\n"
                           "unreadable input.\n";

enum {
	OPTION_EXPANDABLE = VS_OPTION_FIRST,
	OPTION_SPLIT,
	OPTION_GC,
	OPTION_ROUNDUP,
	OPTION_SETTINGS,
	OPTION_PERFECT,
	OPTION_SWEEP,
	OPTION_SCALE,
	OPTION_GPU,
	OPTION_MEMORY,
	OPTION_OUTSIDE,
	OPTION_DEVICE,
	OPTION_RANK,
	OPTION_TORCH,
	OPTION_JSON,
};

static int add_text(struct vs_whatif *whatif, const char *name, const char *format, const char *value)
{
	char text[512];

	snprintf(text, sizeof(text), format, value);
	return vs_whatif_add(whatif, name, text);
}

static int add_split(struct vs_whatif *whatif, const char *value)
{
	char text[64];
	uint64_t bytes;

	if (vs_size_parse(value, &bytes) < 0 || bytes < UINT64_C(21) << 20) {
		vs_complain("--max-split-size '%s': is a size above 20 MiB, like 128M", value);
		return -EINVAL;
	}
	snprintf(text, sizeof(text), "%" PRIu64, bytes >> 20);
	return add_text(whatif, "max_split_size", "max_split_size_mb:%s", text);
}

static int set_card(struct vs_whatif *whatif, int option, const char *value)
{
	if (option == OPTION_GPU) {
		whatif->card = vs_card_find(value);
		if (!whatif->card)
			vs_complain("--gpu '%s': not in the table: see vramrun --list-gpus", value);
		return whatif->card ? 0 : -EINVAL;
	}
	if (option == OPTION_OUTSIDE) {
		if (vs_size_parse(value, &whatif->outside) < 0 || whatif->outside >> 50) {
			vs_complain("--outside '%s': is a size, like 500M", value);
			return -EINVAL;
		}
		whatif->outside_known = true;
		return 0;
	}
	if (vs_size_parse(value, &whatif->memory) < 0 || !whatif->memory || whatif->memory >> 50) {
		vs_complain("--gpu-memory '%s': is a size, like 24G", value);
		return -EINVAL;
	}
	return 0;
}

static int set_scale(struct vs_whatif *whatif, const char *value)
{
	char *end;

	whatif->scale = strtod(value, &end);
	if (end == value || *end || !(whatif->scale > 0 && whatif->scale <= 1e6)) {
		vs_complain("--scale-activations '%s': is a factor, like 2 or 0.5", value);
		return -EINVAL;
	}
	return 0;
}

static int set_choice(struct vs_whatif *whatif, int option, const char *value)
{
	unsigned int major, minor;
	uint64_t number;

	if (option == OPTION_TORCH) {
		if (sscanf(value, "%u.%u", &major, &minor) != 2 || major > 9 || minor > 99) {
			vs_complain("--torch '%s': is a version, like 2.6", value);
			return -EINVAL;
		}
		whatif->choice.version = 100 * major + minor;
		return 0;
	}
	if (vs_option_number(option == OPTION_DEVICE ? "--device" : "--rank", value, 0, 65535, &number) < 0)
		return -EINVAL;
	*(option == OPTION_DEVICE ? &whatif->choice.device : &whatif->choice.rank) = (int)number;
	return 0;
}

static int on_option(struct vs_whatif *whatif, int option, char **argv)
{
	switch (option) {
	case OPTION_EXPANDABLE:
		return vs_whatif_add(whatif, "expandable_segments", "expandable_segments:True");
	case OPTION_SPLIT:
		return add_split(whatif, optarg);
	case OPTION_GC:
		return add_text(whatif, "gc_threshold", "garbage_collection_threshold:%s", optarg);
	case OPTION_ROUNDUP:
		return add_text(whatif, "roundup", "roundup_power2_divisions:%s", optarg);
	case OPTION_SETTINGS:
		return vs_whatif_add(whatif, optarg, optarg);
	case OPTION_PERFECT:
		return vs_whatif_add(whatif, "perfect", NULL);
	case OPTION_SWEEP:
		whatif->sweep = true;
		return vs_whatif_add_sweep(whatif);
	case OPTION_SCALE:
		return set_scale(whatif, optarg);
	case OPTION_GPU:
	case OPTION_MEMORY:
	case OPTION_OUTSIDE:
		return set_card(whatif, option, optarg);
	case OPTION_DEVICE:
	case OPTION_RANK:
	case OPTION_TORCH:
		return set_choice(whatif, option, optarg);
	case OPTION_JSON:
		whatif->json = true;
		return 0;
	default:
		vs_option_problem(option, argv);
		return -EINVAL;
	}
}

static const struct option options[] = {
    {"expandable-segments", no_argument, NULL, OPTION_EXPANDABLE},
    {"max-split-size", required_argument, NULL, OPTION_SPLIT},
    {"gc-threshold", required_argument, NULL, OPTION_GC},
    {"roundup", required_argument, NULL, OPTION_ROUNDUP},
    {"settings", required_argument, NULL, OPTION_SETTINGS},
    {"perfect", no_argument, NULL, OPTION_PERFECT},
    {"sweep", no_argument, NULL, OPTION_SWEEP},
    {"scale-activations", required_argument, NULL, OPTION_SCALE},
    {"gpu", required_argument, NULL, OPTION_GPU},
    {"gpu-memory", required_argument, NULL, OPTION_MEMORY},
    {"outside", required_argument, NULL, OPTION_OUTSIDE},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"rank", required_argument, NULL, OPTION_RANK},
    {"torch", required_argument, NULL, OPTION_TORCH},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

int vs_cmd_whatif(int argc, char **argv)
{
	struct vs_whatif whatif = {.choice = {.device = -1, .rank = -1}};
	const char *path;
	int option, status = VS_ANSWER_NONE;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return VS_ANSWER_YES;
		}
		if (on_option(&whatif, option, argv) < 0)
			return VS_ANSWER_NONE;
	}
	path = vs_operand_run(argc, argv);
	if (!path || vs_whatif_open(&whatif, path) < 0)
		goto out;
	if (vs_whatif_run(&whatif) < 0) {
		vs_complain("%s: out of memory", path);
		goto out;
	}
	status = whatif.json ? vs_whatif_json(&whatif, stdout) : vs_whatif_text(&whatif, stdout);
out:
	vs_whatif_close(&whatif);
	return status;
}
