/* SPDX-License-Identifier: MIT */
#include "stack_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"

/* Python files by the path that imports them, the user's own by the whole one; libraries by their name. */
static const char *place_of(const struct vs_frame *frame)
{
	const char *imported;

	if (frame->kind == VS_FRAME_NATIVE)
		return vs_path_file(frame->module);
	imported = vs_path_in_packages(frame->file);
	return imported ? imported : frame->file;
}

/* The function and its place, cut where they tell the least: a C++ name and a path end in what matters. */
static void frame_line(const struct vs_screen *screen, const struct vs_frame *frame, unsigned columns, char *ret_line,
                       size_t size)
{
	char place[1024], number[24] = "", function[1024], fitted[1024];

	if (frame->line)
		snprintf(number, sizeof(number), ":%" PRIu32, frame->line);
	snprintf(place, sizeof(place), "%.1000s%s", place_of(frame), number);
	unsigned wanted = vs_text_columns(place);
	unsigned kept = wanted < columns / 3 ? wanted : columns / 3; /* for the place at least */
	vs_text_fit(screen, frame->function, columns - kept - 2,
	            frame->kind == VS_FRAME_NATIVE ? VS_CUT_START : VS_CUT_END, function, sizeof(function));
	vs_text_fit(screen, place, columns - vs_text_columns(function) - 2, VS_CUT_START, fitted, sizeof(fitted));
	snprintf(ret_line, size, "%s  %s", function, fitted);
}

void vs_stack_text(const struct vs_screen *screen, const struct vs_subject *subject, uint32_t id)
{
	const struct vramshim_stack *stack = vramshim_trace_stack(subject->process->trace, id);
	const struct vs_frame *frames;
	char line[2100];
	size_t count;

	if (vs_symbol_stack(subject->symbols, id, &frames, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct vs_frame *frame = &frames[i];
		frame_line(screen, frame, screen->width - 4, line, sizeof(line));
		fprintf(screen->out, "    %s%s%s\n",
		        frame->kind == VS_FRAME_NATIVE ? vs_screen_style(screen, VS_DIM) : "", line,
		        frame->kind == VS_FRAME_NATIVE ? vs_screen_style(screen, VS_PLAIN) : "");
	}
	if (stack && stack->truncated)
		fprintf(screen->out, "    (deeper than the recorder keeps)\n");
}
