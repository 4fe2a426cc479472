/* SPDX-License-Identifier: MIT
 *
 * One field of a CSV line (RFC 4180).
 */
#ifndef VS_COMMON_CSV_H
#define VS_COMMON_CSV_H

#include <stdio.h>

/* Quoted only where it must be. NULL is an empty field. */
void vs_csv_field(FILE *out, const char *text);

#endif
