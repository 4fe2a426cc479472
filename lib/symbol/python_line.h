/* SPDX-License-Identifier: MIT
 *
 * From an instruction to a line, by the table in a Python code object.
 */
#ifndef VS_SYMBOL_PYTHON_LINE_H
#define VS_SYMBOL_PYTHON_LINE_H

#include <stdint.h>
#include <vramshim/events.h>

/* The line of the instruction at byte offset `instruction` of co_code, for CPython 3.`minor` (3.8 on; the table's
 * format changed in 3.10 and 3.11). The code's first line where the table is missing, damaged or too short, where
 * the instruction is -1, or where the instruction has no line of its own. */
uint32_t vs_python_line(const struct vramshim_code *code, int32_t instruction, unsigned minor);

#endif
