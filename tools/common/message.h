/* SPDX-License-Identifier: MIT
 *
 * What a program says to its user when something is wrong: one line on stderr.
 */
#ifndef VS_COMMON_MESSAGE_H
#define VS_COMMON_MESSAGE_H

/* Prints "PROGRAM: TEXT\n" on stderr in one write, so that lines of several processes do not mix. Control
 * characters in TEXT (names come from outside) are shown as '?'; TEXT is cut at about 2000 bytes. */
void vs_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
