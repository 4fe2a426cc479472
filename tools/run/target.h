/* SPDX-License-Identifier: MIT
 *
 * Can the dynamic loader bring the recorder into a command?
 */
#ifndef VS_RUN_TARGET_H
#define VS_RUN_TARGET_H

#include <stddef.h>

enum vs_target {
	VS_TARGET_RECORDABLE, /* as far as one can see: also a script, or a file we may not read */
	VS_TARGET_STATIC,     /* no loader, so no LD_PRELOAD; its children may be recorded all the same */
	VS_TARGET_SECURE,     /* setuid, setgid or file capabilities: the loader ignores LD_PRELOAD */
	VS_TARGET_FOREIGN,    /* 32 bits, another machine, or another C library: our libraries would not load */
};

/* Where execvp(3) would find `command`: 0 and the path (cut to `size`), or -ENOENT, -EACCES, -ENAMETOOLONG. */
int vs_target_find(const char *command, char *ret_path, size_t size);

/* What `path` is; scripts are followed to their interpreter, which is what the loader sees. Never fails: what cannot
 * be read is taken for recordable, and exec will say what is wrong with it. */
enum vs_target vs_target_inspect(const char *path);

#endif
