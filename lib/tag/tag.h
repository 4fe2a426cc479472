/* SPDX-License-Identifier: MIT
 *
 * The words of an analysis: tags, details under a tag, phases. What each means
 * is in the design notes of the project's ARCHITECTURE; the names here are the
 * ones in reports and JSON and never change.
 */
#ifndef VS_TAG_TAG_H
#define VS_TAG_TAG_H

enum vs_tag {
	VS_TAG_WEIGHTS,
	VS_TAG_GRADIENTS,
	VS_TAG_OPTIMIZER,
	VS_TAG_ACTIVATIONS,
	VS_TAG_OUTPUTS, /* made in a forward and still held after the backward that used it */
	VS_TAG_TEMPORARIES,
	VS_TAG_INPUTS,
	VS_TAG_COMMUNICATION,
	VS_TAG_WORKSPACE,
	VS_TAG_UNKNOWN,
	VS_TAG_COUNT
};

enum vs_detail {
	VS_DETAIL_NONE,
#define VS_DETAIL_ROW(identifier, tag, name) VS_DETAIL_##identifier,
#include "tag/details.def"
#undef VS_DETAIL_ROW
	VS_DETAIL_COUNT
};

enum vs_phase {
	VS_PHASE_SETUP,
	VS_PHASE_FORWARD,
	VS_PHASE_BACKWARD,
	VS_PHASE_OPTIMIZER,
	VS_PHASE_ZERO_GRAD,
	VS_PHASE_OTHER,
	VS_PHASE_COUNT
};

/* Static strings: "weights", "forward", ... Out of range: "unknown". */
const char *vs_tag_name(enum vs_tag tag);
const char *vs_phase_name(enum vs_phase phase);
/* The part after the slash: "master". "" for VS_DETAIL_NONE and out of range. */
const char *vs_detail_name(enum vs_detail detail);
/* Static "optimizer/master"; "" for VS_DETAIL_NONE and out of range. */
const char *vs_detail_path(enum vs_detail detail);
/* The tag that a detail belongs to; VS_TAG_UNKNOWN for VS_DETAIL_NONE and out of range. */
enum vs_tag vs_detail_tag(enum vs_detail detail);

#endif
