/* SPDX-License-Identifier: MIT
 *
 * vramreport: everything there is to say about a run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "common/message.h"
#include "estimate/estimate.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *description;
} commands[] = {
    {"report", vs_cmd_report, "where the memory went: peaks, tags, steps, stacks, the paper estimate (default)"},
    {"blocks", vs_cmd_blocks, "every block alive at the peak, at the end or at a mark"},
    {"stacks", vs_cmd_stacks, "call stacks that hold the most memory at the peak, or one by its number"},
    {"whatif", vs_cmd_whatif, "the same requests under other allocator settings, or on another card"},
    {"snapshot", vs_cmd_snapshot, "write a PyTorch memory snapshot, for PyTorch's own viewer"},
    {"oom", vs_cmd_oom, "why memory ran out and what would have helped: from a run, or from the error's text"},
    {"dump", vs_cmd_dump, "every record of the traces as text"},
    {"compare", vs_compare_main, "paper and refined estimates beside what was measured, with the reason of each gap"},
    {"extrapolate", vs_extrapolate_main, "from small runs of a job, what a larger batch or sequence takes"},
    {"plan", vs_plan_main, "the estimate alone: does a job fit, on how many cards, what would make it fit"},
    {"float", vs_float_main, "a number bit by bit in the formats of training"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
	fputs("Usage: vramreport [SUBCOMMAND] [OPTION]... RUN\n"
	      "\n"
	      "RUN is the folder that vramrun wrote, or one trace (*.vst) of it.\n"
	      "\n",
	      out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].description);
	fputs("\n"
	      "vramreport SUBCOMMAND --help says more; every subcommand has --json.\n"
	      "Exit status: 0 success, 1 the answer is no, 2 bad usage or unreadable input.\n",
	      out);
}

static int dispatch(int argc, char **argv)
{
	for (size_t i = 0; i < COMMANDS; i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	}
	if (argv[1][0] != '-' && access(argv[1], F_OK) < 0) {
		vs_complain("%s: no such subcommand, file or folder: see vramreport --help", argv[1]);
		return VS_ANSWER_NONE;
	}
	/* No subcommand: all arguments are the report's. */
	argv[0] = "report";
	return vs_cmd_report(argc, argv);
}

int main(int argc, char **argv)
{
	int status = VS_ANSWER_YES;

	opterr = 0; /* the subcommands say it in our words */
	if (argc < 2) {
		vs_complain("no RUN given: vramreport [SUBCOMMAND] [OPTION]... RUN, see vramreport --help");
		return VS_ANSWER_NONE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		usage(stdout);
	else if (!strcmp(argv[1], "--version"))
		puts("vramreport " VS_VERSION);
	else
		status = dispatch(argc, argv);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		vs_complain("standard output: %s", strerror(errno));
		return VS_ANSWER_NONE;
	}
	return status;
}
