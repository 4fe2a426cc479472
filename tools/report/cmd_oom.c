/* SPDX-License-Identifier: MIT
 *
 * vramreport oom: why memory ran out.
 */
#include <stdio.h>

#include "command.h"
#include "common/message.h"
#include "oom.h"

static const char help[] =
    "Usage: vramreport oom --message FILE|-\n"
    "\n"
    "Why memory ran out and what would have helped, from the text of the error alone: of\n"
    "PyTorch, JAX, TensorFlow or CUDA, with whatever log is around it. The last error counts.\n"
    "\n"
    "      --message FILE  read FILE; - is standard input\n"
    "      --json          one JSON object (schema vramshim/oom/1)\n"
    "  -h, --help          show this text\n"
    "\n"
    "Exit status: 1 memory ran out, 0 it did not, 2 bad usage or unreadable input.\n";

enum { OPTION_MESSAGE = VS_OPTION_FIRST, OPTION_JSON };

static void print(const struct vs_oom_case *c)
{
	struct vs_screen screen = vs_screen_on(stdout);

	vs_oom_print_cause(&screen, c);
	vs_oom_print_numbers(&screen, c);
	vs_screen_title(&screen, "What helps");
	vs_oom_print_remedies(&screen, c, VS_OOM_REMEDIES_MAX);
}

static void print_json(const struct vs_oom_case *c)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/oom/1");
	vs_oom_json(&json, c);
	vs_json_end(&json);
}

int vs_cmd_oom(int argc, char **argv)
{
	static const struct option options[] = {
	    {"message", required_argument, NULL, OPTION_MESSAGE},
	    {"json", no_argument, NULL, OPTION_JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	const char *message = NULL;
	struct vs_oom_case found;
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_MESSAGE:
			message = optarg;
			break;
		case OPTION_JSON:
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		default:
			return vs_option_problem(option, argv);
		}
	}
	if (!message) {
		vs_complain("oom: no --message FILE given: see vramreport oom --help");
		return VS_ANSWER_NONE;
	}
	if (vs_oom_case_message(message, &found) < 0)
		return VS_ANSWER_NONE;
	if (json)
		print_json(&found);
	else
		print(&found);
	return VS_ANSWER_NO;
}
