/* SPDX-License-Identifier: MIT
 *
 * Neither name can be asked for the other: both lead here. So dlvsym() is looked up by hand, in libc's own table of
 * symbols; everything else follows from it.
 */
#include "shim/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct vs_loader vs_loader;

/* The part of an ELF file's dynamic section that a look-up needs. */
struct symbols {
	const ElfW(Sym) * table;
	const char *names;
	const uint32_t *hash; /* DT_GNU_HASH: there in every glibc since 2.5 */
};

/* The loader has relocated these addresses in place, but for those of libraries whose section is read-only. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static int read_symbols(const struct dl_phdr_info *info, struct symbols *ret_symbols)
{
	struct symbols found = {NULL, NULL, NULL};

	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		for (const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		     entry->d_tag != DT_NULL; entry++) {
			if (entry->d_tag == DT_SYMTAB)
				found.table = address(info, entry->d_un.d_ptr);
			else if (entry->d_tag == DT_STRTAB)
				found.names = address(info, entry->d_un.d_ptr);
			else if (entry->d_tag == DT_GNU_HASH)
				found.hash = address(info, entry->d_un.d_ptr);
		}
	}
	*ret_symbols = found;
	return found.table && found.names && found.hash;
}

/* The layout of DT_GNU_HASH: four words (buckets, first symbol, words of the filter, shift), the filter, the buckets,
 * then a hash for each symbol, whose lowest bit ends the chain. */
static const ElfW(Sym) * find(const struct symbols *symbols, const char *name)
{
	const uint32_t *words = symbols->hash, count = words[0], first = words[1];
	const uint32_t *buckets = words + 4 + words[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = buckets + count;
	uint32_t hash = 5381, at;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	at = count ? buckets[hash % count] : 0;
	if (at < first)
		return NULL;
	for (;; at++) {
		const ElfW(Sym) *symbol = &symbols->table[at];

		if ((chain[at - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    !strcmp(symbols->names + symbol->st_name, name))
			return symbol;
		if (chain[at - first] & 1)
			return NULL;
	}
}

/* libc has had it since 2.34; before, libdl, which whoever calls it has brought. */
static int search(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
	const ElfW(Sym) * symbol;
	struct symbols symbols;

	(void)size;
	if ((strncmp(file, "libc.so", 7) && strncmp(file, "libdl.so", 8)) || !read_symbols(info, &symbols))
		return 0;
	symbol = find(&symbols, "dlvsym");
	if (!symbol)
		return 0;
	*(void **)data = (void *)(info->dlpi_addr + symbol->st_value);
	return 1;
}

/* 2.34 moved the functions into libc; the others are the first versions on x86-64 and aarch64. By version, because a
 * plain look-up would take a definition of any. */
static void *next(void *(*dlvsym_found)(void *, const char *, const char *), const char *name)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *found = NULL;

	for (unsigned int i = 0; i < sizeof(versions) / sizeof(versions[0]) && !found; i++)
		found = dlvsym_found(RTLD_NEXT, name, versions[i]);
	return found;
}

void vs_loader_resolve(void)
{
	void *(*raw)(void *, const char *, const char *) = NULL, *(*later)(void *, const char *, const char *);

	if (vs_loader.dlsym)
		return;
	dl_iterate_phdr(search, &raw);
	if (!raw)
		return;
	later = (void *(*)(void *, const char *, const char *))next(raw, "dlvsym");
	/* dlsym last: it says that both are there. Every thread that gets here finds the same. */
	__atomic_store_n(&vs_loader.dlvsym, later ? later : raw, __ATOMIC_RELEASE);
	__atomic_store_n(&vs_loader.dlsym, (void *(*)(void *, const char *))next(raw, "dlsym"), __ATOMIC_RELEASE);
}

void *vs_loader_next(const char *name)
{
	vs_loader_resolve();
	return vs_loader.dlvsym ? next(vs_loader.dlvsym, name) : NULL;
}
