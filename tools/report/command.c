/* SPDX-License-Identifier: MIT */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/message.h"

int vs_option_problem(int option, char **argv)
{
	if (option == ':')
		vs_complain("%s: needs a value: see vramreport %s --help", argv[optind - 1], argv[0]);
	else
		vs_complain("%s: unknown option: see vramreport %s --help", argv[optind - 1], argv[0]);
	return VS_ANSWER_NONE;
}

const char *vs_operand_run(int argc, char **argv)
{
	if (optind >= argc) {
		vs_complain("%s: no RUN given: name the folder that vramrun wrote, or one of its traces", argv[0]);
		return NULL;
	}
	if (optind + 1 < argc) {
		vs_complain("%s: one RUN at a time: see vramreport %s --help", argv[optind + 1], argv[0]);
		return NULL;
	}
	return argv[optind];
}

int vs_option_number(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *ret_value)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < least || value > most) {
		vs_complain("%s '%s': is a whole number from %" PRIu64 " to %" PRIu64, name, text, least, most);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}
