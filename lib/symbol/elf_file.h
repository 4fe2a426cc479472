/* SPDX-License-Identifier: MIT
 *
 * The function symbols of one ELF file, for look-up by address.
 */
#ifndef VS_SYMBOL_ELF_FILE_H
#define VS_SYMBOL_ELF_FILE_H

#include <stdint.h>

struct vs_elf_file;

/* Read .symtab and .dynsym of `path`. With a non-empty `build_id` (hex) the file's own must be the same: -ESTALE.
 * -ENOENT, -EACCES, ...; -ENOEXEC not an ELF file; -ENOMEM. */
int vs_elf_file_open(const char *path, const char *build_id, struct vs_elf_file **ret_file);
/* Accepts NULL. */
void vs_elf_file_close(struct vs_elf_file *file);

/* The raw name of the function that covers `address` (of the file's symbol table), or NULL. Lives as long as the
 * file. */
const char *vs_elf_file_function(const struct vs_elf_file *file, uint64_t address);

#endif
