/* SPDX-License-Identifier: MIT
 *
 * A whole call stack on the screen, a line a frame.
 */
#ifndef VS_REPORT_STACK_TEXT_H
#define VS_REPORT_STACK_TEXT_H

#include "common/screen.h"
#include "subject.h"

/* Innermost first, indented; nothing where the trace has no such stack. */
void vs_stack_text(const struct vs_screen *screen, const struct vs_subject *subject, uint32_t id);

#endif
