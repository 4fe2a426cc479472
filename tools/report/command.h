/* SPDX-License-Identifier: MIT
 *
 * What every subcommand of vramreport shares: its place in the table, its exit statuses, its options.
 */
#ifndef VS_REPORT_COMMAND_H
#define VS_REPORT_COMMAND_H

#include <getopt.h>
#include <stdint.h>

enum {
	VS_ANSWER_YES = 0,  /* success */
	VS_ANSWER_NO = 1,   /* done, and the answer is "no": does not fit, ran out of memory, not exact */
	VS_ANSWER_NONE = 2, /* bad usage or unreadable input; one line on stderr says what */
};

/* argv[0] is the subcommand. Returns the exit status. One file each, cmd_NAME.c, and a row in main.c. */
int vs_cmd_report(int argc, char **argv);
int vs_cmd_blocks(int argc, char **argv);
int vs_cmd_stacks(int argc, char **argv);
int vs_cmd_whatif(int argc, char **argv);
int vs_cmd_snapshot(int argc, char **argv);
int vs_cmd_oom(int argc, char **argv);
int vs_cmd_dump(int argc, char **argv);

/* For getopt_long() with opterr = 0 and an option string that begins with ':'; long options without a letter start
 * here. */
#define VS_OPTION_FIRST 256

/* getopt_long() returned `option`, which is '?' or ':' : says so and returns VS_ANSWER_NONE. */
int vs_option_problem(int option, char **argv);
/* The single operand RUN, from optind on. Says what is wrong and returns NULL. */
const char *vs_operand_run(int argc, char **argv);
/* A whole number from `least` to `most`: 0, or says what is wrong and returns -EINVAL. */
int vs_option_number(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *ret_value);

#endif
