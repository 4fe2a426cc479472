/* SPDX-License-Identifier: MIT
 *
 * Reads what the loader itself reads: the dynamic section, and in it the GNU hash table (the format is that of
 * binutils, bfd/elflink.c, "DT_GNU_HASH"; every linker since 2006 writes it).
 */
#include "shim/symbols.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/libraries.h"

struct search {
	const char *file; /* of the library, what its name begins with; NULL: any */
	const char *name;
	uint32_t hash;
	void *found;
	size_t size; /* of what was found */
};

struct tables {
	const uint32_t *hash;
	const ElfW(Sym) * symbols;
	const char *strings;
	/* What the loader fills in: of data and of functions that are called through the PLT. */
	struct {
		const ElfW(Rela) * begin;
		size_t size;
	} relocations[2];
};

/* Where `text` goes on behind `beginning`; NULL if it does not begin so. Not libc's functions: a sanitizer's, which
 * come before them, crash while it is starting, when it already calls our dlsym(). */
static const char *behind(const char *text, const char *beginning)
{
	while (*beginning && *text == *beginning)
		text++, beginning++;
	return *beginning ? NULL : text;
}

static bool same(const char *one, const char *other)
{
	const char *rest = behind(one, other);

	return rest && !*rest;
}

/* Bernstein's, as the linker computes it. */
static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* The loader has made addresses of these offsets, but not where it does not write (the kernel's own library). */
static const void *table(ElfW(Addr) base, ElfW(Addr) value)
{
	return (const void *)(value < base ? value + base : value);
}

static struct tables tables_at(ElfW(Addr) base, const ElfW(Dyn) * dynamic)
{
	struct tables tables = {0};

	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		switch (dynamic->d_tag) {
		case DT_GNU_HASH:
			tables.hash = table(base, dynamic->d_un.d_ptr);
			break;
		case DT_SYMTAB:
			tables.symbols = table(base, dynamic->d_un.d_ptr);
			break;
		case DT_STRTAB:
			tables.strings = table(base, dynamic->d_un.d_ptr);
			break;
		case DT_RELA:
			tables.relocations[0].begin = table(base, dynamic->d_un.d_ptr);
			break;
		case DT_RELASZ:
			tables.relocations[0].size = dynamic->d_un.d_val;
			break;
		case DT_JMPREL:
			tables.relocations[1].begin = table(base, dynamic->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			tables.relocations[1].size = dynamic->d_un.d_val;
			break;
		}
	}
	return tables;
}

static struct tables tables_of(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *dynamic = NULL;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return tables_at(info->dlpi_addr, dynamic);
}

static const ElfW(Sym) * look_up(const struct tables *tables, const struct search *search)
{
	uint32_t buckets = tables->hash[0], first = tables->hash[1], words = tables->hash[2], shift = tables->hash[3];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(tables->hash + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
	const unsigned int bits = sizeof(*bloom) * 8;
	uint32_t hash = search->hash, at;
	ElfW(Addr) word;

	if (!buckets || !words)
		return NULL;
	word = bloom[hash / bits % words];
	if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1))
		return NULL;
	at = bucket[hash % buckets];
	if (at < first)
		return NULL;
	/* The lowest bit of a chain's entry is its end. */
	for (;; at++) {
		uint32_t entry = chain[at - first];

		if ((entry | 1) == (hash | 1) && tables->symbols[at].st_shndx != SHN_UNDEF &&
		    same(tables->strings + tables->symbols[at].st_name, search->name))
			return &tables->symbols[at];
		if (entry & 1)
			return NULL;
	}
}

static void *symbol_in_tables(ElfW(Addr) base, struct tables tables, struct search *search)
{
	const ElfW(Sym) * symbol;
	unsigned int type;

	if (!tables.hash || !tables.symbols || !tables.strings)
		return NULL;
	symbol = look_up(&tables, search);
	if (!symbol)
		return NULL;
	type = ELF64_ST_TYPE(symbol->st_info);
	search->size = symbol->st_size;
	return type == STT_FUNC || type == STT_OBJECT ? (void *)(base + symbol->st_value) : NULL;
}

static void *symbol_in(const struct dl_phdr_info *info, struct search *search)
{
	return symbol_in_tables(info->dlpi_addr, tables_of(info), search);
}

void *vs_symbol_in(const struct dl_phdr_info *info, const char *name)
{
	struct search search = {.name = name, .hash = gnu_hash(name)};

	return symbol_in(info, &search);
}

static bool is_meant(const struct search *search, const char *path)
{
	const char *file = path;

	for (; *path; path++)
		if (*path == '/')
			file = path + 1;
	return !search->file || behind(file, search->file);
}

static int search_in(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;

	(void)size;
	if (is_meant(search, info->dlpi_name))
		search->found = symbol_in(info, search);
	return search->found != NULL;
}

void *vs_symbol_data(const char *name, size_t *ret_size)
{
	struct search search = {.name = name, .hash = gnu_hash(name)};

	vs_libraries_each(search_in, &search);
	*ret_size = search.size;
	return search.found;
}

void *vs_symbol_find(const char *name)
{
	size_t size;

	return vs_symbol_data(name, &size);
}

void *vs_symbol_of(const char *file, const char *name)
{
	struct search search = {.file = file, .name = name, .hash = gnu_hash(name)};

	vs_libraries_each(search_in, &search);
	return search.found;
}

/* glibc's; other C libraries have none. */
extern struct r_debug _r_debug __attribute__((weak));

void *vs_symbol_early(const char *file, const char *name)
{
	struct search search = {.file = file, .name = name, .hash = gnu_hash(name)};

	for (const struct link_map *at = &_r_debug ? _r_debug.r_map : NULL; at && !search.found; at = at->l_next)
		if (is_meant(&search, at->l_name))
			search.found = symbol_in_tables(at->l_addr, tables_at(at->l_addr, at->l_ld), &search);
	return search.found;
}

#if defined(__x86_64__)
enum { FUNCTION = R_X86_64_JUMP_SLOT, ADDRESS = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { FUNCTION = R_AARCH64_JUMP_SLOT, ADDRESS = R_AARCH64_GLOB_DAT };
#endif

struct replacing {
	const void *inside;
	const struct vs_symbol_slot *slots;
	unsigned int count;
};

bool vs_symbol_holds(const struct dl_phdr_info *info, const void *pointer)
{
	uintptr_t address = (uintptr_t)pointer;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

/* Where the loader has write-protected its tables, they are so again afterwards. */
static void store(const struct dl_phdr_info *info, void **at, void *value)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)at & ~(page - 1);
	bool guarded = false;

	for (int i = 0; i < info->dlpi_phnum; i++)
		guarded |= info->dlpi_phdr[i].p_type == PT_GNU_RELRO &&
		           (uintptr_t)at - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz;
	if (guarded && mprotect((void *)begin, page, PROT_READ | PROT_WRITE) < 0)
		return;
	/* Other threads may be calling through it. */
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	if (guarded)
		mprotect((void *)begin, page, PROT_READ);
}

static int replace_in(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct replacing *replacing = data;
	struct tables tables;

	(void)size;
	if (!vs_symbol_holds(info, replacing->inside))
		return 0;
	tables = tables_of(info);
	for (int kind = 0; kind < 2 && tables.symbols && tables.strings; kind++) {
		const ElfW(Rela) *at = tables.relocations[kind].begin;
		size_t count = at ? tables.relocations[kind].size / sizeof(*at) : 0;

		for (; count; count--, at++) {
			const char *name = tables.strings + tables.symbols[ELF64_R_SYM(at->r_info)].st_name;

			if (ELF64_R_TYPE(at->r_info) != FUNCTION && ELF64_R_TYPE(at->r_info) != ADDRESS)
				continue;
			for (unsigned int i = 0; i < replacing->count; i++)
				if (replacing->slots[i].replacement && same(replacing->slots[i].name, name))
					store(info, (void **)(info->dlpi_addr + at->r_offset),
					      replacing->slots[i].replacement);
		}
	}
	return 1;
}

void vs_symbol_replace(const void *inside, const struct vs_symbol_slot *slots, unsigned int count)
{
	struct replacing replacing = {inside, slots, count};

	vs_libraries_each(replace_in, &replacing);
}

static int loads(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long long *)data = info->dlpi_adds;
	return 1;
}

unsigned long long vs_symbol_loads(void)
{
	unsigned long long count = 0;

	vs_libraries_each(loads, &count);
	return count;
}
