/* SPDX-License-Identifier: MIT */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/libraries.h"
#include "shim/modules.h"
#include "shim/process.h"
#include "shim/symbols.h"
#include "trace/writer.h"

/* SHA-1 is 20 bytes; no linker writes more than 64. */
#define MAX_BUILD_ID 64

static int first_only(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_adds;
	return 1;
}

/* Whether a part of the file is mapped where its header says, to be read. Tools that edit libraries (patchelf) have
 * left notes pointing anywhere, and the loader does not mind. */
static bool is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		uint64_t skipped = part->p_vaddr - load->p_vaddr;

		if (load->p_type == PT_LOAD && load->p_flags & PF_R && skipped <= load->p_filesz &&
		    part->p_memsz <= load->p_filesz - skipped)
			return true;
	}
	return false;
}

static void build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * notes, char *hex)
{
	const char *at = (const char *)(info->dlpi_addr + notes->p_vaddr), *end = at + notes->p_memsz;

	while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;
		size_t name, size;

		memcpy(&note, at, sizeof(note));
		name = (note.n_namesz + 3u) & ~(size_t)3;
		size = (note.n_descsz + 3u) & ~(size_t)3;
		at += sizeof(note);
		if (name > (size_t)(end - at) || size > (size_t)(end - at) - name)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at, "GNU", 4) &&
		    note.n_descsz <= MAX_BUILD_ID) {
			const unsigned char *bytes = (const unsigned char *)at + name;

			for (size_t i = 0; i < note.n_descsz; i++) {
				*hex++ = "0123456789abcdef"[bytes[i] >> 4];
				*hex++ = "0123456789abcdef"[bytes[i] & 15];
			}
			*hex = '\0';
			return;
		}
		at += name + size;
	}
}

/* The main program has no name in the loader's list, and a library may have a relative one. */
static const char *absolute(const char *name, char *buffer)
{
	ssize_t length;

	if (!*name) {
		length = readlink("/proc/self/exe", buffer, PATH_MAX - 1);
		if (length < 0)
			return "";
		buffer[length] = '\0';
		return buffer;
	}
	if (*name != '/' && strchr(name, '/') && realpath(name, buffer))
		return buffer;
	return name;
}

struct scan {
	struct vs_process *process;
	uint64_t count;
};

static int record(struct dl_phdr_info *info, size_t size, void *data)
{
	static char path[PATH_MAX]; /* the list's lock is held; a thread's stack may be small */
	struct scan *scan = data;
	char id[2 * MAX_BUILD_ID + 1] = "";
	struct vramshim_module module = {.base = info->dlpi_addr, .begin = UINT64_MAX, .build_id = id};
	uint64_t known_key[2];
	struct vs_key key;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD) {
			uint64_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;

			module.begin = begin < module.begin ? begin : module.begin;
			module.end = end > module.end ? end : module.end;
		} else if (header->p_type == PT_NOTE && !*id && is_mapped(info, header)) {
			build_id(info, header, id);
		}
	}
	if (module.begin >= module.end)
		return 0;
	/* What has been mapped stays (dlopen.h), so address and extent tell the known from the new. */
	known_key[0] = module.begin;
	known_key[1] = module.end;
	key = vs_key_words(3, known_key, 2);
	if (vs_idmap_find(&scan->process->modules, key))
		return 0;
	module.path = absolute(info->dlpi_name, path);
	vs_writer_module(scan->process->writer, &module);
	vs_idmap_add(&scan->process->modules, key, 1);
	return 0;
}

void vs_modules_record(struct vs_process *process)
{
	struct scan scan = {.process = process};
	uint64_t adds = 0, seen;

	vs_libraries_each(first_only, &adds);
	seen = atomic_load_explicit(&process->modules_seen, memory_order_relaxed);
	/* One scanner a change. The others need not wait: a stack may be read before its modules. */
	if (seen == adds + 1 || !atomic_compare_exchange_strong(&process->modules_seen, &seen, adds + 1))
		return;
	/* The loader's lock is held throughout: it keeps two scans apart, too. */
	vs_libraries_each(record, &scan);
}

static bool is_named(const struct dl_phdr_info *info, const char *name)
{
	const char *base = strrchr(info->dlpi_name, '/');

	return base && !strncmp(base + 1, name, strlen(name));
}

struct search {
	const char *name;
	char *path;
	size_t size;
	int found;
};

static int match(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;

	(void)size;
	if (!is_named(info, search->name) || strlen(info->dlpi_name) >= search->size)
		return 0;
	strcpy(search->path, info->dlpi_name);
	search->found = 1;
	return 1;
}

int vs_modules_find(const char *name, char *path, unsigned long size)
{
	struct search search = {name, path, size, 0};

	vs_libraries_each(match, &search);
	return search.found ? 0 : -ENOENT;
}

struct holder {
	const char *name;
	const void *address;
};

static int holds(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct holder *holder = data;

	(void)size;
	return is_named(info, holder->name) && vs_symbol_holds(info, holder->address);
}

bool vs_modules_holds(const char *name, const void *address)
{
	struct holder holder = {name, address};

	return vs_libraries_each(holds, &holder);
}
