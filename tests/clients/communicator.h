/* SPDX-License-Identifier: MIT
 *
 * A library of collectives as a program sees it: no CUDA in its interface, none among what it needs.
 */
#ifndef VS_TESTS_COMMUNICATOR_H
#define VS_TESTS_COMMUNICATOR_H

#include <stddef.h>
#include <stdint.h>

struct communicator;

/* What it holds, as it knows it. */
struct communicator_bytes {
	uint64_t device, pinned, physical, mapped, reserved;
};

/* `channels` rings of `size` bytes each. Any thread, with a context or without; 0 or CUDA's code. */
int communicator_open(struct communicator **communicator, int channels, size_t size);
/* Register a buffer of the caller's: takes a table of its own on the card. */
int communicator_register(struct communicator *communicator, size_t buffer_size);
void communicator_bytes(const struct communicator *communicator, struct communicator_bytes *bytes);
int communicator_close(struct communicator *communicator);
/* 0, or why its runtime cannot work: it is no good where the driver has no tables for it. */
int communicator_tables(void);

#endif
