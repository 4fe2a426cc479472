/* SPDX-License-Identifier: MIT
 *
 * The few frames of a call stack that tell a person what it is: the operation, the module, the user's own line.
 */
#ifndef VS_REPORT_FRAMES_H
#define VS_REPORT_FRAMES_H

#include <stddef.h>

#include "symbol/symbol.h"

#define VS_FRAME_TEXT 512

/* "LlamaMLP.forward modeling_llama.py:175", "at::native::mm libtorch_cuda.so". Returns `text`. */
char *vs_frame_text(const struct vs_frame *frame, char text[VS_FRAME_TEXT]);

#define VS_TELLING 4

struct vs_telling {
	unsigned count;
	char frames[VS_TELLING][VS_FRAME_TEXT];
};

/* Innermost first: the operation ("mm", "MmBackward0"), the innermost Python frames that are not plumbing, and the
 * innermost frame of the user's own code. None for an empty stack. */
void vs_frames_telling(const struct vs_frame *frames, size_t count, struct vs_telling *ret_telling);

#endif
