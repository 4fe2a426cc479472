/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"

/* As many levels of "#!" as the kernel follows (BINPRM recursion limit, fs/exec.c). */
#define INTERPRETER_LEVELS 5

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

int vs_target_find(const char *command, char *ret_path, size_t size)
{
	char path[4096];
	int found = -ENOENT;

	if (strchr(command, '/')) {
		found = executable(command);
		if (found == 0 && snprintf(ret_path, size, "%s", command) >= (int)size)
			return -ENAMETOOLONG;
		return found == -ENOTDIR ? -ENOENT : found;
	}
	if (!*command)
		return -ENOENT;

	const char *list = getenv("PATH");
	for (const char *at = list ? list : "/bin:/usr/bin"; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		int length = strcspn(at, ":");
		/* An empty entry is the current folder. */
		if (snprintf(path, sizeof(path), "%.*s%s%s", length, at, length ? "/" : "", command) >=
		    (int)sizeof(path))
			continue;
		int r = executable(path);
		if (r == 0) {
			if (snprintf(ret_path, size, "%s", path) >= (int)size)
				return -ENAMETOOLONG;
			return 0;
		}
		if (r == -EACCES)
			found = r; /* execvp goes on looking, and says EACCES if nothing better comes */
	}
	return found;
}

static bool secure(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	/* A set-uid bit changes nothing for who is that user already: the loader compares the ids. */
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	       ((st.st_mode & S_ISGID) && st.st_gid != getgid()) ||
	       (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static enum vs_target inspect_elf(int fd, const char *path, const Elf64_Ehdr *header)
{
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return VS_TARGET_FOREIGN;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr segment;
		char loader[256] = "";

		if (pread(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)) !=
		    (ssize_t)sizeof(segment))
			return VS_TARGET_RECORDABLE; /* damaged: for exec to refuse */
		if (segment.p_type != PT_INTERP)
			continue;
		if (pread(fd, loader, sizeof(loader) - 1, segment.p_offset) > 0 && strstr(loader, "/ld-musl"))
			return VS_TARGET_FOREIGN;
		return VS_TARGET_RECORDABLE;
	}
	/* The loader itself (`ld-linux-x86-64.so.2 PROGRAM`) has no loader and honours LD_PRELOAD. */
	return !strncmp(vs_path_file(path), "ld-linux", 8) ? VS_TARGET_RECORDABLE : VS_TARGET_STATIC;
}

enum vs_target vs_target_inspect(const char *path)
{
	char current[4096];

	snprintf(current, sizeof(current), "%s", path);
	for (unsigned level = 0; level < INTERPRETER_LEVELS; level++) {
		union {
			char text[512];
			Elf64_Ehdr elf;
		} head;

		memset(&head, 0, sizeof(head));
		int fd = open(current, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0)
			return secure(current) ? VS_TARGET_SECURE : VS_TARGET_RECORDABLE;
		ssize_t size = read(fd, head.text, sizeof(head.text) - 1);
		enum vs_target target = VS_TARGET_RECORDABLE;
		bool elf = size >= (ssize_t)sizeof(head.elf) && !memcmp(head.elf.e_ident, ELFMAG, SELFMAG);
		if (elf)
			target = inspect_elf(fd, current, &head.elf);
		close(fd);
		if (elf)
			return target == VS_TARGET_RECORDABLE && secure(current) ? VS_TARGET_SECURE : target;
		if (size < 2 || memcmp(head.text, "#!", 2))
			return VS_TARGET_RECORDABLE; /* a script without "#!": /bin/sh runs it */
		char *interpreter = head.text + 2 + strspn(head.text + 2, " \t");
		interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
		snprintf(current, sizeof(current), "%s", interpreter);
	}
	return VS_TARGET_RECORDABLE;
}
