/* SPDX-License-Identifier: MIT
 *
 * Sizes of memory as people write and read them.
 */
#ifndef VS_COMMON_SIZE_H
#define VS_COMMON_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* "24G", "24GiB", "1.5 GiB", "16000MiB", "80GB", "8519680": K, M, G, T and KiB ... TiB are powers of 1024, KB ... TB
 * powers of 1000, nothing or B is bytes; any case. A fraction is rounded down to a byte. -EINVAL: not a size (or
 * negative); -ERANGE: does not fit 64 bits. */
int vs_size_parse(const char *text, uint64_t *ret_bytes);

#define VS_SIZE_MAX 32 /* enough for any text of the functions below, with the final NUL */

/* "0 B", "512 B", "3.25 KiB", "96.00 MiB", "4.27 GiB": two decimals, at most three digits
 * before them. Returns `text`. */
char *vs_size_format(uint64_t bytes, char text[VS_SIZE_MAX]);
/* The same with a sign, for differences: "+1.20 GiB", "-96.00 MiB", "0 B". */
char *vs_size_format_signed(int64_t bytes, char text[VS_SIZE_MAX]);
/* Powers of 1000, as data sheets and papers count: "112.00 GB". */
char *vs_size_format_decimal(uint64_t bytes, char text[VS_SIZE_MAX]);
/* "1,234,567". */
char *vs_count_format(uint64_t count, char text[VS_SIZE_MAX]);

#endif
