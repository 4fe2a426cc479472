/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "common/message.h"
#include "import.h"
#include "snapshot/snapshot.h"

#define SUFFIX ".vst"

static bool is_trace_name(const char *name)
{
	size_t length = strlen(name), suffix = strlen(SUFFIX);

	return length > suffix && !strcmp(name + length - suffix, SUFFIX) && name[0] != '.';
}

static const char *reason(int error)
{
	switch (error) {
	case -EBADMSG:
		return "is not a vramshim trace: RUN is the folder that vramrun wrote, or a *.vst file in it";
	case -EPROTO:
		return "was written by another version of vramshim: read it with that one";
	case -ENODATA:
		return "is an empty trace: the process ended before it could record anything";
	case -ENOENT:
		return "no such file or folder: RUN is the folder that vramrun wrote, or a *.vst file in it";
	default:
		return strerror(-error);
	}
}

static int open_trace(const char *path, struct vs_process *ret_process)
{
	struct vs_process process = {.rank = -1};
	struct stat st;
	int r;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && vs_snapshot_probe(path)) {
		r = vs_import(path, &process.trace);
		if (r < 0)
			return r; /* it was said */
	} else if (stat(path, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode)) /* opening a pipe would wait for its writer */
		r = -EBADMSG;
	else
		r = vramshim_trace_open(path, &process.trace);
	if (r < 0) {
		vs_complain("%s: %s", path, reason(r));
		return r;
	}
	process.path = strdup(path);
	if (!process.path) {
		vramshim_trace_close(process.trace);
		return -ENOMEM;
	}
	const char *rank = vramshim_trace_fact(process.trace, "rank");
	char *end;
	long value = rank ? strtol(rank, &end, 10) : -1;
	if (rank && *rank && !*end && value >= 0 && value <= INT_MAX)
		process.rank = value;
	*ret_process = process;
	return 0;
}

static int add(struct vs_run *run, size_t *room, const char *path)
{
	if (vs_grow(&run->processes, room, run->count + 1, sizeof(*run->processes)) < 0)
		return -ENOMEM;
	int r = open_trace(path, &run->processes[run->count]);
	if (r == 0)
		run->count++;
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct vs_process *left = a, *right = b;
	unsigned left_rank = left->rank, right_rank = right->rank; /* -1 becomes the largest */
	uint32_t left_pid = vramshim_trace_info(left->trace)->pid, right_pid = vramshim_trace_info(right->trace)->pid;

	if (left_rank != right_rank)
		return left_rank < right_rank ? -1 : 1;
	if (left_pid != right_pid)
		return left_pid < right_pid ? -1 : 1;
	return strcmp(left->path, right->path);
}

static int open_folder(const char *path, struct vs_run *run)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	size_t room = 0, names = 0;
	int r, last = 0;

	if (!dir) {
		r = -errno;
		vs_complain("%s: %s", path, reason(r));
		return r;
	}
	while (last != -ENOMEM && last != -EMFILE && (entry = readdir(dir))) {
		char file[PATH_MAX];
		if (!is_trace_name(entry->d_name))
			continue;
		names++;
		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) >= (int)sizeof(file)) {
			vs_complain("%s: the path is too long: it is left out", entry->d_name);
			continue;
		}
		r = add(run, &room, file);
		if (r < 0)
			last = r;
	}
	closedir(dir);
	if (run->count)
		return 0;
	if (!names) {
		vs_complain(
		    "%s: holds no trace: no process of this run touched a GPU (or this is not what vramrun wrote)",
		    path);
		return -ENODATA;
	}
	return last ? last : -ENODATA;
}

int vs_run_open(const char *path, struct vs_run *ret_run)
{
	struct vs_run run = {0};
	struct stat st;
	size_t room = 0;
	int r;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		r = open_folder(path, &run);
	else
		r = add(&run, &room, path);
	if (r < 0) {
		vs_run_close(&run);
		return r;
	}
	qsort(run.processes, run.count, sizeof(*run.processes), compare);
	*ret_run = run;
	return 0;
}

void vs_run_close(struct vs_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		vramshim_trace_close(run->processes[i].trace);
		free(run->processes[i].path);
	}
	free(run->processes);
	*run = (struct vs_run){0};
}

char *vs_time_format(uint64_t realtime_ns, char text[VS_TIME_MAX])
{
	time_t seconds = realtime_ns / 1000000000;
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, VS_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm))
		strcpy(text, "");
	return text;
}
