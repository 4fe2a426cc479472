/* SPDX-License-Identifier: MIT */
#include "tag/tag.h"

static const char *const tag_names[VS_TAG_COUNT] = {
    [VS_TAG_WEIGHTS] = "weights",     [VS_TAG_GRADIENTS] = "gradients",
    [VS_TAG_OPTIMIZER] = "optimizer", [VS_TAG_ACTIVATIONS] = "activations",
    [VS_TAG_OUTPUTS] = "outputs",     [VS_TAG_TEMPORARIES] = "temporaries",
    [VS_TAG_INPUTS] = "inputs",       [VS_TAG_COMMUNICATION] = "communication",
    [VS_TAG_WORKSPACE] = "workspace", [VS_TAG_UNKNOWN] = "unknown",
};

static const char *const phase_names[VS_PHASE_COUNT] = {
    [VS_PHASE_SETUP] = "setup",         [VS_PHASE_FORWARD] = "forward",     [VS_PHASE_BACKWARD] = "backward",
    [VS_PHASE_OPTIMIZER] = "optimizer", [VS_PHASE_ZERO_GRAD] = "zero_grad", [VS_PHASE_OTHER] = "other",
};

struct detail_row {
	enum vs_tag tag;
	const char *name;
};

static const struct detail_row details[VS_DETAIL_COUNT] = {
    [VS_DETAIL_NONE] = {VS_TAG_UNKNOWN, ""},
#define VS_DETAIL_ROW(identifier, t, n) [VS_DETAIL_##identifier] = {VS_TAG_##t, n},
#include "tag/details.def"
#undef VS_DETAIL_ROW
};

/* Every path once, spelled by hand nowhere: the tag's own name is the prefix. */
static const char *const path_of[VS_DETAIL_COUNT] = {
    [VS_DETAIL_NONE] = "",
#define WEIGHTS                         "weights/"
#define GRADIENTS                       "gradients/"
#define OPTIMIZER                       "optimizer/"
#define ACTIVATIONS                     "activations/"
#define OUTPUTS                         "outputs/"
#define TEMPORARIES                     "temporaries/"
#define INPUTS                          "inputs/"
#define COMMUNICATION                   "communication/"
#define WORKSPACE                       "workspace/"
#define VS_DETAIL_ROW(identifier, t, n) [VS_DETAIL_##identifier] = t n,
#include "tag/details.def"
#undef VS_DETAIL_ROW
};

const char *vs_tag_name(enum vs_tag tag)
{
	return (unsigned)tag < VS_TAG_COUNT ? tag_names[tag] : tag_names[VS_TAG_UNKNOWN];
}

const char *vs_phase_name(enum vs_phase phase)
{
	return (unsigned)phase < VS_PHASE_COUNT ? phase_names[phase] : "unknown";
}

const char *vs_detail_name(enum vs_detail detail)
{
	return (unsigned)detail < VS_DETAIL_COUNT ? details[detail].name : "";
}

const char *vs_detail_path(enum vs_detail detail)
{
	return (unsigned)detail < VS_DETAIL_COUNT ? path_of[detail] : "";
}

enum vs_tag vs_detail_tag(enum vs_detail detail)
{
	return (unsigned)detail < VS_DETAIL_COUNT ? details[detail].tag : VS_TAG_UNKNOWN;
}
