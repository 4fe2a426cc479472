/* SPDX-License-Identifier: MIT */
#include "frames.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Python frames between the operation and the user's line: with these two they are all that is told. */
#define MIDDLE_FRAMES (VS_TELLING - 2)

/* Files that only pass calls on: true of every stack, so they tell nothing. */
static const char *const plumbing[] = {
    "/torch/nn/modules/module.py",
    "/torch/_ops.py",
    "/torch/_tensor.py",
    "/torch/overrides.py",
    "/torch/utils/_",
    "/torch/autograd/",
    "/torch/_dynamo/",
    "/torch/_compile.py",
    "/torch/nn/functional.py",
    "/torch/amp/",
    "/torch/cuda/",
    "/torch/optim/optimizer.py",
    "/torch/utils/checkpoint.py",
    "/torch/_functorch/",
    "/torch/_library/",
    "/contextlib.py",
    "/functools.py",
    "/transformers/utils/",
    "/accelerate/hooks.py",
};

/* Folders of installed code, as opposed to the user's own. */
static const char *const installed[] = {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"};

static bool contains_any(const char *text, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strstr(text, list[i]))
			return true;
	}
	return false;
}

static bool is_plumbing(const struct vs_frame *frame)
{
	return frame->file[0] == '<' || contains_any(frame->file, plumbing, LENGTH(plumbing));
}

static bool is_users(const struct vs_frame *frame)
{
	return frame->file[0] != '<' && !contains_any(frame->file, installed, LENGTH(installed));
}

char *vs_frame_text(const struct vs_frame *frame, char text[VS_FRAME_TEXT])
{
	const char *place = vs_path_file(frame->kind == VS_FRAME_PYTHON ? frame->file : frame->module);

	/* "libfoo.so+0x12" names its module already. */
	if (!*place || !strncmp(frame->function, place, strlen(place)))
		snprintf(text, VS_FRAME_TEXT, "%.400s", frame->function);
	else if (frame->line)
		snprintf(text, VS_FRAME_TEXT, "%.400s %.80s:%u", frame->function, place, frame->line);
	else
		snprintf(text, VS_FRAME_TEXT, "%.400s %.80s", frame->function, place);
	return text;
}

/* The identifier that follows the last `prefix` in a C++ name. */
static bool identifier_after(const char *function, const char *prefix, char *ret_name, size_t size)
{
	const char *at = strstr(function, prefix);
	size_t length = 0;

	if (!at)
		return false;
	at += strlen(prefix);
	while (isalnum((unsigned char)at[length]) || at[length] == '_')
		length++;
	if (!length || length >= size)
		return false;
	memcpy(ret_name, at, length);
	ret_name[length] = '\0';
	return true;
}

/* What PyTorch's dispatcher was asked for: the outermost operation called from Python, or the node of the backward
 * graph. Frames are innermost first. */
static bool operation(const struct vs_frame *frames, size_t count, char *ret_name, size_t size)
{
	bool found = false;

	for (size_t i = 0; i < count && frames[i].kind == VS_FRAME_NATIVE; i++) {
		const char *function = frames[i].function;
		if (strstr(function, "Backward") && strstr(function, "::apply") &&
		    (identifier_after(function, "autograd::generated::", ret_name, size) ||
		     identifier_after(function, "autograd::", ret_name, size)))
			return true;
		found |= identifier_after(function, "at::_ops::", ret_name, size);
	}
	return found;
}

void vs_frames_telling(const struct vs_frame *frames, size_t count, struct vs_telling *ret_telling)
{
	struct vs_telling *told = ret_telling;
	unsigned middle = 0;

	told->count = 0;
	if (operation(frames, count, told->frames[0], VS_FRAME_TEXT))
		told->count++;
	for (size_t i = 0; i < count; i++) {
		const struct vs_frame *frame = &frames[i];
		if (frame->kind != VS_FRAME_PYTHON)
			continue;
		if (is_users(frame)) {
			vs_frame_text(frame, told->frames[told->count++]);
			return;
		}
		if (!is_plumbing(frame) && middle < MIDDLE_FRAMES) {
			vs_frame_text(frame, told->frames[told->count++]);
			middle++;
		}
	}
	/* No Python at all and no operation: a library by itself. The outermost frames are thread start-up, the
	 * innermost the allocator: the first outside both is as good as any. */
	for (size_t i = 0; i < count && !told->count; i++) {
		if (!strstr(frames[i].function, "c10::") && !strstr(frames[i].module, "libvramshim") &&
		    !strstr(frames[i].function, "Allocat"))
			vs_frame_text(&frames[i], told->frames[told->count++]);
	}
}
