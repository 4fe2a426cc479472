/* SPDX-License-Identifier: MIT
 *
 * vramrun: start a command under the recorder. It becomes the command (exec), so the pid, the signals and the exit
 * status are the command's own.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "common/size.h"
#include "environment.h"
#include "folder.h"
#include "gpus.h"
#include "target.h"

/* We failed before the command ran: as env(1), timeout(1) and nohup(1) say it. */
#define EXIT_BEFORE_COMMAND 125

#define GPU_COUNT_MAX 16        /* devices of the largest single machines (HGX B200 has 8, DGX-2 has 16) */
#define MAX_SIZE_MIN  (1 << 20) /* bytes: less holds no useful trace */

static const char help[] =
    "Usage: vramrun [OPTION]... [--] COMMAND [ARG]...\n"
    "\n"
    "Run COMMAND unchanged and record where its GPU memory goes. Its output, signals and\n"
    "exit status stay its own. Read the result with: vramreport RUN\n"
    "\n"
    "  -o, --output RUN         folder for the traces, made if absent\n"
    "                           (default: vramshim-YYYYmmdd-HHMMSS)\n"
    "      --force              add to RUN even if it is not empty\n"
    "      --simulate GPU[:N]   run on N (default 1) simulated GPUs; no real one is needed\n"
    "      --gpu-memory SIZE    memory of each simulated GPU (default: as the real card)\n"
    "      --list-gpus          show the GPUs that can be simulated\n"
    "      --level full|light   light: Python stacks only, on allocations only (default: full)\n"
    "      --max-size SIZE      limit of each process's trace (default: 1GiB)\n"
    "      --print-env          print the environment as shell code instead of running a\n"
    "                           command: eval \"$(vramrun --print-env -o RUN)\"\n"
    "  -h, --help               show this text\n"
    "      --version            show the version\n"
    "\n"
    "SIZE: 24G or 24GiB (1024^3), 80GB (1000^3), 16000MiB, or bytes.\n"
    "Exit status: COMMAND's own; 125 if vramrun could not start it.\n";

enum {
	OPTION_FORCE = 256,
	OPTION_SIMULATE,
	OPTION_MEMORY,
	OPTION_LIST,
	OPTION_LEVEL,
	OPTION_MAX_SIZE,
	OPTION_ENV,
	OPTION_VERSION
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"simulate", required_argument, NULL, OPTION_SIMULATE},
    {"gpu-memory", required_argument, NULL, OPTION_MEMORY},
    {"list-gpus", no_argument, NULL, OPTION_LIST},
    {"level", required_argument, NULL, OPTION_LEVEL},
    {"max-size", required_argument, NULL, OPTION_MAX_SIZE},
    {"print-env", no_argument, NULL, OPTION_ENV},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
};

struct command_line {
	struct vs_request request;
	const char *out; /* as given, or NULL */
	bool force, print_env;
};

static int parse_gpu(const char *text, struct vs_request *request)
{
	const char *colon = strrchr(text, ':');
	char name[128], known[1024], *end;
	unsigned long count = 1;

	if (colon) {
		count = strtoul(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || *end || count < 1 || count > GPU_COUNT_MAX) {
			vs_complain("--simulate %s: the number of GPUs is 1 to %d", text, GPU_COUNT_MAX);
			return -EINVAL;
		}
	}
	snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
	request->gpu = vs_gpu_find(name);
	request->gpu_count = count;
	if (!request->gpu) {
		vs_complain("unknown GPU '%s': known are %s", name, vs_gpu_keys(known, sizeof(known)));
		return -EINVAL;
	}
	return 0;
}

static int parse_size(const char *option, const char *text, uint64_t least, uint64_t *ret_bytes)
{
	uint64_t bytes;
	int r = vs_size_parse(text, &bytes);

	if (r == 0 && bytes < least)
		r = -ERANGE;
	if (r < 0)
		vs_complain("%s '%s': %s", option, text,
		            r == -EINVAL ? "not a size: write 24G, 24GiB, 80GB, 16000MiB or bytes" : "out of range");
	else
		*ret_bytes = bytes;
	return r;
}

/* 0: go on; 1: all is done; negative: said what is wrong. */
static int parse(int argc, char **argv, struct command_line *line)
{
	const char *memory_without_gpu = NULL;
	int option, r = 0;

	opterr = 0;
	while (r == 0 && (option = getopt_long(argc, argv, "+:o:h", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			line->out = optarg;
			break;
		case OPTION_FORCE:
			line->force = true;
			break;
		case OPTION_SIMULATE:
			r = parse_gpu(optarg, &line->request);
			break;
		case OPTION_MEMORY:
			memory_without_gpu = optarg;
			/* The smallest card that CUDA 12 runs on has 2 GB; less than a segment of PyTorch (2 MiB) is
			 * a typing error. */
			r = parse_size("--gpu-memory", optarg, 2 << 20, &line->request.gpu_memory);
			break;
		case OPTION_LIST:
			vs_gpu_list(stdout);
			return 1;
		case OPTION_LEVEL:
			line->request.level = optarg;
			if (strcmp(optarg, "full") && strcmp(optarg, "light")) {
				vs_complain("--level '%s': is full or light", optarg);
				r = -EINVAL;
			}
			break;
		case OPTION_MAX_SIZE:
			r = parse_size("--max-size", optarg, MAX_SIZE_MIN, &line->request.max_size);
			break;
		case OPTION_ENV:
			line->print_env = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 1;
		case OPTION_VERSION:
			puts("vramrun " VS_VERSION);
			return 1;
		case ':':
			vs_complain("%s needs a value: see vramrun --help", argv[optind - 1]);
			return -EINVAL;
		default:
			vs_complain("unknown option %s: see vramrun --help", argv[optind - 1]);
			return -EINVAL;
		}
	}
	if (r == 0 && memory_without_gpu && !line->request.gpu) {
		vs_complain("--gpu-memory: a real GPU's memory is what it is: say which GPU with --simulate");
		r = -EINVAL;
	}
	return r;
}

static int set_variable(const char *name, const char *value, void *arg)
{
	(void)arg;
	return setenv(name, value, 1) < 0 ? -errno : 0;
}

static int print_variable(const char *name, const char *value, void *arg)
{
	(void)arg;
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
	return 0;
}

static bool warn(const char *command, enum vs_target target)
{
	static const char *const reasons[] = {
	    [VS_TARGET_STATIC] = "is statically linked, so nothing can be preloaded into it: it runs unrecorded",
	    [VS_TARGET_SECURE] = "changes privileges, so the loader ignores LD_PRELOAD: it runs unrecorded "
	                         "(put vramrun behind it: sudo vramrun ...)",
	    [VS_TARGET_FOREIGN] = "is not a 64-bit x86 program of the GNU C library: it runs unrecorded",
	};

	if (reasons[target])
		vs_complain("warning: %s %s", command, reasons[target]);
	/* A foreign loader would print errors about our libraries, or die of them. */
	return target != VS_TARGET_FOREIGN;
}

static int start(char **command, const struct command_line *line)
{
	struct vs_request request = line->request;
	struct vs_folder folder;
	char path[4096];
	int r = vs_target_find(command[0], path, sizeof(path));

	if (r < 0) {
		vs_complain("%s: %s", command[0],
		            r == -ENOENT   ? "command not found"
		            : r == -EACCES ? "is not an executable file"
		                           : strerror(-r));
		return r;
	}
	r = vs_folder_prepare(line->out, line->force, &folder);
	if (r < 0)
		return r;
	request.out = folder.path;
	if (warn(command[0], vs_target_inspect(path)))
		r = vs_environment_build(&request, set_variable, NULL);
	if (r == 0) {
		if (!line->out)
			vs_complain("recording to %s", folder.path);
		execvp(command[0], command);
		r = -errno;
		vs_complain("%s: %s", command[0],
		            r == -ENOENT ? "the interpreter that its first line names is not there" : strerror(-r));
	}
	vs_folder_undo(&folder);
	return r;
}

static int print_environment(const struct command_line *line)
{
	struct vs_request request = line->request;
	struct vs_folder folder;
	int r = vs_folder_prepare(line->out, line->force, &folder);

	if (r < 0)
		return r;
	request.out = folder.path;
	r = vs_environment_build(&request, print_variable, NULL);
	if (r < 0)
		vs_folder_undo(&folder);
	return r;
}

int main(int argc, char **argv)
{
	struct command_line line = {.request = {.level = "full"}};
	int r = parse(argc, argv, &line);

	if (r == 0) {
		if (line.print_env && optind < argc) {
			vs_complain("--print-env runs no command: leave '%s' out", argv[optind]);
			r = -EINVAL;
		} else if (line.print_env) {
			r = print_environment(&line);
		} else if (optind >= argc) {
			vs_complain(
			    "no command given: vramrun [OPTION]... [--] COMMAND [ARG]..., see vramrun --help");
			r = -EINVAL;
		} else {
			r = start(argv + optind, &line);
		}
	}
	if (fflush(stdout) != 0 && r >= 0) {
		vs_complain("standard output: %s", strerror(errno));
		r = -EIO;
	}
	return r < 0 ? EXIT_BEFORE_COMMAND : EXIT_SUCCESS;
}
