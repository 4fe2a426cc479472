/* SPDX-License-Identifier: MIT */
#ifndef VS_SHIM_PYTHON_TEXT_H
#define VS_SHIM_PYTHON_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Encode `length` characters of 1, 2 or 4 bytes (`kind`; Latin-1, UCS-2, UCS-4) as UTF-8. At most `size` bytes are
 * written, never part of a character, and no terminator. Lone surrogates, which Python allows, become '?'. Returns
 * the bytes written. */
size_t vs_python_text(const void *characters, uint64_t length, unsigned int kind, char *buffer, size_t size);

#endif
