/* SPDX-License-Identifier: MIT
 *
 * Who else is on the simulated cards: a process that the configuration plants
 * (VRAMSIM_OTHERS), and those that share the cards through a file
 * (VRAMSIM_SHARE). Cards are numbered as installed. Any thread.
 */
#ifndef VS_SIM_NEIGHBOURS_H
#define VS_SIM_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

/* The pid of the planted process: beyond the kernel's largest (2^22). */
#define VS_PLANTED_PID 99999999

struct vs_neighbour {
	unsigned int pid;
	uint64_t bytes;
};

/* Once, at the start: bytes of the planted process on each of `count` cards. `path` NULL: nothing is shared. Negative
 * errno where the file cannot be used; then nothing is shared. */
int vs_neighbours_open(const uint64_t *planted, int count, const char *path);

/* What all others hold on a card; _exchange(): and tell them how much this process does. */
uint64_t vs_neighbours_held(int installed);
uint64_t vs_neighbours_exchange(int installed, uint64_t used);

/* The others with bytes on a card, at most `size` of them. Returns their number. */
unsigned int vs_neighbours_list(int installed, struct vs_neighbour *ret_list, unsigned int size);

#endif
