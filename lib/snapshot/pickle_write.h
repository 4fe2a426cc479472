/* SPDX-License-Identifier: MIT
 *
 * Write a pickle of data, protocol 4, as it comes. Only what every unpickler
 * knows (PyTorch's viewer has its own, in JavaScript, without protocol 5 and
 * without integers of more than 8 bytes).
 */
#ifndef VS_SNAPSHOT_PICKLE_WRITE_H
#define VS_SNAPSHOT_PICKLE_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct vs_pickle_writer {
	FILE *out;
	uint32_t memo; /* entries so far */
};

void vs_pickle_begin(struct vs_pickle_writer *writer, FILE *out);
/* -EIO where the stream has failed. */
int vs_pickle_end(struct vs_pickle_writer *writer);

/* Between begin and end: the items; of a dict, keys and values in turn. */
void vs_pickle_dict_begin(struct vs_pickle_writer *writer);
void vs_pickle_dict_end(struct vs_pickle_writer *writer);
void vs_pickle_list_begin(struct vs_pickle_writer *writer);
void vs_pickle_list_end(struct vs_pickle_writer *writer);
/* The two values just written become a pair. */
void vs_pickle_pair(struct vs_pickle_writer *writer);

void vs_pickle_none(struct vs_pickle_writer *writer);
void vs_pickle_bool(struct vs_pickle_writer *writer, bool value);
void vs_pickle_number(struct vs_pickle_writer *writer, uint64_t value);
void vs_pickle_negative(struct vs_pickle_writer *writer, int32_t value);
void vs_pickle_real(struct vs_pickle_writer *writer, double value);
/* Bytes that are no UTF-8 are written as '?'. */
void vs_pickle_text(struct vs_pickle_writer *writer, const char *text);

/* Remember the value just written; vs_pickle_again() writes it once more, in a few bytes. */
uint32_t vs_pickle_remember(struct vs_pickle_writer *writer);
void vs_pickle_again(struct vs_pickle_writer *writer, uint32_t memo);
/* A text that comes often: *memo is 0 at first, and the caller's. */
void vs_pickle_key(struct vs_pickle_writer *writer, const char *text, uint32_t *memo);

#endif
