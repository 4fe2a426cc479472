/* SPDX-License-Identifier: MIT */
#include "symbol/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

/* 16 bytes each: libtorch_cpu.so alone has a few hundred thousand. */
struct function {
	uint64_t address;
	uint32_t size;
	uint32_t name; /* offset in its string table; the top bit says which of the two */
};

#define NAME_DYNAMIC 0x80000000u

struct vs_elf_file {
	int fd;
	Elf *elf;
	Elf_Data *strings[2]; /* of .symtab, of .dynsym */
	struct function *functions;
	size_t count, capacity;
};

static int add_table(struct vs_elf_file *file, Elf_Scn *section, const GElf_Shdr *header, bool dynamic)
{
	Elf_Scn *names = elf_getscn(file->elf, header->sh_link);
	Elf_Data *data = elf_getdata(section, NULL), *strings = names ? elf_getdata(names, NULL) : NULL;
	size_t count = header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	if (!data || !strings || !strings->d_buf)
		return 0;
	file->strings[dynamic] = strings;
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		unsigned type;

		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		type = GELF_ST_TYPE(symbol.st_info);
		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF || !symbol.st_size ||
		    symbol.st_size > UINT32_MAX || symbol.st_name >= strings->d_size ||
		    symbol.st_name >= NAME_DYNAMIC)
			continue;
		if (vs_grow(&file->functions, &file->capacity, file->count + 1, sizeof(*file->functions)) < 0)
			return -ENOMEM;
		file->functions[file->count++] = (struct function){
		    .address = symbol.st_value,
		    .size = (uint32_t)symbol.st_size,
		    .name = (uint32_t)symbol.st_name | (dynamic ? NAME_DYNAMIC : 0),
		};
	}
	return 0;
}

/* By address; the dynamic name last, so that of two names for one place the exported one is found first. */
static int compare(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static bool same_build(Elf *elf, const char *expected)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Nhdr note;
		size_t offset = 0, name, desc;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE)
			continue;
		data = elf_getdata(section, NULL);
		while (data && (offset = gelf_getnote(data, offset, &note, &name, &desc))) {
			const uint8_t *id = (const uint8_t *)data->d_buf + desc;
			char hex[2 * 64 + 1] = "";

			if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || note.n_descsz > 64 ||
			    memcmp((const char *)data->d_buf + name, "GNU", 4))
				continue;
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(hex + 2 * i, 3, "%02x", id[i]);
			return !strcasecmp(hex, expected);
		}
	}
	return true; /* the file does not say: the path has to do */
}

int vs_elf_file_open(const char *path, const char *build_id, struct vs_elf_file **ret_file)
{
	struct vs_elf_file *file = calloc(1, sizeof(*file));
	Elf_Scn *section = NULL;
	int error = 0;

	if (!file)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a module named like a FIFO must not block us */
	if (file->fd < 0) {
		error = -errno;
		goto fail;
	}
	file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF) {
		error = -ENOEXEC;
		goto fail;
	}
	if (build_id && *build_id && !same_build(file->elf, build_id)) {
		error = -ESTALE;
		goto fail;
	}
	while (!error && (section = elf_nextscn(file->elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
			error = add_table(file, section, &header, header.sh_type == SHT_DYNSYM);
	}
	if (error)
		goto fail;
	if (file->count)
		qsort(file->functions, file->count, sizeof(*file->functions), compare);
	*ret_file = file;
	return 0;
fail:
	vs_elf_file_close(file);
	return error;
}

void vs_elf_file_close(struct vs_elf_file *file)
{
	if (!file)
		return;
	if (file->elf)
		elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
	free(file->functions);
	free(file);
}

const char *vs_elf_file_function(const struct vs_elf_file *file, uint64_t address)
{
	size_t low = 0, high = file->count;

	while (low < high) { /* the first function that begins behind the address */
		size_t middle = low + (high - low) / 2;

		if (file->functions[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Names overlap where one is an alias or an entry inside another; a handful back is enough to find the cover.
	 */
	for (size_t tries = 0; low-- > 0 && tries < 16; tries++) {
		const struct function *function = &file->functions[low];
		bool dynamic = function->name & NAME_DYNAMIC;
		size_t offset = function->name & ~NAME_DYNAMIC;
		const Elf_Data *strings = file->strings[dynamic];

		if (address - function->address >= function->size)
			continue;
		if (memchr((const char *)strings->d_buf + offset, 0, strings->d_size - offset))
			return (const char *)strings->d_buf + offset;
	}
	return NULL;
}
