/* SPDX-License-Identifier: MIT
 *
 * vramreport oom: why memory ran out.
 */
#include <stdio.h>
#include <time.h>

#include "command.h"
#include "common/message.h"
#include "oom.h"
#include "oom_short.h"

static const char help[] = "Usage: vramreport oom [OPTION]... RUN\n"
                           "       vramreport oom [OPTION]... --message FILE|-\n"
                           "\n"
                           "Why memory ran out and what would have helped: from a run (or a PyTorch snapshot), with\n"
                           "what the memory held at that moment and what a replay of the allocator proves; or from\n"
                           "the text of the error alone, of PyTorch, JAX, TensorFlow or CUDA, with whatever log is\n"
                           "around it. The last error counts.\n"
                           "\n"
                           "      --brief         25 lines at most\n"
                           "      --within MS     answer within so many milliseconds, with what is known by then\n"
                           "      --message FILE  read the error's text from FILE; - is standard input\n"
                           "      --json          one JSON object (schema vramshim/oom/1)\n"
                           "  -h, --help          show this text\n"
                           "\n"
                           "Exit status: 1 memory ran out, 0 it did not, 2 bad usage or unreadable input.\n";

enum { OPTION_MESSAGE = VS_OPTION_FIRST, OPTION_BRIEF, OPTION_WITHIN, OPTION_JSON };

struct command_line {
	const char *message;
	uint64_t within; /* milliseconds; 0: as long as it takes */
	bool brief, json;
};

static void print(const struct vs_oom_case *c)
{
	struct vs_screen screen = vs_screen_on(stdout);

	vs_oom_print_cause(&screen, c);
	vs_oom_print_numbers(&screen, c);
	vs_screen_title(&screen, "What helps");
	vs_oom_print_remedies(&screen, c, VS_OOM_REMEDIES_MAX);
}

static void print_json_of(const struct vs_oom_case *c, bool found)
{
	struct vs_json json = vs_json_on(stdout);

	vs_json_object(&json, NULL);
	vs_json_string(&json, "schema", "vramshim/oom/1");
	vs_oom_json(&json, c, found);
	vs_json_end(&json);
}

static void print_json(const struct vs_oom_case *c)
{
	print_json_of(c, true);
}

static int from_message(const struct command_line *line)
{
	struct vs_oom_case found;

	if (vs_oom_case_message(line->message, &found) < 0)
		return VS_ANSWER_NONE;
	if (line->json)
		print_json(&found);
	else
		print(&found);
	return VS_ANSWER_NO;
}

static uint64_t in_ns(uint64_t milliseconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + milliseconds * 1000000;
}

static int from_run(const char *path, const struct command_line *line)
{
	struct vs_screen screen = vs_screen_on(stdout);
	struct vs_oom_post post;
	bool found;

	if (line->within)
		vs_oom_short_prepare(path, line->within);
	/* Replays begin in the first two thirds of the time: each takes less than reading did. */
	if (vs_oom_post_open(path, line->within ? in_ns(line->within * 2 / 3) : 0, &post) < 0)
		return VS_ANSWER_NONE;
	if (line->within)
		vs_oom_short_cancel();
	/* In one write: several processes of a job may run out at once, into one log. */
	if (line->brief)
		setvbuf(stdout, NULL, _IOFBF, 1 << 15);
	found = post.subject;
	if (line->json)
		print_json_of(&post.c, found);
	else if (found)
		vs_oom_post_print(&screen, &post, line->brief);
	else if (!line->within)
		vs_oom_post_print_none(&screen, &post);
	/* Within an error of the job's it was a refusal that PyTorch's allocator will report, if it does not help
	 * itself. */
	vs_oom_post_close(&post);
	return found ? VS_ANSWER_NO : VS_ANSWER_YES;
}

int vs_cmd_oom(int argc, char **argv)
{
	static const struct option options[] = {
	    {"message", required_argument, NULL, OPTION_MESSAGE},
	    {"brief", no_argument, NULL, OPTION_BRIEF},
	    {"within", required_argument, NULL, OPTION_WITHIN},
	    {"json", no_argument, NULL, OPTION_JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	struct command_line line = {0};
	int option;

	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_MESSAGE:
			line.message = optarg;
			break;
		case OPTION_BRIEF:
			line.brief = true;
			break;
		case OPTION_WITHIN:
			if (vs_option_number("--within", optarg, 1, 3600000, &line.within) < 0)
				return VS_ANSWER_NONE;
			break;
		case OPTION_JSON:
			line.json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return VS_ANSWER_YES;
		default:
			return vs_option_problem(option, argv);
		}
	}
	if (line.message && optind < argc) {
		vs_complain("oom: %s and --message: choose one", argv[optind]);
		return VS_ANSWER_NONE;
	}
	if (line.message)
		return from_message(&line);
	const char *path = vs_operand_run(argc, argv);
	return path ? from_run(path, &line) : VS_ANSWER_NONE;
}
