/* SPDX-License-Identifier: MIT
 *
 * Why one block has its tag: its stack, its life and the rules that decided.
 */
#ifndef VS_REPORT_EXPLAIN_H
#define VS_REPORT_EXPLAIN_H

#include <stdbool.h>

#include "subject.h"

/* Print it for each process and device that has a block at that address among the blocks asked for. False: none has.
 */
bool vs_explain(const struct vs_subjects *subjects, uint64_t address, const char *at);

#endif
