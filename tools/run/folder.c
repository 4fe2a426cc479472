/* SPDX-License-Identifier: MIT */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"

/* mkdir -p: 0, 1 if it was there, or a negative errno. */
static int make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
		*slash = '/';
		if (r < 0)
			return r;
	}
	if (mkdir(path, 0777) == 0)
		return 0;
	return errno == EEXIST ? 1 : -errno;
}

static bool empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned entries = 0;

	if (!dir)
		return true;
	while ((entry = readdir(dir)))
		entries += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(dir);
	return entries == 0;
}

static int default_folder(char *path, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;
	char stamp[32];

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "vramshim-%Y%m%d-%H%M%S", &tm);
	snprintf(path, size, "%s", stamp);
	for (unsigned i = 2; mkdir(path, 0777) < 0; i++) {
		if (errno != EEXIST || i > 10000)
			return -errno;
		snprintf(path, size, "%s-%u", stamp, i);
	}
	return 0;
}

int vs_folder_prepare(const char *name, bool force, struct vs_folder *ret_folder)
{
	struct vs_folder folder = {0};
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (name) {
		if (!*name || strlen(name) >= sizeof(path) - 1) {
			vs_complain("RUN: '%.100s' is not a folder name: choose another with -o", name);
			return -EINVAL;
		}
		snprintf(path, sizeof(path), "%s", name);
		for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
			path[end - 1] = '\0';
		r = make_folders(path);
	} else {
		r = default_folder(path, sizeof(path));
	}
	if (r < 0) {
		vs_complain("cannot create the folder %s: %s: choose another with -o", path, strerror(-r));
		return r;
	}
	folder.created = r == 0;
	if (!realpath(path, folder.path) || stat(path, &st) < 0) {
		r = -errno;
		vs_complain("%s: %s: choose another folder with -o", path, strerror(-r));
	} else if (!S_ISDIR(st.st_mode)) {
		r = -ENOTDIR;
		vs_complain("%s: is not a folder: choose another with -o", path);
	} else if (access(path, W_OK | X_OK) < 0) {
		r = -errno;
		vs_complain("%s: cannot be written to (%s): choose another folder with -o", path, strerror(-r));
	} else if (!force && !empty(path)) {
		r = -ENOTEMPTY;
		vs_complain("%s: exists and is not empty: choose another folder with -o, or add to it with --force",
		            path);
	} else {
		*ret_folder = folder;
		return 0;
	}
	vs_folder_undo(&folder);
	return r;
}

void vs_folder_undo(const struct vs_folder *folder)
{
	if (folder->created)
		rmdir(folder->path); /* fails where somebody else has put something in it: then it stays */
}
