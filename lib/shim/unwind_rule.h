/* SPDX-License-Identifier: MIT
 *
 * How to step from a function to its caller: one rule for each return address, learned from the unwind tables that
 * every library brings along (.eh_frame), kept for as long as the process lives.
 *
 * Only the plain cases, which are nearly all: the frame's end at a constant distance of rsp or rbp, the return
 * address below it. Everything else (signal frames, code without tables, realigned stacks) is left to libunwind.
 */
#ifndef VS_SHIM_UNWIND_RULE_H
#define VS_SHIM_UNWIND_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum vs_unwind_kind {
	VS_UNWIND_FOREIGN = 1, /* not for us */
	VS_UNWIND_END,         /* outermost: no caller */
	VS_UNWIND_PLAIN,
};

/* "cfa" is the value of rsp in the caller, after the return (DWARF's canonical frame address). */
struct vs_unwind_rule {
	uint8_t kind;      /* enum vs_unwind_kind */
	bool cfa_from_rbp; /* else from rsp */
	bool rbp_saved;    /* at cfa + rbp_offset; else rbp is still the caller's */
	int16_t rbp_offset;
	int32_t cfa_offset;
};

/* Find what finds the tables, once a process. May take the loader's lock. */
void vs_unwind_prepare(void);
/* The rule for code that a call returns to at `address`. Any thread, any time; takes no lock of ours, and none at all
 * where the C library is 2.35 or later. Never allocates. */
struct vs_unwind_rule vs_unwind_rule(uint64_t address);

/* For the tests: the rule as the tables at hand say, nothing remembered. `function` is the entry of the table (an FDE
 * of .eh_frame) for a function that starts at `begin`, readable from `low` to `high`, `target` an address in it. */
struct vs_unwind_rule vs_unwind_read(const uint8_t *function, const uint8_t *low, const uint8_t *high,
                                     uint64_t target);

#endif
